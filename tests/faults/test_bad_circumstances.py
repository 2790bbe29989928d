"""Programs in bad circumstances: no thread, no file descriptor, no folder, no stderr, the interpreter's end.

Each program prints `done` and ends as it would without clew; what clew has to say begins with `clew:`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import clew

BEGINNING = """
import os, sys, threading, _thread, time
import clew
@clew.watch("a")
def f(n):
    a = n
    a = [n]
    return n
@clew.follow(show=False)
def g(n):
    return [n]
def work():
    f(1)
    g(2)
    clew.log("x")
    with clew.run("named"):
        f(3)
def fill_descriptors():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    try:
        while True:
            os.open("/dev/null", 0)
    except OSError:
        pass
def limit_files(size):
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
def refuse(*args, **kwargs):
    raise RuntimeError("can't start new thread")
"""
PROGRAMS = {
    "no thread can be started": "threading.Thread.start = refuse; work()",
    "the system starts no thread": """
        for name in ("_start_new_thread", "_start_joinable_thread"):
            if hasattr(threading, name):
                setattr(threading, name, refuse)
        work()
        """,
    "no descriptor is free when a run opens": "fill_descriptors(); work()",
    "no descriptor is free while a run is open": "f(0); fill_descriptors(); work(); work()",
    "called from atexit": "import atexit; atexit.register(work)",
    "called from atexit while a run is open": "import atexit; atexit.register(work); f(0)",
    "called from a finaliser at the end": """
        class Late:
            def __del__(self):
                f(5)
                g(6)
        late = Late()
        late.itself = late
        sys.modules["kept to the end"] = late
        f(0)
        """,
    "called from the garbage collector in a flush": """
        import gc
        class Garbage:
            def __del__(self):
                f(5)
        gc.set_threshold(5)
        for _ in range(200):
            garbage = Garbage()
            garbage.itself = garbage
            f(1)
            clew.recording.current().flush()
        """,
    "the current folder is gone": """
        import tempfile
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)
        del os.environ["CLEW_DIR"]
        work()
        """,
    "the folder cannot be made": 'os.environ["CLEW_DIR"] = "/proc/nowhere"; work()',
    "there is no stderr": 'os.environ["CLEW_DIR"] = "/proc/nowhere"; sys.stderr = None; work()',
    "stderr is closed": 'os.environ["CLEW_DIR"] = "/proc/nowhere"; sys.stderr.close(); os.close(2); work()',
    "the disk is full from the start": "limit_files(0); work()",
    "the disk fills up": "limit_files(3000); [f(n) for n in range(2000)]; work()",
    "modules are deleted": """
        f(0)
        for name in [name for name in sys.modules if name.startswith(("clew", "pyarrow", "numpy"))]:
            del sys.modules[name]
        f(1)
        g(2)
        """,
    "the stack is short": "f(0); sys.setrecursionlimit(60); work()",
    "a signal's handler is watched": """
        import signal
        f(0)
        signal.signal(signal.SIGALRM, lambda *_: f(7))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        end = time.time() + 0.5
        while time.time() < end:
            f(8)
            clew.recording.current().flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
        """,
    "memory is short": """
        import clew.recorder.recorder as recorder
        def fail(*_):
            raise MemoryError
        f(0)
        recorder.Recorder._flush = fail
        work()
        """,
}


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs"), "CLEW_STRICT": "0"}
    command = [sys.executable, "-W", "error", "program.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("circumstance", PROGRAMS)
def test_a_program_goes_on_when(circumstance: str, tmp_path: Path) -> None:
    program = BEGINNING + textwrap.dedent(PROGRAMS[circumstance]) + '\nprint("done")\n'
    done = run(program, tmp_path)
    unexpected = [line for line in done.stderr.splitlines() if not line.startswith("clew: ")]
    assert (done.returncode, done.stdout, unexpected) == (0, "done\n", []), done.stderr


def test_what_a_program_does_at_exit_is_in_its_run(tmp_path: Path) -> None:
    done = run(BEGINNING + "import atexit\natexit.register(f, 7)\nf(0)\n", tmp_path)
    assert done.returncode == 0, done.stderr
    [recorded] = clew.runs(tmp_path / "runs")
    assert recorded.status == "finished"
    assert [call.args["n"] for call in recorded.calls("f")] == [0, 7]


def test_no_run_opens_by_itself_after_the_runs_were_closed_at_exit(tmp_path: Path) -> None:
    late = "import atexit\natexit.register(lambda: work())\n"  # before clew is imported: called after clew's own
    assert run(late + BEGINNING + "f(0)\n", tmp_path).returncode == 0
    recorded = {run.meta["name"]: run for run in clew.runs(tmp_path / "runs")}
    assert {name: run.status for name, run in recorded.items()} == {"program": "finished", "named": "finished"}
    assert [call.args["n"] for call in recorded["named"].calls("f")] == [3]


THREADS = """
called = set()
def work(n):
    while True:
        f(n)
        g(n)
        called.add(n)
        time.sleep(0.001)
def begin(n):
    threading.Thread(target=work, args=(n,), daemon=True).start()
begin(1)
begin(2)
while len(called) < 2:
    time.sleep(0.01)
"""
GREENLETS = "from gevent import monkey\nmonkey.patch_all()\n"


@pytest.mark.parametrize("first", ["", pytest.param(GREENLETS, id="greenlets")])
def test_threads_that_outlive_their_run_are_no_failure(first: str, tmp_path: Path) -> None:
    done = run(first + BEGINNING + THREADS, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    [recorded] = clew.runs(tmp_path / "runs")
    assert (recorded.status, recorded.problems) == ("finished", [])
    assert {call.args["n"] for call in recorded.calls("f")} == {1, 2}

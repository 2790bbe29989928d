"""Runs: how they open, close, are named and switched, also when things go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import OptionError
from clew.text.sizes import parse_size

WATCHED = """
import clew, os, sys, time
@clew.watch("x")
def f(n=3):
    for i in range(n):
        x = i
    return x
"""


def run_script(folder: Path, source: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(WATCHED + textwrap.dedent(source))
    return subprocess.run(
        [sys.executable, str(path), *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "CLEW_DIR": str(folder / "runs"), **env},
    )


def only_run(folder: Path) -> clew.Run:
    (run,) = clew.runs(folder / "runs")
    return run


def test_a_run_opens_by_itself_and_closes_at_exit(tmp_path: Path) -> None:
    done = run_script(tmp_path, "f()")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    run = only_run(tmp_path)
    assert run["x"].values == [0, 1, 2]
    assert run.status == "finished"


def test_nothing_is_written_when_nothing_is_recorded(tmp_path: Path) -> None:
    assert run_script(tmp_path, "pass").returncode == 0
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("ending", "status", "code"),
    [
        ("raise ValueError('no')", "failed", 1),
        ("sys.exit(3)", "finished", 3),
        ("time.sleep(1); raise KeyboardInterrupt", "interrupted", -signal.SIGINT),
    ],
)
def test_a_run_closes_however_the_program_ends(tmp_path: Path, ending: str, status: str, code: int) -> None:
    done = run_script(tmp_path, f"f()\n{ending}")
    assert done.returncode == code
    run = only_run(tmp_path)
    assert run["x"].values == [0, 1, 2]
    assert run.status == status


def test_sys_exit_inside_a_watched_function_is_known(tmp_path: Path) -> None:
    run_script(tmp_path, "@clew.watch('y')\ndef g():\n    y = 1\n    sys.exit(4)\ng()")
    run = only_run(tmp_path)
    assert (run.status, run.meta["exit"]) == ("exited", 4)


def test_kill_9_loses_nothing_older_than_a_second(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        WATCHED
        + "@clew.watch('k')\ndef g():\n    k = 0\n    while True:\n        k += 1\n"
        + "        print(k, time.time(), flush=True)\n        time.sleep(0.01)\ng()\n"
    )
    environment = {**os.environ, "CLEW_DIR": str(tmp_path / "runs")}
    process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    said = [process.stdout.readline().split()]
    while len(said) < 50 or float(said[-1][1]) < float(said[0][1]) + 2:
        said.append(process.stdout.readline().split())
    process.kill()
    said += [line.split() for line in process.communicate()[0].splitlines()]
    killed_at = float(said[-1][1])
    old = [int(k) for k, when in said if float(when) < killed_at - 1]
    run = only_run(tmp_path)
    assert len(old) > 5
    assert set(old) <= set(run["k"].values)
    assert run.status == "killed"


def test_metadata_says_what_ran_where_and_how(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    run_script(tmp_path, "f()", "--lr", "0.1")
    meta = only_run(tmp_path).meta
    assert meta["argv"][1:] == ["--lr", "0.1"]
    assert meta["cwd"] == str(tmp_path)
    assert len(meta["git"]["commit"]) == 40
    assert meta["git"]["dirty"] is False
    assert meta["python"].startswith("3.")
    assert "numpy" in meta["packages"]
    assert meta["name"] == "script"
    for key in ("host", "user", "platform", "started", "ended", "pid"):
        assert meta[key]


def test_no_thread_that_asks_git_outlives_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the interpreter's end such a thread aborts the process if no file descriptor is free."""
    slow_once = f"#!/bin/sh\n[ -e {tmp_path}/asked ] || {{ touch {tmp_path}/asked; sleep 0.3; }}\nexit 1\n"
    (tmp_path / "git").write_text(slow_once)
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with clew.run(path=tmp_path / "run"):
        pass
    assert "clew-git" not in [thread.name for thread in threading.enumerate()]


def test_a_named_run_has_name_tags_and_path(tmp_path: Path) -> None:
    with clew.run("bf16 / try", tags={"lr": 3e-4}) as run:
        assert clew.current() is run
    assert clew.current() is None
    assert run.path is not None and run.path.name.endswith("-bf16-try")
    assert (run.meta["name"], run.meta["tags"]) == ("bf16 / try", {"lr": 3e-4})


def test_a_run_with_a_path_of_its_own_is_there(tmp_path: Path) -> None:
    with clew.run(path=tmp_path / "here") as run:
        pass
    assert run.path == tmp_path / "here"
    assert clew.open(tmp_path / "here").status == "finished"


def test_a_folder_with_something_in_it_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(OptionError, match="not empty"), clew.run(path=tmp_path):
        pass


def test_an_exception_in_a_named_run_is_noted_and_goes_on() -> None:
    with pytest.raises(ZeroDivisionError), clew.run() as run:
        1 / 0
    assert (run.status, run.meta["error"]) == ("failed", "ZeroDivisionError: division by zero")


def test_nested_runs_get_what_happens_inside_them() -> None:
    @clew.watch("x")
    def f(value: int) -> None:
        x = value

    with clew.run("outer") as outer:
        f(1)
        with clew.run("inner") as inner:
            f(2)
        f(3)
    assert outer["x"].values == [1, 3]
    assert inner["x"].values == [2]


def test_a_run_can_be_read_while_it_goes_on() -> None:
    @clew.watch("x")
    def f(value: int) -> None:
        x = value

    with clew.run() as run:
        f(1)
        assert run["x"].values == [1]
        f(2)
        assert run["x"].values == [1, 2]
        assert run.status == "running"


def test_off_takes_the_code_out_and_on_puts_it_back() -> None:
    def f(value: int) -> int:
        x = value
        return x

    original = f.__code__
    clew.watch("x")(f)
    instrumented = f.__code__
    assert instrumented is not original
    with clew.run() as run:
        f(1)
        clew.off()
        assert f.__code__ is original
        f(2)
        clew.on()
        assert f.__code__ is instrumented
        f(3)
    assert run["x"].values == [1, 3]


def test_what_a_running_function_does_while_off_is_not_written() -> None:
    @clew.watch("x")
    def f() -> None:
        x = 1
        clew.off()
        x = 2
        clew.on()
        x = 3

    with clew.run() as run:
        f()
    assert run["x"].values == [1, 3]


def test_clew_0_leaves_everything_untouched(tmp_path: Path) -> None:
    source = """
    def g(): y = 1
    before = g.__code__
    clew.watch("y")(g)
    assert g.__code__ is before
    with clew.run("named") as run:
        with clew.watch("z"):
            z = 1
        g(); f()
    print(run.path)
    """
    done = run_script(tmp_path, source, CLEW="0")
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr
    assert not (tmp_path / "runs").exists()


# ---- processes -------------------------------------------------------------------------------------------------------


def test_a_forked_child_continues_into_its_own_shard(tmp_path: Path) -> None:
    source = """
    f(2)
    pid = os.fork()
    f(5)
    if pid: os.waitpid(pid, 0)
    """
    done = run_script(tmp_path, source)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    assert sorted(call.args["n"] for call in run.calls("f")) == [2, 5, 5]
    assert len(list((run.path / "shards").iterdir())) == 2
    assert run.status == "finished"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_children_write_into_the_same_run(tmp_path: Path, method: str) -> None:
    source = f"""
    if __name__ == "__main__":
        import multiprocessing
        f(1)
        with multiprocessing.get_context("{method}").Pool(2) as pool:
            assert pool.map(f, [3, 4]) == [2, 3]
            pool.close()
            pool.join()
    """
    done = run_script(tmp_path, source)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    assert sorted(call.args["n"] for call in run.calls("f")) == [1, 3, 4]
    assert all(call.duration is not None for call in run.calls("f"))


def test_two_programs_at_once_have_a_run_each(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(WATCHED + "f()\n")
    env = {**os.environ, "CLEW_DIR": str(tmp_path / "runs")}
    processes = [subprocess.Popen([sys.executable, str(path)], env=env) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert [run["x"].values for run in clew.runs(tmp_path / "runs")] == [[0, 1, 2]] * 4


# ---- trouble ---------------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_one_message_and_no_harm(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    done = run_script(tmp_path, "f(); f(); print('done')")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("clew:") == 1
    assert "CLEW_DIR" in done.stderr


def test_a_run_folder_deleted_while_running_is_one_message_and_no_harm(tmp_path: Path) -> None:
    source = """
    import shutil
    f(); clew.current().flush()
    shutil.rmtree(clew.current().path)
    f(); time.sleep(0.5); f()
    print("done")
    """
    done = run_script(tmp_path, source)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert 1 <= done.stderr.count("clew:") <= 2, done.stderr


def test_a_full_disk_is_one_message_and_the_run_stays_readable(tmp_path: Path) -> None:
    source = """
    import resource, signal
    f(100); clew.current().flush()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
    for _ in range(20): f(1000); clew.current().flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    print("done")
    """
    done = run_script(tmp_path, source)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.count("has stopped") == 1
    run = only_run(tmp_path)
    assert run["x"].values[:100] == list(range(100))


def test_a_closed_stderr_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    done = run_script(tmp_path, "os.close(2); sys.stderr = None; f(); print('done')")
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_the_ledger_tells_what_was_never_there(tmp_path: Path) -> None:
    source = """
    @clew.watch("acuracy")
    def g(): accuracy = 1
    @clew.watch("z")
    def never(): z = 1
    f(); g()
    """
    done = run_script(tmp_path, source)
    ledger = {note.kind: note for note in only_run(tmp_path).ledger}
    assert "did you mean `accuracy`" in ledger["never-seen"].text
    assert ledger["never-called"].subject == "never()"
    assert done.stderr.count("\n") == 1


def test_the_line_at_exit_can_be_silenced(tmp_path: Path) -> None:
    assert run_script(tmp_path, "@clew.watch('q')\ndef g(): pass\ng()", CLEW_QUIET="1").stderr == ""


@pytest.mark.parametrize(("text", "bytes"), [("2GB", 2 * 10**9), ("1.5 MiB", 3 * 2**19), (7, 7), ("10", 10)])
def test_sizes_as_people_write_them(text: Any, bytes: int) -> None:
    assert parse_size(text, "disk") == bytes


@pytest.mark.parametrize("bad", ["lots", "-1", -1, "2 parsecs", True, None])
def test_a_bad_size_names_the_option(bad: Any) -> None:
    with pytest.raises(OptionError, match="memory"):
        parse_size(bad, "memory")


def test_the_disk_budget_keeps_summaries_and_says_so() -> None:
    import numpy as np

    @clew.watch("a")
    def f() -> None:
        for i in range(20):
            a = np.full(10_000, float(i))

    with clew.run(disk="400kB") as run:
        f()
    values = run["a"].values
    assert len(values) == 20
    assert isinstance(values[-1], clew.NotKept) and values[-1].summary.max == 19.0
    assert "budget" in values[-1].why
    assert any(note.kind == "dropped" for note in run.ledger)


def test_run_json_is_plain_json(tmp_path: Path) -> None:
    with clew.run(path=tmp_path / "r", tags={"x": float("inf"), "o": object()}) as run:
        pass
    assert json.loads((run.path / "run.json").read_text())["name"]

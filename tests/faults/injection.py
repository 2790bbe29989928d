"""Runs a program once for each function of clew that its probes call, and lets that function raise.

The functions are found by running the program with a profiler, so that a new one is tried without anybody thinking of
it. The program's libraries are loaded once: each run is a fork of a process that has loaded them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

#: Each target is `-` (nothing fails), `?` (lists the functions), a function, or a function and `#` and a number: it
#: fails at that one of its calls only. A function inside another one, or one that pauses, can only be met so.
HARNESS = """
import json, os, signal, sys, types
import clew, clew.recorder.row_output, clew.instrument.events, pyarrow  # late ones: now, and not in every fork
package = os.path.dirname(clew.__file__) + os.sep
target = ""
class Injected(Exception):
    pass
{program}
seen = {{}}
def is_ours(frame):
    return frame is not None and frame.f_code.co_filename.startswith(package)
def name_of(code):
    return code.co_filename[len(package):] + ":" + code.co_qualname
def is_behind(frame, event):
    # no bodies of classes and modules; what the program itself calls is an entry point, and is to catch what is behind
    return event == "call" and is_ours(frame) and frame.f_code.co_flags & 2 and is_ours(frame.f_back)
def note(frame, event, arg):
    if is_behind(frame, event):
        code = frame.f_code
        count, pauses = seen.get(name_of(code), (0, False))
        seen[name_of(code)] = count + 1, "<" in code.co_qualname or bool(code.co_flags & 0x2A0)
def raising(code):
    # code that raises whenever it is called, in the place of this one: any arguments, the same free variables
    names = ", ".join(code.co_freevars)
    use = "(" + names + ",)" if names else "pass"
    text = "def outer(" + names + "):\\n def inner(*args, **kwargs):\\n  " + use + "\\n  raise Injected(target)"
    namespace = {{}}
    exec(text, namespace)
    new = next(c for c in namespace["outer"].__code__.co_consts if isinstance(c, types.CodeType))
    return new.replace(co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname)
def inject(name):
    import gc
    found = 0
    for each in gc.get_objects():
        if type(each) is types.FunctionType and each.__code__.co_filename.startswith(package):
            if name_of(each.__code__) == name:
                each.__globals__.setdefault("Injected", Injected)
                each.__globals__.setdefault("target", name)
                each.__code__ = raising(each.__code__)
                found += 1
    assert found, name
def inject_once(name, number):
    import threading
    calls = []
    def raise_there(frame, event, arg):
        if is_behind(frame, event) and name_of(frame.f_code) == name:
            calls.append(None)
            if len(calls) == number:  # the profiler is gone by this
                raise Injected(name)
    threading.setprofile(raise_there)
    sys.setprofile(raise_there)
def run():
    if target == "?":
        sys.setprofile(note)
        main()
        sys.setprofile(None)
        return seen
    name, _, number = target.partition("#")
    if name != "-":
        import importlib  # what is loaded late is there to be found
        importlib.import_module("clew." + name.partition(".py:")[0].replace("/", ".").removesuffix(".__init__"))
        inject_once(name, int(number)) if number else inject(name)
    try:
        return main()
    finally:
        sys.setprofile(None)
def redirect(number, path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, number)
    os.close(file)
folder = sys.argv[1]
for index, each in enumerate(json.load(open(os.path.join(folder, "targets.json")))):
    pid = os.fork()
    if pid == 0:
        target = each
        signal.alarm(300)
        redirect(1, os.path.join(folder, f"{{index}}.out"))
        redirect(2, os.path.join(folder, f"{{index}}.err"))
        print(json.dumps(run()))
        break
    status = os.waitpid(pid, 0)[1]
    with open(os.path.join(folder, f"{{index}}.code"), "w") as file:
        file.write(str(os.waitstatus_to_exitcode(status)))
"""

#: Not behind an entry point: decorators and options, where an error is the user's to see, reports, and the guards.
NOT_BEHIND = (
    "recording.py:Recording.__init__",
    "live_reading.py:ReadsLikeARun.__init__",  # of Recording.__init__: two assignments
    "recording.py:on_switch",
    "recorder/child_processes.py:tell_run",
    "values/keep.py",
    "sizes.py",
    "probes/watch/__init__.py:watch.__init__",
    "instrument/options.py",
    "instrument/expressions.py",
    "instrument/targets.py",
    "probes/pipeline/item_sessions.py:_positive",
    "instrument/call_guard.py",
    "probes/pipeline/plugins/torchloader.py:_guarded",  # a guard as well
    "probes/follow/live_telling.py:TellingTrace.__iadd__",
    "magics.py:run_cell",  # the magic itself
    "trouble.py",
    "env.py",
)
#: The first call of it may be one for the options of a block, where an error is the user's: later ones are tried.
ALSO_OF_OPTIONS = frozenset({"instrument/parsing.py:parse"})


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def run_all(program: str, targets: list[str], folder: Path, **environment: str) -> list[Outcome]:
    """The program, once for each target."""
    script = folder / "program.py"
    script.write_text(HARNESS.format(program=textwrap.dedent(program)))
    (folder / "targets.json").write_text(json.dumps(targets))
    env = {**os.environ, "CLEW_DIR": str(folder / "runs"), "CLEW_STRICT": "0", "CLEW_QUIET": "1", **environment}
    done = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    read = [[(folder / f"{n}.{end}").read_text(errors="replace") for end in ("code", "out", "err")]
            for n in range(len(targets))]  # fmt: skip
    return [Outcome(int(code), out, err) for code, out, err in read]


def functions_behind(program: str, folder: Path) -> list[str]:
    """As targets: each function that always fails; and those that fail at their first call, or at a later one."""
    [outcome] = run_all(program, ["?"], folder)
    assert outcome.code == 0, outcome.err
    found: dict[str, tuple[int, bool]] = json.loads(outcome.out)
    names = {name: found[name] for name in found if not name.startswith(NOT_BEHIND)}
    always = [name for name, (_, pauses) in names.items() if not pauses and name not in ALSO_OF_OPTIONS]
    first = [f"{name}#1" for name, (_, pauses) in names.items() if pauses]
    return [*always, *first, *(f"{name}#2" for name, (count, _) in names.items() if count > 1)]


#: The long forms are tried in so many tests: one that takes minutes is taken for one that hangs on a busy machine.
PARTS = range(4)


def check(program: str, targets: list[str], folder: Path) -> None:
    """Whatever fails, the program gives what it gives without clew."""
    [expected] = run_all(program, ["-"], folder, CLEW="0")
    assert expected.code == 0, expected.err
    outcomes = zip(targets, run_all(program, targets, folder), strict=True)
    wrong = [(target, each) for target, each in outcomes if (each.code, each.out) != (0, expected.out)]
    assert not wrong, "\n".join(
        f"{target}: {each.code}, {each.out[:300]}\n{textwrap.indent(each.err[-1200:], '    ')}"
        for target, each in wrong
    )

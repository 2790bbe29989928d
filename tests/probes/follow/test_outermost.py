"""Followed calls that no other one surrounds: one after the other in one log, each with what is around it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import clew
from clew.recorder.call_log import Trace
from clew.recorder.recorder import Recorder
from probes.follow.tracing import load, names

CALLED = """
def inner(x):
    return x

def f(x):
    if x == "error":
        raise ValueError(x)
    return inner(x)

def once(x):
    return f(x)

def again(x):
    return f(x)
"""


def test_calls_of_a_thread_share_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = []
    follow = Recorder.follow

    def counted(self: Recorder, trace: Trace) -> None:
        logs.append(trace.thread)
        follow(self, trace)

    monkeypatch.setattr(Recorder, "follow", counted)
    f = clew.follow(show=False)(load(tmp_path, CALLED).f)
    with clew.run(path=tmp_path / "run") as run:
        for i in range(3):
            f(i)
        threads = [threading.Thread(target=lambda: [f("thread"), f("thread")]) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
        f(3)
    assert len(logs) == 3
    assert names(clew.open(run.path)) == [["f", "inner"]] * 8


def test_each_call_has_its_own_callers(tmp_path: Path) -> None:
    module = load(tmp_path, CALLED)
    clew.follow(show=False)(module.f)
    with clew.run(path=tmp_path / "run") as run:
        for _ in range(100):
            module.once(1)
            module.again(2)
            with pytest.raises(ValueError, match="error"):
                module.f("error")
    calls = clew.open(run.path).calls("f")
    assert [call.callers[0].function for call in calls[:4]] == ["once", "again", calls[2].callers[0].function, "once"]
    assert [call.callers for call in calls] == [calls[i].callers for i in range(3)] * 100
    assert [call.error is not None for call in calls] == [False, False, True] * 100


def test_each_call_is_under_the_watched_call_around_it(tmp_path: Path) -> None:
    module = load(tmp_path, CALLED)
    clew.follow(show=False)(module.f)
    clew.watch("x")(module.once)
    with clew.run(path=tmp_path / "run") as run:
        for i in range(100):
            module.once(i)
            module.f(-i)
    roots = clew.open(run.path).tree().roots
    assert [call.function for call in roots] == ["once", "f"] * 100
    assert all([child.function for child in call.children] == ["f"] for call in roots[::2])


def test_a_call_whose_end_was_not_recorded_does_not_hold_the_next(tmp_path: Path) -> None:
    source = "import clew\n\ndef f(x):\n    if x == 0:\n        clew.off()\n    return x\n"
    f = clew.follow(show=False)(load(tmp_path, source).f)
    with clew.run(path=tmp_path / "run") as run:
        f(0)
        run._recorder.flush()
        clew.on()
        for i in range(100):
            f(i + 1)
    assert len(clew.open(run.path).tree().roots) == 101


MAIN = """
import sys
import clew

@clew.follow(show=False)
def outer(call):
    return call()

with clew.run(path=sys.argv[1]):
    for i in range(8):
        def made_again():
            return i
        outer(made_again)
    outer(lambda: 0)
    def made_later():
        return 1
    outer(made_later)
"""


def test_functions_that_the_program_makes_between_calls_are_followed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MAIN)
    subprocess.run([sys.executable, program, tmp_path / "run"], check=True)
    run = clew.open(tmp_path / "run")
    assert len(run.calls("made_again")) == 8
    assert len(run.calls("made_later")) == 1

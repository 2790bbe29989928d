"""Ctrl-C: whenever a program would die of SIGINT without clew, it does with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clew

PLAIN = """
import time
print("up", flush=True)
time.sleep(20)
"""
DECORATED = """
import time
print("up", flush=True)
import clew
@clew.watch("a")
def f():
    a = 1
    time.sleep(20)
f()
"""
CLOSING = """
import time
import clew
import clew.store.writer as writer
@clew.watch("a")
def f():
    a = 1
f()
close = writer.ShardWriter.close
def slow_close(self, **options):
    print("up", flush=True)
    time.sleep(1)
    close(self, **options)
writer.ShardWriter.close = slow_close
"""
COMMANDS = {"clew run": ["-m", "clew", "run"], "python": []}


def interrupted(folder: Path, program: str, before: list[str], delay: float) -> tuple[int, str]:
    """The exit status and what was printed, when Ctrl-C comes so long after the program is up."""
    (folder / "program.py").write_text(program)
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs"), "CLEW_STRICT": "0"}
    command = [sys.executable, *before, "program.py"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=300)
    return process.returncode, printed


@pytest.mark.parametrize(
    ("program", "command"), [(PLAIN, "clew run"), (DECORATED, "python"), (DECORATED, "clew run")]
)  # fmt: skip
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15, 0.3])
def test_a_program_dies_of_the_signal(tmp_path: Path, program: str, command: str, delay: float) -> None:
    for _ in range(5):
        status, printed = interrupted(tmp_path, program, COMMANDS[command], delay)
        if not printed.startswith("Exception ignored in"):
            break  # else it came while Python was in a weak reference's callback, and Python has dropped it
    assert status == -signal.SIGINT, printed
    assert printed.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("milliseconds", range(0, 600, 20))
def test_a_program_dies_of_the_signal_at_any_moment(tmp_path: Path, command: str, milliseconds: int) -> None:
    status, printed = interrupted(tmp_path, DECORATED, COMMANDS[command], milliseconds / 1000)
    assert status == -signal.SIGINT, printed


def test_a_signal_while_the_run_is_closed_waits_for_it(tmp_path: Path) -> None:
    assert interrupted(tmp_path, CLOSING, [], 0.1) == (-signal.SIGINT, "")
    (run,) = clew.runs(tmp_path / "runs")
    assert run["a"].values == [1]
    assert run.status == "finished"

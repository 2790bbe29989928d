"""Calls that were open when their process forked."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import clew

BEGINNING = """
import os, sys, time
import clew

@clew.watch("y")
def helper(n):
    y = n
    return y
"""


def run_program(tmp_path: Path, program: str) -> tuple[clew.Run, str]:
    (tmp_path / "program.py").write_text(BEGINNING + textwrap.dedent(program))
    environment = {**os.environ, "CLEW_DIR": str(tmp_path / "runs")}
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    return clew.runs(tmp_path / "runs")[-1], done.stderr


def test_calls_of_a_forked_worker_are_in_the_call_that_forked_it(tmp_path: Path) -> None:
    run, _ = run_program(
        tmp_path,
        """
        import multiprocessing
        @clew.watch("x")
        def train():
            for x in range(2):
                worker = multiprocessing.get_context("fork").Process(target=helper, args=(x,))
                worker.start()
                worker.join()
        train()
        """,
    )
    assert [(line.name, line.calls, line.ended) for line in run.functions()] == [("train", 1, 1), ("helper", 2, 2)]
    assert [call.parent.function for call in run.calls("helper") if call.parent] == ["train", "train"]


def test_a_call_that_goes_on_in_a_forked_process_is_recorded_there_too(tmp_path: Path) -> None:
    run, _ = run_program(
        tmp_path,
        """
        @clew.watch("x")
        def both():
            x = 1
            child = os.fork() == 0
            x = 2 if child else 3
            if not child:
                os.wait()
            return child
        if both():
            sys.exit()
        """,
    )
    changes = sorted(call.data["x"] for call in run.calls("both"))
    assert changes == [[1, 3], [2]]
    assert all(call.returned for call in run.calls("both"))


def test_what_a_lost_process_called_is_unknown(tmp_path: Path) -> None:
    run, said = run_program(
        tmp_path,
        """
        @clew.watch("x")
        def train():
            x = 1
            if os.fork() == 0:
                helper(1)
                os._exit(0)
            os.wait()
        train()
        """,
    )
    assert "not called in this process" in said
    assert [note.kind for note in run.ledger] == ["never-called", "incomplete"]
    assert "1 forked process called it is unknown" in run.ledger[0].text


def test_a_forked_process_that_ends_at_once_is_told_of(tmp_path: Path) -> None:
    run, _ = run_program(
        tmp_path,
        """
        @clew.watch("y")
        def helper(x):
            y = x
        helper(1)
        time.sleep(0.1)
        if os.fork() == 0:
            helper(2)
            os._exit(0)
        os.wait()
        """,
    )
    (note,) = run.ledger
    assert note.kind == "incomplete"
    assert "was killed or cut off" in note.text

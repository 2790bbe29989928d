"""What `make test` says of the Pythons it ran on, and how a missing one is fetched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOG = """== Python 3.14.10, engine tests
clew: secondary environment, without torch, h5py
SKIPPED [3] tests/probes/watch/test_new_syntax.py:101: syntax of Python 3.15
SKIPPED [1] tests/test_x.py: needs a GPU
========= 2 failed, 700 passed, 4 skipped, 1 error in 61.20s (0:01:01) =========
"""


def table(folder: Path, *versions: str) -> list[str]:
    command = [sys.executable, str(ROOT / "scripts/pythons_table.py"), str(folder), *versions]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_each_python_has_a_line_with_what_was_run_and_below_why_tests_were_not(tmp_path: Path) -> None:
    (tmp_path / "3.14.log").write_text(LOG)
    heading, line, _, why = table(tmp_path, "3.14")
    assert heading.split() == ["Python", "tests", "passed", "failed", "errors", "skipped", "deselected"]
    assert line.split() == ["3.14.10", "engine", "700", "2", "1", "4", "0"]
    assert why.strip() == "3.14.10: the files that need torch, h5py; syntax of Python 3.15 (3); needs a GPU (1)"


def test_a_python_that_could_not_be_fetched_has_a_line_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "3.15.missing").write_text("clew: Python 3.15 cannot be fetched: no mirror of this machine has it\n")
    assert table(tmp_path, "3.15", "3.16")[1:] == [
        "3.15       not tested: clew: Python 3.15 cannot be fetched: no mirror of this machine has it",
        "3.16       not tested: the run ended before it, or it is not on this machine",
    ]


def test_tests_that_passed_only_at_the_second_try_are_named(tmp_path: Path) -> None:
    failures = "FAILED tests/test_x.py::test_late - AssertionError\nERROR tests/test_y.py::test_gone[a b]\n"
    (tmp_path / "3.14.log").write_text(LOG + failures)
    (tmp_path / "3.14.retry.log").write_text("===== 2 passed in 0.2s =====\n")
    assert table(tmp_path, "3.14")[-2:] == [
        "failed beside other tests and ran once more, alone:",
        "  3.14.10: tests/test_x.py::test_late, tests/test_y.py::test_gone[a",
    ]


def test_a_run_that_was_cut_off_has_no_counts(tmp_path: Path) -> None:
    (tmp_path / "3.12.log").write_text("== Python 3.12.1, engine tests\n....")
    assert table(tmp_path, "3.12")[1].split() == ["3.12.1", "engine", *"?????"]


def get_python(cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "CLEW_FETCH": "0"}
    command = [str(ROOT / "scripts/get-python"), "3.15"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_python_that_cannot_be_fetched_is_a_failure_with_the_reason(tmp_path: Path) -> None:
    done = get_python(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "clew: Python 3.15 cannot be fetched: CLEW_FETCH=0 forbids it\n"


def test_a_python_that_was_fetched_before_is_not_fetched_again(tmp_path: Path) -> None:
    folder = tmp_path / "clew/pythons/3.15"
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/python3.15").write_text("#!/bin/sh\n")
    (folder / "usr/bin/python3.15").chmod(0o755)
    (folder / "complete").touch()
    done = get_python(tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{folder}/usr/bin/python3.15\n")

"""`clew run -m pytest`: functions of test modules, whose asserts pytest rewrites with a loader of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew

TESTS = """
import pytest

def helper(n):
    s = n * 2
    return s

def test_add():
    s = 0
    for i in range(3):
        s = s + i
        assert s >= 0, "never"
    assert helper(s) == 6

class TestMethods:
    @pytest.fixture
    def five(self):
        v = 5
        yield v

    def test_method(self, five):
        s = five
        def inner(q):
            assert q
            return q
        assert inner(s) == 5

def test_fails():
    s = [1]
    assert s == [2]
"""


def run(folder: Path, *arguments: str) -> tuple[Any, str]:
    (folder / "test_sums.py").write_text(TESTS)
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs")}
    command = [sys.executable, "-m", "clew", "run", *arguments, "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, ""), done.stdout + done.stderr
    (only,) = clew.runs(folder / "runs")
    return only, done.stdout


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_functions_of_test_modules_are_watched(tmp_path: Path, mode: str) -> None:
    watch = ["--watch", "test_*: s", "--watch", "five: v", "--watch", "inner: q", "--watch", "helper: s"]
    recorded, printed = run(tmp_path, *watch, "-m", "pytest", f"--import-mode={mode}")
    assert [(call.function, [change.value for change in call.changes]) for call in recorded.calls()] == [
        ("test_add", [0, 1, 3]),
        ("helper", [6]),
        ("TestMethods.five", [5]),
        ("TestMethods.test_method", [5]),
        ("TestMethods.test_method.<locals>.inner", [5]),
        ("test_fails", [[1]]),
    ]
    assert list(recorded.ledger) == []
    assert "At index 0 diff: 1 != 2" in printed  # pytest explains its asserts as ever


def test_the_names_that_pytest_makes_up_are_not_recorded(tmp_path: Path) -> None:
    recorded, _ = run(tmp_path, "--watch", "test_add: *", "-m", "pytest")
    assert recorded.names == ["s", "i"]


def test_functions_of_test_modules_are_followed(tmp_path: Path) -> None:
    recorded, _ = run(tmp_path, "--follow", "test_sums:test_add", "--no-show", "-m", "pytest")
    (test,) = recorded.calls("test_add")
    assert [child.function for child in test.children] == ["helper"]
    assert list(recorded.ledger) == []

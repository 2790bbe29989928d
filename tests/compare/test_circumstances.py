"""Differences in how two runs were started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.compare.circumstances import _arguments

PROGRAM = """
import sys, clew
clew.run
@clew.watch("x")
def f():
    x = 1
with clew.run("r", path=sys.argv[1], tags={"model": sys.argv[3]}):
    f()
"""


def started(tmp_path: Path, name: str, *command_line: str, **variables: str) -> clew.Run:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / name), *command_line]
    subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True)
    return clew.open(tmp_path / name)


def test_differing_arguments_tags_and_variables_stand_first(tmp_path: Path) -> None:
    a = started(tmp_path, "a", "--lr", "0.1", "--fast", OMP_NUM_THREADS="1", HF_TOKEN="hush")
    b = started(tmp_path, "b", "--lr", "0.2", OMP_NUM_THREADS="2", HF_TOKEN="hush too")
    diff = clew.diff(a, b)
    actual = [
        (circumstance.kind, circumstance.name, circumstance.a, circumstance.b) for circumstance in diff.circumstances
    ]
    assert actual == [
        ("argument", "1", str(tmp_path / "a"), str(tmp_path / "b")),
        ("argument", "--lr", "0.1", "0.2"),
        ("argument", "--fast", "given", None),
        ("tag", "model", "0.1", "0.2"),
        ("variable", "OMP_NUM_THREADS", "1", "2"),
    ]
    assert diff.equal
    lines = str(diff).splitlines()
    assert lines[3] == "argument --lr: 0.1 → 0.2"
    assert "argument --fast: given → not there" in lines
    assert "hush" not in (tmp_path / "a" / "run.json").read_text()


def test_runs_that_were_started_alike_differ_in_nothing(tmp_path: Path) -> None:
    a = started(tmp_path, "a", "x", "y")
    assert clew.diff(a, a).circumstances == []


@pytest.mark.parametrize(
    ("command_line", "arguments"),
    [
        (["--lr=0.1", "--n", "-3", "-v"], {"--lr": "0.1", "--n": "-3", "-v": "given"}),
        (["in.txt", "--tag", "a", "--tag", "b", "out.txt"], {"1": "in.txt", "--tag": "a b", "2": "out.txt"}),
        ([], {}),
    ],
)
def test_options_are_listed_by_name_and_positional_arguments_by_number(
    command_line: list[str], arguments: dict[str, str]
) -> None:
    assert _arguments({"argv": ["program.py", *command_line]}) == arguments

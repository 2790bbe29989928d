"""`clew runs`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.commands.main import main
from reading.writing import START, Written

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def two(runs_folder: Path) -> None:
    Written(runs_folder, "090000-first", started_ns=START)
    Written(runs_folder, "100000-second", started_ns=START + 1, how="failed", error="ValueError: no")


@pytest.mark.usefixtures("two")
def test_a_line_a_run_oldest_first(capsys: Captured) -> None:
    assert main(["runs"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "status", "started", "duration", "command"]
    assert "2023-11-14/090000-first" in first
    assert "failed" in second


@pytest.mark.usefixtures("two")
def test_json(capsys: Captured) -> None:
    main(["runs", "--json"])
    first, second = json.loads(capsys.readouterr().out)
    assert (first["name"], first["status"], first["duration"] > 0) == ("first", "finished", True)
    assert second["error"] == "ValueError: no"


@pytest.mark.usefixtures("two")
def test_only_names_and_only_the_last(capsys: Captured) -> None:
    main(["runs", "--names"])
    assert capsys.readouterr().out == "090000-first\n100000-second\n"
    main(["runs", "--names", "--last", "1"])
    assert capsys.readouterr().out == "100000-second\n"


@pytest.mark.parametrize("last", ["0", "-1"])
def test_the_last_none_is_a_mistake(last: str, capsys: Captured) -> None:
    assert main(["runs", f"--last={last}"]) == 2
    assert "asks for nothing" in capsys.readouterr().err


def test_another_folder(tmp_path: Path, capsys: Captured) -> None:
    Written(tmp_path, "1-there")
    main(["runs", str(tmp_path)])
    assert "1-there" in capsys.readouterr().out


def test_no_runs_is_said_with_the_place(runs_folder: Path, capsys: Captured) -> None:
    assert main(["runs"]) == 0
    assert capsys.readouterr().out == f"no runs in {runs_folder}\n"
    main(["runs", "--json"])
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.usefixtures("two")
def test_one_damaged_run_does_not_hide_the_others(runs_folder: Path, capsys: Captured) -> None:
    bad = Written(runs_folder, "110000-bad")
    (bad.folder / "run.json").write_text("{")
    assert main(["runs", "--names"]) == 0
    captured = capsys.readouterr()
    assert "100000-second" in captured.out
    assert "110000-bad" in captured.err

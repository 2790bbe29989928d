"""`clew export`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from clew.commands.main import main
from reading.writing import simple_run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def run(runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simple_run(runs_folder, {"loss": [1.0, 0.5], "lr": [0.1]})
    monkeypatch.chdir(tmp_path)


def test_it_writes_the_file_and_says_where(tmp_path: Path, capsys: Captured) -> None:
    assert main(["export", "latest", "--to", "csv"]) == 0
    assert capsys.readouterr().out.startswith("120000-test.csv (")
    assert (tmp_path / "120000-test.csv").read_text().count("\n") == 4


def test_some_names_to_a_file_of_ones_own(tmp_path: Path) -> None:
    assert main(["export", "latest", "l?", "--to", "json", "-o", "mine.json"]) == 0
    assert list(json.loads((tmp_path / "mine.json").read_text())["names"]) == ["lr"]


def test_names_may_stand_after_the_options(tmp_path: Path) -> None:
    assert main(["export", "latest", "--to", "json", "-o", "mine.json", "lr", "loss"]) == 0
    assert list(json.loads((tmp_path / "mine.json").read_text())["names"]) == ["lr", "loss"]


@pytest.mark.parametrize("words", [["runs", "here", "there"], ["export", "latest", "--to", "csv", "--frob"]])
def test_words_too_many_are_named(words: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert words[-1] in capsys.readouterr().err


def test_json_says_what_was_written(tmp_path: Path, capsys: Captured) -> None:
    main(["export", "latest", "--to", "parquet", "--json"])
    out = json.loads(capsys.readouterr().out)
    assert out["path"] == str(tmp_path / "120000-test.parquet")
    assert out["bytes"] == (tmp_path / "120000-test.parquet").stat().st_size


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["latest", "--to", "cvs"], "did you mean `csv`?"),
        (["latest", "los", "--to", "csv"], "did you mean `loss`?"),
        (["nowhere", "--to", "csv"], "neither a run folder"),
        (["latest", "--to", "csv", "-o", "no/where.csv"], "no folder"),
    ],
)
def test_a_mistake_is_a_sentence_and_leaves_no_file(
    words: list[str], remedy: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["export", *words]) == 2
    assert remedy in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_format_must_be_said(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        main(["export", "latest"])
    assert end.value.code == 2
    assert "--to" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "perfetto", "tensorboard"])
def test_where_nothing_can_be_written_it_says_why_and_what_to_do(format: str, capsys: Captured) -> None:
    assert main(["export", "latest", "--to", format, "-o", "/proc/mine"]) == 2
    assert re.search(r"/proc/mine cannot be written: .+\. Give another path with -o\.$", capsys.readouterr().err)


def test_a_device_stays_one(tmp_path: Path, capsys: Captured) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main(["export", "latest", "--to", "csv", "-o", "pipe"]) == 2
    assert "pipe is a device or a pipe. Give the name of a file." in capsys.readouterr().err
    assert main(["report", "latest", "-o", "pipe"]) == 2
    assert (tmp_path / "pipe").is_fifo()

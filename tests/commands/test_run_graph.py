"""`clew run-graph`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clew
from clew.commands.main import main
from probes.graph import mapops

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clew.record(mapops.difference, 5, 4).save("bundle")
    pq.write_table(pa.table({"id": ["x", "y", "z"], "a": [10, 20, 30], "b": [1, 2, 3]}), "in.parquet")


def run(*words: str) -> int:
    return main(["run-graph", "bundle", *words])


def results(path: str = "out.parquet") -> list[int | None]:
    return pq.read_table(path)["result"].to_pylist()  # type: ignore[no-any-return]


def test_the_rows_of_a_table_become_rows_of_results(capsys: Captured) -> None:
    assert run("--input", "in.parquet", "--output", "out.parquet") == 0
    assert capsys.readouterr().out == "out.parquet: 3 rows done, 0 failed\n"
    assert results() == [9, 18, 27]


def test_lines_of_json_do_as_well_and_what_is_no_input_is_left_out() -> None:
    mark = "\ufeff"  # some systems put it before a text
    Path("in.jsonl").write_text(mark + '{"a": 1, "b": 5, "id": "x"}\n\n{"a": 2}\n7\n', encoding="utf-8")
    assert run("--input", "in.jsonl", "--output", "out.parquet") == 0
    assert results() == [-4, 1, 6]


def test_failed_rows_are_told_of_and_make_the_status(capsys: Captured) -> None:
    Path("in.jsonl").write_text('{"a": 1}\n' + '{"a": "x"}\n' * 7)
    assert run("--input", "in.jsonl", "--output", "out.parquet") == 1
    said = capsys.readouterr()
    assert said.out == "out.parquet: 1 rows done, 7 failed\n"
    assert said.err.count("TypeError: unsupported operand") == 5
    assert "and 2 more" in said.err


def test_the_same_command_goes_on(capsys: Captured) -> None:
    Path("in.jsonl").write_text('{"a": 1}\n{"a": \n')
    assert run("--input", "in.jsonl", "--output", "out.parquet") == 2
    assert "in.jsonl, line 2" in capsys.readouterr().err
    Path("in.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    assert run("--input", "in.jsonl", "--output", "out.parquet") == 0
    assert "1 rows done, 1 before" in capsys.readouterr().out
    assert results() == [0, 1]


def test_processes_and_words_for_machines(capsys: Captured) -> None:
    assert run("--input", "in.parquet", "--output", "out.arrow", "--processes", "--workers", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"output": "out.arrow", "done": 3, "before": 0, "failures": []}


def test_nothing_runs_that_the_names_do_not_cover(capsys: Captured) -> None:
    assert run("--input", "in.parquet", "--output", "out.parquet", "--trusted", "another,0123") == 2
    assert "give --trusted more names" in capsys.readouterr().err
    assert not Path("out.parquet").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--input", "nowhere.parquet", "--output", "o.parquet"], "no Parquet or JSON Lines file"),
        (["--input", "bundle", "--output", "o.parquet"], "no Parquet or JSON Lines file"),
        (["--input", "broken.parquet", "--output", "o.parquet"], "is no Parquet file"),
        (["--input", "in.parquet", "--output", "o.csv"], "neither a .parquet nor an .arrow"),
        (["--input", "in.parquet", "--output", "o.parquet", "--address", "tcp://x"], "--engine dask"),
    ],
)
def test_a_mistake_is_a_sentence(words: list[str], said: str, capsys: Captured) -> None:
    Path("broken.parquet").write_text("not at all")
    assert run(*words) == 2
    assert said in capsys.readouterr().err
    assert not list(Path().glob("o.*"))

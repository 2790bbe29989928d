"""`clew run-graph`."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

import clew
from clew.commands.main import main
from graph import mapops

pd = pytest.importorskip("pandas")
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved once, with their examples: these say what the inputs were recorded with."""
    folder = tmp_path_factory.mktemp("bundles")
    graphs = {
        "bundle": clew.record(mapops.difference, 5, 4),
        "rows-bundle": clew.record(mapops.summed_columns, record={"a": 1, "b": 2}),
        "count-bundle": clew.record(mapops.counted_columns, record={"a": 1}),
        "records-bundle": clew.record(mapops.counted_columns, record="a text"),
        "texts-bundle": clew.record(mapops.doubled_text, "a"),
        "numbers-bundle": clew.record(mapops.halved, 2.0),
        "arrays-bundle": clew.record(mapops.centred, np.ones(2), library="operator"),
        "frames-bundle": clew.record(
            mapops.scored, pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}), library="operator"
        ),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_SELFTEST", "1")
        for name, graph in graphs.items():
            graph.save(folder / name)
    return folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundles: Path) -> None:
    shutil.copytree(bundles, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
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
    Path("in.jsonl").write_text(mark + '{"a": 1, "b": 5, "id": "x"}\n\n{"a": 2}\n', encoding="utf-8")
    assert run("--input", "in.jsonl", "--output", "out.parquet") == 0
    assert results() == [-4, 1]


# ---- what a row gives to the inputs

ROWS: list[dict[str, Any]] = [{"id": 1, "a": 10, "b": 1}, {"id": 2, "a": 20, "b": 2}, {"id": 3, "a": 30, "b": 3}]


def written(rows: list[dict[str, Any]], suffix: str) -> str:
    """The rows as a file of this format."""
    path = f"rows{suffix}"
    table = pa.Table.from_pylist(rows)
    if suffix == ".jsonl":
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == ".csv":
        csv.write_csv(table, path)
    elif suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".arrow":
        feather.write_feather(table, path, compression="uncompressed")
    return path


formats = pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".arrow"])


@formats
def test_columns_give_the_inputs_by_their_names_in_every_format(suffix: str) -> None:
    assert run("--input", written(ROWS, suffix), "--output", "out.parquet") == 0
    assert results() == [9, 18, 27]


@formats
def test_an_input_that_was_recorded_with_a_dictionary_takes_the_row_in_every_format(suffix: str) -> None:
    assert main(["run-graph", "rows-bundle", "--input", written(ROWS, suffix), "--output", "out.parquet"]) == 0
    assert results() == [11, 22, 33]


@formats
def test_a_column_that_is_the_input_goes_before_the_row(suffix: str, capsys: Captured) -> None:
    path = written([{"record": "text", "a": 1}], suffix)
    assert main(["run-graph", "count-bundle", "--input", path, "--output", "out.parquet"]) == 1
    assert "the input `record` is str; the graph was recorded with dict" in capsys.readouterr().err


@formats
def test_a_row_without_the_column_has_failed_in_every_format(suffix: str, capsys: Captured) -> None:
    assert main(["run-graph", "records-bundle", "--input", written(ROWS, suffix), "--output", "out.parquet"]) == 1
    assert results() == [None] * 3
    said = capsys.readouterr()
    assert "0 rows done, 3 failed" in said.out
    assert "the row has no column for the input `record`" in said.err


def test_one_line_of_json_without_the_column_fails_alone() -> None:
    Path("in.jsonl").write_text('{"text": "x"}\n{"a": 1, "b": 2}\n7\n"bare"\n[1]\n{"text": "y"}\n')
    assert main(["run-graph", "texts-bundle", "--input", "in.jsonl", "--output", "out.parquet"]) == 1
    assert results() == ["xx", None, None, None, None, "yy"]


def test_texts_of_digits_in_a_csv_file_stay_texts_if_the_graph_was_recorded_with_texts() -> None:
    Path("in.csv").write_text("id,text\n1,007\n2,1e5\n3,\n")
    assert main(["run-graph", "texts-bundle", "--input", "in.csv", "--output", "out.parquet"]) == 0
    assert results() == ["007007", "1e51e5", ""]


def test_a_cell_that_is_no_number_fails_alone_in_a_csv_file() -> None:
    Path("in.csv").write_text("number\n1\nmany\n2.5\n\n3\n")
    assert main(["run-graph", "numbers-bundle", "--input", "in.csv", "--output", "out.parquet"]) == 1
    assert results()[:3] == [0.5, None, 1.25]


# ---- which files


def test_folders_and_patterns_give_all_their_files_in_the_order_of_their_names() -> None:
    Path("data/deeper").mkdir(parents=True)
    Path("data/b.jsonl").write_text('{"a": 2}\n')
    Path("data/a.csv").write_text("a,b\n1,0\n")
    Path("data/deeper/c.tsv").write_text("a\tb\n3\t0\n")
    Path("data/notes.txt").write_text("no rows")
    with gzip.open("data/d.jsonl.gz", "wt") as file:
        file.write('{"a": 4, "b": 0}\n')
    assert run("--input", "data", "--output", "all.parquet") == 0
    assert results("all.parquet") == [1, 1, 4, 3]
    assert run("--input", "data/*.jsonl", "data/a.*", "--output", "some.parquet") == 0
    assert results("some.parquet") == [1, 1]


def test_a_stream_of_arrows_is_read_like_its_files() -> None:
    table = pa.table({"a": [5], "b": [1]})
    with pa.OSFile("in.arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    assert run("--input", "in.arrow", "--output", "out.parquet") == 0
    assert results() == [4]


# ---- columns that are carried through


@formats
def test_columns_are_carried_through_also_for_rows_that_failed(suffix: str) -> None:
    rows = [*ROWS, {"id": 4, "a": None, "b": 1}]
    path = written(rows, suffix)
    assert run("--input", path, "--output", "out.parquet", "--keep", "id,b") == 1
    table = pq.read_table("out.parquet")
    assert table.column_names == ["index", "id", "b", "result", "error"]
    assert table["id"].to_pylist() == [1, 2, 3, 4]
    assert table["b"].to_pylist() == [1, 2, 3, 1]
    assert table["result"].to_pylist() == [9, 18, 27, None]


def test_columns_are_carried_through_when_a_job_goes_on() -> None:
    Path("in.jsonl").write_text('{"a": 1, "id": "x"}\n{"a": \n')
    assert run("--input", "in.jsonl", "--output", "out.parquet", "--keep", "id") == 2
    Path("in.jsonl").write_text('{"a": 1, "id": "x"}\n{"a": 2, "id": "y"}\n')
    assert run("--input", "in.jsonl", "--output", "out.parquet", "--keep", "id") == 0
    assert pq.read_table("out.parquet")["id"].to_pylist() == ["x", "y"]


def test_a_column_that_is_not_there_cannot_be_carried_through(capsys: Captured) -> None:
    assert run("--input", "in.parquet", "--output", "out.parquet", "--keep", "idd") == 2
    assert "no column `idd` to keep; did you mean `id`?" in capsys.readouterr().err


def test_a_column_carried_through_that_is_called_like_one_of_ours_has_another_name() -> None:
    path = written([{"index": 7, "a": 1, "b": 1, "result": "old"}], ".parquet")
    assert run("--input", path, "--output", "out.parquet", "--keep", "index", "--keep", "result") == 0
    assert pq.read_table("out.parquet").to_pylist() == [
        {"index": 0, "kept_index": 7, "kept_result": "old", "result": 0, "error": None}
    ]


# ---- batches


@formats
def test_a_graph_that_was_recorded_with_a_frame_is_given_frames(suffix: str) -> None:
    command = ["run-graph", "frames-bundle", "--input", written(ROWS, suffix), "--output", "out.parquet"]
    assert main([*command, "--batch", "2", "--keep", "id"]) == 0
    table = pq.read_table("out.parquet")
    assert table["score"].to_pylist() == [21, 42, 63]
    assert table["rows"].to_pylist() == [2, 2, 1]
    assert table["id"].to_pylist() == [1, 2, 3]


def test_a_line_that_lacks_a_column_of_a_frame_fails_alone_and_is_not_filled_up() -> None:
    Path("in.jsonl").write_text('{"a": 1, "b": 1}\n{"a": 2}\n{"a": 3, "b": 3}\n7\n')
    command = ["run-graph", "frames-bundle", "--input", "in.jsonl", "--output", "out.parquet", "--batch", "4"]
    assert main(command) == 1
    assert pq.read_table("out.parquet")["score"].to_pylist() == [3, None, 9, None]


def test_a_cell_of_a_frame_that_is_no_number_fails_its_row_alone_in_a_csv_file() -> None:
    Path("in.csv").write_text("a,b\n1,1\n2,many\n3,3\n,4\n")
    command = ["run-graph", "frames-bundle", "--input", "in.csv", "--output", "out.parquet", "--batch", "4"]
    assert main(command) == 1
    assert pq.read_table("out.parquet")["score"].to_pylist()[:3] == [3, None, 9]


def test_a_graph_that_was_recorded_with_a_frame_is_not_run_row_by_row(capsys: Captured) -> None:
    assert main(["run-graph", "frames-bundle", "--input", "in.parquet", "--output", "out.parquet"]) == 2
    assert "--batch 500" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_lists_in_files_are_arrays_for_a_graph_that_was_recorded_with_arrays(suffix: str) -> None:
    path = written([{"x": [1.0, 2.0]}, {"x": [3.0, 4.0]}], suffix)
    assert main(["run-graph", "arrays-bundle", "--input", path, "--output", "out.parquet"]) == 0
    assert pq.read_table("out.parquet")["twice"].to_pylist() == [[2.0, 4.0], [6.0, 8.0]]


def test_a_list_that_is_no_row_of_an_array_fails_alone() -> None:
    Path("in.jsonl").write_text('{"x": [1, 2]}\n{"x": [[1], [2]]}\n{"x": [[1], 2]}\n{"x": [3, 4]}\n')
    assert main(["run-graph", "arrays-bundle", "--input", "in.jsonl", "--output", "out.parquet"]) == 1
    assert pq.read_table("out.parquet")["twice"].to_pylist() == [[2.0, 4.0], None, None, [6.0, 8.0]]


def test_a_graph_that_takes_no_batch_says_so(capsys: Captured) -> None:
    assert run("--input", "in.parquet", "--output", "out.parquet", "--batch", "2") == 2
    assert "was recorded with an int" in capsys.readouterr().err


# ---- the rest


def test_it_says_where_it_has_run(capsys: Captured) -> None:
    assert run("--input", "in.parquet", "--output", "out.parquet") == 0
    assert "rows a second, in the calling thread (" in capsys.readouterr().err
    assert run("--input", "in.parquet", "--output", "other.parquet", "--threads", "--workers", "2") == 0
    assert "in 2 threads (as asked for)" in capsys.readouterr().err


def test_failed_rows_are_told_of_and_make_the_status(capsys: Captured) -> None:
    Path("in.jsonl").write_text('{"a": 1}\n' + '{"a": "x"}\n' * 7)
    assert run("--input", "in.jsonl", "--output", "out.parquet") == 1
    said = capsys.readouterr()
    assert said.out == "out.parquet: 1 rows done, 7 failed\n"
    assert said.err.count("SignatureError: the input `a` is str; the graph was recorded with int") == 5
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
        (["--input", "nowhere.parquet", "--output", "o.parquet"], "no files of rows at nowhere.parquet"),
        (["--input", "bundle", "--output", "o.parquet"], "no files of rows at bundle"),
        (["--input", "notes.txt", "--output", "o.parquet"], "of a format that is not read"),
        (["--input", "broken.parquet", "--output", "o.parquet"], "is no .parquet file that can be read"),
        (["--input", "in.parquet", "--output", "o.csv"], "neither a .parquet nor an .arrow"),
        (["--input", "in.parquet", "--output", "o.parquet", "--address", "tcp://x"], "--engine dask"),
    ],
)
def test_a_mistake_is_a_sentence(words: list[str], said: str, capsys: Captured) -> None:
    Path("broken.parquet").write_text("not at all")
    Path("notes.txt").write_text("not at all")
    assert run(*words) == 2
    assert said in capsys.readouterr().err
    assert not list(Path().glob("o.*"))

"""`graph.map(output=...)`: what is in the file, and how a job that was stopped goes on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import clew
from clew.errors import GraphError
from clew.graph import Graph
from clew.graph.mapping import output_parts
from clew.graph.mapping.map_job import Failure
from graph import mapops

Captured = pytest.CaptureFixture[str]


@clew.op
def given(x: Any) -> Any:
    return x


def passing(x: Any) -> Any:
    return given(x)


@pytest.fixture
def graph() -> Graph:
    return clew.record(mapops.inverted, 1)


@pytest.fixture
def passed() -> Graph:
    return clew.record(passing, 1, signature={"x": "any"})


def read(path: Path) -> pa.Table:
    return pq.read_table(path) if path.suffix == ".parquet" else pyarrow.feather.read_table(path)


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
def test_every_item_has_a_row_with_its_index(graph: Graph, tmp_path: Path, name: str) -> None:
    mapped = graph.map([1, 2, 0, 4], output=tmp_path / name)
    table = read(tmp_path / name)
    assert table.column_names == ["index", "result", "error"]
    assert table["index"].to_pylist() == [0, 1, 2, 3]
    assert table["result"].to_pylist() == [1.0, 0.5, None, 0.25]
    assert table["error"].to_pylist() == [None, None, "ZeroDivisionError: division by zero", None]
    assert os.listdir(tmp_path) == [name]
    assert [failure.index for failure in mapped.failures] == [2]


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
def test_the_results_can_be_read_from_what_the_call_gives(graph: Graph, tmp_path: Path, name: str) -> None:
    mapped = graph.map([1, 2, 0], output=tmp_path / name)
    assert list(mapped) == [1.0, 0.5, mapped.failures[0]]
    assert mapped.failures[0].input == 0
    assert mapped.output == tmp_path / name
    assert list(graph.map([1, 2, 0], output=tmp_path / name).indexed())[:2] == [(0, 1.0), (1, 0.5)]


def test_rows_are_by_index_whatever_the_order_they_came_in(passed: Graph, tmp_path: Path) -> None:
    passed.map(range(3000), output=tmp_path / "out.parquet", ordered=False, workers=3)
    table = read(tmp_path / "out.parquet")
    assert table["index"].to_pylist() == table["result"].to_pylist() == list(range(3000))


def test_rows_that_changed_places_between_the_first_and_the_last_are_put_in_order(tmp_path: Path) -> None:
    came = [0, 3, 1, 2, 4]
    output = output_parts.Output(tmp_path / "out.parquet", {"graph": "g", "first": "f"})
    output.add(came, came, {})
    output.finish()
    table = read(tmp_path / "out.parquet")
    assert table["index"].to_pylist() == table["result"].to_pylist() == [0, 1, 2, 3, 4]


def test_there_are_many_row_groups(passed: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_parts, "ROWS", 100)
    passed.map(range(1000), output=tmp_path / "out.parquet")
    file = pq.ParquetFile(tmp_path / "out.parquet")
    assert file.num_row_groups == 10
    assert file.read()["result"].to_pylist() == list(range(1000))


# ---- columns


def test_a_dictionary_is_a_column_a_key(passed: Graph, tmp_path: Path) -> None:
    items = [{"x": {"word": "a", "index": 7}}, {"x": {"word": "b", "n": 2}}]
    mapped = passed.map(items, output=tmp_path / "out.parquet")
    table = read(tmp_path / "out.parquet")
    assert table.column_names == ["index", "word", "result_index", "n", "error"]
    assert table["result_index"].to_pylist() == [7, None]
    assert next(mapped) == {"word": "a", "index": 7, "n": None}


def test_results_of_another_shape_fail_alone(passed: Graph, tmp_path: Path) -> None:
    items = [{"x": {"word": "a"}}, 7, {"x": {"word": "b"}}, {"x": (1, 2)}]
    mapped = passed.map(items, output=tmp_path / "out.parquet", workers=1)
    assert [failure.index for failure in mapped.failures] == [1, 3]
    assert "of another shape" in mapped.failures[0].error
    assert read(tmp_path / "out.parquet")["word"].to_pylist() == ["a", None, "b", None]


def test_an_output_of_nothing_but_failures(graph: Graph, tmp_path: Path) -> None:
    mapped = graph.map([0, 0], output=tmp_path / "out.parquet")
    assert [type(value) for value in mapped] == [Failure, Failure]
    assert read(tmp_path / "out.parquet").column_names == ["index", "result", "error"]


def test_several_outputs_are_a_column_each(passed: Graph, tmp_path: Path) -> None:
    mapped = passed.map([(1, "a"), (2, "b")], output=tmp_path / "out.parquet")
    assert read(tmp_path / "out.parquet").column_names == ["index", "result_0", "result_1", "error"]
    assert list(mapped) == [(1, "a"), (2, "b")]


def test_arrays_are_lists(passed: Graph, tmp_path: Path) -> None:
    passed.map([np.arange(2), np.arange(3)], output=tmp_path / "flat.parquet")
    passed.map([np.ones((2, 2)), [np.float32(1)]], output=tmp_path / "deep.parquet", workers=1)
    assert read(tmp_path / "flat.parquet")["result"].to_pylist() == [[0, 1], [0, 1, 2]]
    assert read(tmp_path / "deep.parquet")["result"].to_pylist()[0] == [[1.0, 1.0], [1.0, 1.0]]


def test_types_grow_with_the_results(passed: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_parts, "ROWS", 1)
    mapped = passed.map([None, 1, 2.5, None], output=tmp_path / "out.parquet", workers=1)
    assert mapped.failures == []
    assert list(mapped) == [None, 1.0, 2.5, None]


def test_a_result_without_a_place_in_the_columns_fails_alone(passed: Graph, tmp_path: Path) -> None:
    mapped = passed.map([1, "two", 3, 2**80, {4}, object()], output=tmp_path / "out.parquet", workers=1)
    assert [failure.index for failure in mapped.failures] == [1, 3, 4, 5]
    assert "no place in column `result` (int64)" in mapped.failures[0].error
    assert mapped.failures[0].input == "two"
    assert read(tmp_path / "out.parquet")["result"].to_pylist() == [1, None, 3, None, None, None]


def test_an_integer_that_no_float_holds_is_never_rounded(passed: Graph, tmp_path: Path) -> None:
    mapped = passed.map([2**60 + 1, 0.5], output=tmp_path / "out.parquet", workers=1)
    assert [failure.index for failure in mapped.failures] == [1]
    assert next(mapped) == 2**60 + 1


@pytest.mark.parametrize("found", [[None, {"a": 1}], [{"a": 1}, None], [None, (1, 2)], [(1, 2), None], [None, None]])
def test_nothing_is_a_result_of_any_shape(passed: Graph, tmp_path: Path, found: list[Any]) -> None:
    assert list(passed.map([{"x": one} for one in found], output=tmp_path / "out.parquet", workers=1)) == found


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
@pytest.mark.parametrize("found", [{}, {"a": {}}, [{}], [None, None], {"a": [None]}])
def test_what_is_empty_is_written_as_it_is(passed: Graph, tmp_path: Path, name: str, found: Any) -> None:
    assert list(passed.map([{"x": found}] * 2, output=tmp_path / name)) == [found, found]


def test_a_list_of_nothing_grows_within_a_structure(passed: Graph, tmp_path: Path) -> None:
    found = [[{"a": [None, None]}], [{"a": [1, 2], "b": 3}]]
    mapped = passed.map([{"x": one} for one in found], output=tmp_path / "out.parquet", workers=1)
    assert list(mapped) == [[{"a": [None, None], "b": None}], found[1]]


NOON = datetime(2020, 1, 1, 12)


@pytest.mark.parametrize(
    "pair",
    [
        ["a", b"b"],
        [NOON.date(), NOON],
        [NOON.date(), 0],
        [[NOON], [7]],
        [NOON, NOON.replace(tzinfo=UTC)],
        [Decimal("1.1"), 0.1],
        [[2**60 + 1], [0.5]],
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_a_result_is_never_made_into_one_of_another_kind(
    passed: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: list[Any], rows: int
) -> None:
    monkeypatch.setattr(output_parts, "ROWS", rows)
    for name, found in (("one.parquet", pair), ("other.parquet", pair[::-1])):
        mapped = passed.map([{"x": one} for one in found], output=tmp_path / name, workers=1)
        assert [failure.index for failure in mapped.failures] == [1]
        assert next(mapped) == found[0]


def test_members_of_one_result_may_be_of_different_kinds(passed: Graph, tmp_path: Path) -> None:
    found = [[{"a": "text", "b": b"bytes", "c": NOON, "d": NOON.date(), "e": 1}]] * 2
    assert list(passed.map([{"x": one} for one in found], output=tmp_path / "out.parquet")) == found


def test_an_error_of_bytes_that_are_no_text_is_written(passed: Graph, tmp_path: Path) -> None:
    graph = clew.record(mapops.failing, "x")
    assert graph.map(["fail: \udc80"], output=tmp_path / "out.parquet").done == 1
    assert read(tmp_path / "out.parquet")["error"].to_pylist() == ["ValueError: fail: \\udc80"]


def test_large_rows_are_not_held_until_there_are_many(
    passed: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_parts, "BYTES", 1000)
    broken_off(passed, tmp_path / "small.parquet", [b"x"] * 20)
    broken_off(passed, tmp_path / "large.parquet", [b"x" * 900] * 20)
    assert len(list((tmp_path / "small.parquet.parts").glob("part-*"))) == 1
    assert len(list((tmp_path / "large.parquet.parts").glob("part-*"))) > 1
    passed.map([b"x" * 900] * 20, output=tmp_path / "large.parquet")
    assert pq.ParquetFile(tmp_path / "large.parquet").num_row_groups == 20


# ---- going on


def broken_off(graph: Graph, path: Path, before: Iterable[Any] = range(1, 41)) -> None:
    def items() -> Iterator[Any]:
        yield from before
        raise OSError("cut")

    with pytest.raises(GraphError, match="cut"):
        graph.map(items(), output=path)


def test_a_job_goes_on_where_it_was_stopped_and_says_so(graph: Graph, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "out.parquet"
    broken_off(graph, path)
    assert "40 items are kept for" in capsys.readouterr().err
    assert not path.exists()
    mapped = graph.map(range(1, 101), output=path)
    assert f"40 of 100 items are in {path} already" in capsys.readouterr().err
    assert (mapped.kept, mapped.done) == (40, 60)
    assert list(mapped) == [1 / x for x in range(1, 101)]
    assert os.listdir(tmp_path) == ["out.parquet"]


def test_a_finished_job_does_nothing_again(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "out.arrow"
    graph.map(range(1, 5), output=path)
    before = path.stat().st_mtime_ns
    mapped = graph.map(range(1, 5), output=path)
    assert (mapped.kept, mapped.done) == (4, 0)
    assert path.stat().st_mtime_ns == before
    assert len(list(mapped)) == 4


def test_failed_items_are_tried_again_and_take_their_place(tmp_path: Path) -> None:
    graph = clew.record(mapops.trying, _made(tmp_path / "example", "xx"))
    items = [_made(tmp_path / "a", "xx"), _made(tmp_path / "b", "x"), _made(tmp_path / "c", "xx")]
    path = tmp_path / "out.parquet"
    assert len(graph.map(items, output=path).failures) == 1
    mapped = graph.map(items, output=path)
    assert (mapped.kept, mapped.done, mapped.failures) == (2, 1, [])
    assert list(mapped) == [3, 3, 3]
    assert read(path)["index"].to_pylist() == [0, 1, 2]


def _made(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_job_goes_on_with_the_same_graph_from_a_bundle(graph: Graph, tmp_path: Path) -> None:
    from clew.graph.bundle import load

    broken_off(graph, tmp_path / "out.parquet")
    loaded = load(graph.save(tmp_path / "bundle"), trusted=True)
    assert loaded.map(range(1, 101), output=tmp_path / "out.parquet").kept == 40


def test_more_items_are_added_to_a_finished_job(graph: Graph, tmp_path: Path) -> None:
    graph.map(range(1, 5), output=tmp_path / "out.parquet")
    assert len(list(graph.map(range(1, 9), output=tmp_path / "out.parquet"))) == 8


def test_more_items_are_added_to_a_job_that_had_none(graph: Graph, tmp_path: Path) -> None:
    graph.map([], output=tmp_path / "out.parquet")
    assert list(graph.map([1, 2], output=tmp_path / "out.parquet")) == [1.0, 0.5]


def test_many_items_that_are_added_to_few_are_not_written_a_few_at_a_time(graph: Graph, tmp_path: Path) -> None:
    graph.map([1, 2], output=tmp_path / "out.parquet")
    graph.map(range(1, 101), output=tmp_path / "out.parquet")
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 1


def test_a_finished_file_of_several_row_groups_is_added_to(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_parts, "ROWS", 3)
    path = tmp_path / "out.parquet"
    graph.map([1, 2, 0, 4, 5, 6, 7, 8], output=path)
    again = list(graph.map([1, 2, 0, 4, 5, 6, 7, 8, 10, 20], output=path))
    assert [*again[:2], *again[3:]] == [1 / x for x in (1, 2, 4, 5, 6, 7, 8, 10, 20)]
    assert pq.ParquetFile(path).num_row_groups == 4


def test_items_that_nothing_tells_from_others_do_not_keep_a_job_from_going_on(tmp_path: Path) -> None:
    graph = clew.record(mapops.named, object())
    broken_off(graph, tmp_path / "out.parquet", [object()])
    mapped = graph.map([object(), object()], output=tmp_path / "out.parquet")
    assert (mapped.kept, list(mapped)) == (1, ["object", "object"])


def test_a_job_that_ended_just_now_leaves_no_lock_that_nobody_sees(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ending(file: Any, how: int) -> None:
        monkeypatch.undo()
        shutil.rmtree(tmp_path / "out.parquet.parts")

    monkeypatch.setattr(output_parts.fcntl, "flock", ending)
    assert list(graph.map([1], output=tmp_path / "out.parquet")) == [1.0]


@pytest.mark.parametrize("parts", [0, 2])
def test_a_disk_that_is_full_ends_the_job_in_words_and_keeps_what_was_written(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, parts: int
) -> None:
    def full(file: int) -> None:
        if len(list(tmp_path.glob("*/part-*"))) >= parts:
            raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "out.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(output_parts, "ROWS", 1)
        patch.setattr(output_parts.os, "fsync", full)
        with pytest.raises(GraphError, match=r"cannot be written .*No space left") as raised:
            graph.map(range(1, 30), output=path, workers=1)
    assert raised.value.slug == "graph-output"
    assert ("items are kept for" in capsys.readouterr().err) == bool(parts)
    mapped = graph.map(range(1, 30), output=path)
    assert bool(mapped.kept) == bool(parts)
    assert list(mapped) == [1 / x for x in range(1, 30)]


def test_a_ctrl_c_while_rows_are_taken_keeps_what_came_before(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pressed(list[Any]):
        def append(self, held: Any) -> None:
            if len(self) == 2:
                raise KeyboardInterrupt
            super().append(held)

    def pressed(columns: Any, description: Any) -> None:
        made(columns, description)
        columns._held = Pressed()

    made = output_parts.Columns.__init__
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(output_parts.Columns, "__init__", pressed)
        graph.map(range(1, 30), output=tmp_path / "out.parquet", workers=1)
    mapped = graph.map(range(1, 30), output=tmp_path / "out.parquet")
    assert mapped.kept > 0
    assert list(mapped) == [1 / x for x in range(1, 30)]


def test_a_damaged_part_is_done_again(graph: Graph, tmp_path: Path, capsys: Captured) -> None:
    broken_off(graph, tmp_path / "out.parquet")
    (part,) = (tmp_path / "out.parquet.parts").glob("part-*")
    part.write_bytes(part.read_bytes()[:100])
    mapped = graph.map(range(1, 51), output=tmp_path / "out.parquet")
    assert "part-000001.arrow is damaged" in capsys.readouterr().err
    assert (mapped.kept, mapped.done) == (0, 50)


def test_items_by_number_that_are_done_are_not_asked_for(graph: Graph, tmp_path: Path) -> None:
    broken_off(graph, tmp_path / "out.parquet")
    asked = []

    class Dataset:
        def __len__(self) -> int:
            return 50

        def __getitem__(self, index: int) -> int:
            asked.append(index)
            return index + 1

    graph.map(Dataset(), output=tmp_path / "out.parquet")
    assert sorted(asked) == [0, *range(40, 50)]  # the first says that they are the same items


PROGRAM = """
import sys, time, clew
from graph import mapops
def items():
    for number in range(1, 200):
        if number == 150:
            print("there", flush=True)
            time.sleep(60)
        yield number
graph = clew.record(mapops.inverted, 1)
from clew.graph.mapping import output_parts
output_parts.ROWS = 10
graph.map(items(), output=sys.argv[1], workers=int(sys.argv[2]), processes=sys.argv[3] == "processes")
"""


@pytest.mark.parametrize(
    ("end", "workers", "kind"),
    [(signal.SIGINT, "1", "threads"), (signal.SIGINT, "1", "processes"), (signal.SIGKILL, "1", "threads")],
)
def test_a_program_that_is_ended_can_go_on(
    graph: Graph, tmp_path: Path, end: signal.Signals, workers: str, kind: str
) -> None:
    path = tmp_path / "out.parquet"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(path), workers, kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "there\n"
        time.sleep(0.05)
        program.send_signal(end)
        _, said = program.communicate(timeout=60)
    assert program.returncode == -end
    if end == signal.SIGINT:
        assert "items are kept for" in said
    mapped = graph.map(range(1, 200), output=path)
    assert mapped.kept > 0
    assert mapped.kept + mapped.done == 199
    assert list(mapped) == [1 / x for x in range(1, 200)]


# ---- what is refused


def test_results_of_another_graph_or_of_other_items_are_not_mixed(graph: Graph, passed: Graph, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    graph.map([1, 2], output=path)
    with pytest.raises(GraphError, match="another job: the graph"):
        passed.map([1, 2], output=path)
    with pytest.raises(GraphError, match="another job: the graph"):
        clew.record(mapops.guarded, 1).map([1, 2], output=path)
    with pytest.raises(GraphError, match="another job: the first item"):
        graph.map([5, 6], output=path)
    assert len(read(path)) == 2
    assert os.listdir(tmp_path) == ["out.parquet"]


def test_a_file_that_is_somebody_elses_is_left_alone(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(GraphError, match="is no output of graph"):
        graph.map([1], output=path)
    assert read(path).column_names == ["x"]


@pytest.mark.parametrize("name", ["out.csv", "nowhere/out.parquet"])
def test_a_place_that_makes_no_sense_is_refused(graph: Graph, tmp_path: Path, name: str) -> None:
    with pytest.raises(GraphError) as raised:
        graph.map([1], output=tmp_path / name)
    assert raised.value.slug == "graph-output"
    assert os.listdir(tmp_path) == []


def test_two_jobs_do_not_write_one_output(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    output = output_parts.Output(path, {"graph": "g", "first": "f"})
    with pytest.raises(GraphError, match="another job is writing"):
        graph.map([1], output=path)
    output.stop()
    graph.map([1], output=path)


def test_a_job_that_is_told_to_raise_keeps_what_was_done(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with pytest.raises(GraphError, match="item 3 failed"):
        graph.map([1, 2, 3, 0, 5], output=path, on_error="raise", workers=1)
    said = json.loads((tmp_path / "out.parquet.parts" / "job.json").read_text())
    assert said["columns"]["shape"] == "value"
    assert graph.map([1, 2, 3, 0, 5], output=path).kept == 3


def test_nothing_is_written_as_nothing(graph: Graph, tmp_path: Path) -> None:
    mapped = graph.map([], output=tmp_path / "out.parquet")
    assert list(mapped) == []
    assert read(tmp_path / "out.parquet").num_rows == 0

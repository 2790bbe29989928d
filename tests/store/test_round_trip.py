"""What is written is what is read."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.records import Function, Kept, Kind, Note, Site, Summary, Value
from clew.store.flush import CallEnd, CallStart, ChangeColumns, Flush, Span
from clew.store.format import FORMAT, NO_STEP, schema
from clew.store.reader import RunReader, ShardReader
from clew.store.shard_columns import Changes
from store.making import array, array_value, changes, first_flush, new_run, new_writer, only_shard, records


def write_and_read(tmp_path: Path, *flushes: Flush, **options: object) -> ShardReader:
    run = new_run(tmp_path / "run")
    writer = new_writer(run, **options)
    for flush in flushes:
        writer.write(flush)
    writer.close()
    reader = RunReader(run)
    assert reader.problems == []
    return reader.shards[0]


def test_functions_and_sites_come_back(tmp_path: Path) -> None:
    functions = [
        Function(0, "f", "m", "/a/b.py", 1, "cpython-311-O0:ab", "cd", "def f():\n    return 'ü'\n"),
        Function(1, "C.g", "π", "/a/ü.py", 2),
    ]
    sites = [Site(0, 0, "x", 3), Site(1, 1, 'cfg["lr"]', 4, "step")]
    shard = write_and_read(tmp_path, Flush(0, functions[:1], sites[:1]), Flush(1, functions[1:], sites[1:]))
    assert list(shard.functions.values()) == functions
    assert list(shard.sites.values()) == sites


def test_starts_come_back_with_missing_steps_and_stages(tmp_path: Path) -> None:
    starts = [
        CallStart(1, -1, 0, 5, 6, "Main"),
        CallStart(2, 1, 0, 7, 8, "T-1", args=3, step=-4, rank=2, stage="clean"),
    ]
    shard = write_and_read(tmp_path, Flush(0, [Function(0, "f", "m", "x", 1)], starts=starts))
    actual = shard.starts
    assert actual.call.tolist() == [1, 2]
    assert actual.parent.tolist() == [-1, 1]
    assert actual.time.tolist() == [5, 7]
    assert actual.thread.tolist() == [6, 8]
    assert actual.thread_name.tolist() == ["Main", "T-1"]
    assert actual.args.tolist() == [-1, 3]
    assert actual.step.tolist() == [NO_STEP, -4]
    assert actual.rank.tolist() == [0, 2]
    assert actual.stage.tolist() == [None, "clean"]


def test_ends_come_back_with_errors(tmp_path: Path) -> None:
    shard = write_and_read(tmp_path, Flush(0, ends=[CallEnd(1, 2), CallEnd(3, 4, "ValueError: no", 5)]))
    assert shard.ends.call.tolist() == [1, 3]
    assert shard.ends.time.tolist() == [2, 4]
    assert shard.ends.error.tolist() == [None, "ValueError: no"]
    assert shard.ends.result.tolist() == [-1, 5]


SPANS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(0, 40), st.integers(0, 40)), max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(SPANS, min_size=1, max_size=3), st.data())
def test_cells_gathered_from_spans_are_those_of_the_whole_column(batches: list[list[Any]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        flushes = [Flush(0, changes=spanned([Span(*span) for span in spans])) for spans in batches]
        whole = write_and_read(Path(folder), first_flush(), *flushes).changes
        some = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=9)) if len(whole) else []
        rows = np.array(some, np.int64)
        for name in ("call", "time", "value"):
            column = whole.column(name)
            fresh = RunReader(Path(folder) / "run").shards[0].changes
            assert fresh.is_sorted(name) == bool((column[1:] >= column[:-1]).all())
            assert fresh.is_constant(name) == (len(set(column.tolist())) < 2)
            assert fresh.gather(name, np.sort(rows)).tolist() == column[np.sort(rows)].tolist()
            assert fresh.gather(name, rows).tolist() == column[rows].tolist()


def spanned(spans: list[Span]) -> ChangeColumns:
    count = sum(span.changes for span in spans)
    kinds = np.arange(count, dtype=np.uint8) % len(Kind)
    return ChangeColumns(np.zeros(count, np.int32), kinds, np.arange(count, dtype=np.float64), spans)


def test_changes_come_back_bit_for_bit(tmp_path: Path) -> None:
    numbers = np.array([0.0, -0.0, np.inf, np.nan, 2.0**53, 5e-324])
    spans = [Span(4, 7, 2**62, 2**62), Span(2, 8, 100, 110)]
    columns = ChangeColumns(np.zeros(6, np.int32), np.arange(6, dtype=np.uint8), numbers, spans)
    shard = write_and_read(tmp_path, first_flush(), Flush(0, changes=columns))
    assert shard.changes.number.tobytes() == numbers.tobytes()
    assert shard.changes.kind.tolist() == list(Kind)
    assert shard.changes.value.tolist() == [0, -1, -1, -1, -1, -1]
    assert shard.changes.call.tolist() == [7] * 4 + [8] * 2
    assert shard.changes.time.tolist() == [2**62] * 4 + [105, 110]
    assert len(shard.changes) == 6


def test_columns_of_other_types_and_strides_are_taken(tmp_path: Path) -> None:
    columns = ChangeColumns(*(np.arange(6)[::2] for _ in range(3)), [Span(3, 1, 0, 8)])
    shard = write_and_read(tmp_path, Flush(0, changes=columns))
    assert shard.changes.number.tolist() == [0.0, 2.0, 4.0]


def test_notes_come_back(tmp_path: Path) -> None:
    notes = [Note("dropped", "x", "why", 3), Note("never-seen", "y", "what")]
    assert write_and_read(tmp_path, Flush(0, notes=notes)).notes == notes


def test_a_value_comes_back_with_its_whole_summary(tmp_path: Path) -> None:
    summary = Summary((2, 3), "<f4", "cuda:0", 6, 24, -1.5, float("inf"), float("nan"), 0.0, 1, 2, 3.5, 0.25)
    value = Value("numpy.ndarray", '{"é": 1}', [], Kept.SUMMARY, "over 32 MiB", summary, b"d" * 16)
    actual = write_and_read(tmp_path, Flush(0, values=[(7, value)])).value(7)
    assert repr(actual) == repr(value)  # by repr, because a NaN is in it


def test_an_empty_summary_comes_back_empty(tmp_path: Path) -> None:
    actual = write_and_read(tmp_path, Flush(0, values=[(0, Value("object", None, kept=Kept.OPAQUE))])).value(0)
    assert (actual.body, actual.summary, actual.kept) == (None, Summary(), Kept.OPAQUE)


def test_an_empty_shape_is_not_a_missing_one(tmp_path: Path) -> None:
    values = [(0, Value("a", "1", summary=Summary(shape=()))), (1, Value("b", "1"))]
    shard = write_and_read(tmp_path, Flush(0, values=values))
    assert (shard.value(0).summary.shape, shard.value(1).summary.shape) == ((), None)


def test_statistics_beyond_a_float_are_rounded(tmp_path: Path) -> None:
    summary = Summary(min=-(10**400), max=2**53 + 1, mean=np.float32(0.5))  # type: ignore[arg-type]
    actual = write_and_read(tmp_path, Flush(0, values=[(0, Value("int", "1", summary=summary))])).value(0).summary
    assert (actual.min, actual.max, actual.mean) == (float("-inf"), float(2**53), 0.5)


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 300_000, 3_000_000])
def test_parts_of_any_size_come_back_writable_and_private(tmp_path: Path, size: int) -> None:
    shard = write_and_read(tmp_path, Flush(0, values=[(0, array_value(1, size))]))
    (part,) = shard.value(0).parts
    actual = np.frombuffer(part, np.uint8)
    assert actual.tobytes() == array(1, size).tobytes()
    actual[:] = 0
    assert bytes(shard.value(0).parts[0]) == array(1, size).tobytes()


def test_parts_that_are_not_contiguous_come_back_in_c_order(tmp_path: Path) -> None:
    grid = np.arange(10_000, dtype=np.int32).reshape(100, 100).T
    shard = write_and_read(tmp_path, Flush(0, values=[(0, Value("numpy.ndarray", "{}", [grid, memoryview(grid[:3])]))]))
    parts = shard.value(0).parts
    assert bytes(parts[0]) == grid.tobytes("C")
    assert bytes(parts[1]) == grid[:3].tobytes("C")


def test_many_values_come_in_the_requested_order(tmp_path: Path) -> None:
    flushes = [Flush(n, values=[(10 * n + i, Value("int", str(10 * n + i))) for i in range(10)]) for n in range(4)]
    shard = write_and_read(tmp_path, *flushes)
    assert [value.body for value in shard.values([35, 0, 12, 12])] == ["35", "0", "12", "12"]


def test_a_later_row_of_a_value_holds(tmp_path: Path) -> None:
    summary, full = Value("list", None, kept=Kept.SUMMARY, why="keep='last 1'"), Value("list", "[1]")
    shard = write_and_read(tmp_path, Flush(0, values=[(0, summary), (1, full)]), Flush(1, values=[(0, full)]))
    assert shard.value(0).body == "[1]"
    assert shard.values([0, 1])[0].kept is Kept.FULL


def test_a_value_that_was_never_written_says_so(tmp_path: Path) -> None:
    shard = write_and_read(tmp_path, Flush(0, values=[(5, Value("int", "1"))]))
    for value in (shard.value(4), *shard.values([-1, 6])):
        assert value.kept is Kept.OPAQUE
        assert "lost" in value.why


def test_texts_take_the_fast_lane_beside_values(tmp_path: Path) -> None:
    texts = ["", "plain", 'π\n"', "\ud800", "\x00"]
    flush = Flush(0, values=[(9, Value("int", "1"))], text_ids=np.arange(5), texts=texts)
    shard = write_and_read(tmp_path, flush)
    actual = shard.values(range(5))
    assert [json.loads(value.body or "") for value in actual] == texts
    assert {(value.type, value.kept) for value in actual} == {("str", Kept.FULL)}
    assert [value.summary.length for value in actual] == list(map(len, texts))
    assert shard.value(9).body == "1"


def test_texts_without_their_ids_are_refused(tmp_path: Path) -> None:
    writer = new_writer(new_run(tmp_path / "run"))
    with pytest.raises(ValueError, match="text_ids"):
        writer.write(Flush(0, texts=["a"], text_ids=np.arange(2)))
    writer.close()


def test_a_file_name_that_is_not_unicode_does_no_harm(tmp_path: Path) -> None:
    shard = write_and_read(tmp_path, Flush(0, [Function(0, "f", "m", "/x/\udcff.py", 1)]))
    assert shard.functions[0].file == "/x/\\udcff.py"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
summaries = st.builds(
    Summary,
    shape=st.none() | st.lists(st.integers(0, 2**63 - 1), max_size=3).map(tuple),
    dtype=st.none() | texts,
    device=st.none() | texts,
    length=st.none() | st.integers(0, 2**63 - 1),
    min=st.none() | st.floats(allow_nan=False),
    nan=st.none() | st.integers(0, 9),
    norm=st.none() | st.floats(0, allow_nan=False),
    zeros=st.none() | st.floats(0, 1),
)
values = st.builds(
    Value,
    type=texts,
    body=st.none() | texts,
    parts=st.lists(st.binary(max_size=30) | st.builds(bytes, st.integers(4090, 4100)), max_size=3),
    kept=st.sampled_from(Kept),
    why=texts,
    summary=summaries,
    digest=st.binary(max_size=16),
)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(flushes=st.lists(st.lists(values, max_size=6), max_size=4))
def test_any_values_come_back(tmp_path_factory: pytest.TempPathFactory, flushes: list[list[Value]]) -> None:
    run = new_run(tmp_path_factory.mktemp("any") / "run")
    writer = new_writer(run)
    expected: list[Value] = []
    for flush in flushes:
        writer.write(Flush(0, values=list(enumerate(flush, len(expected)))))
        expected += flush
    writer.close()
    actual = only_shard(run).values(range(len(expected)))
    for value in actual:
        value.parts = [bytes(part) for part in value.parts]
    assert actual == expected


def test_any_arrow_tool_reads_the_records(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(first_flush())
    writer.write(Flush(2, changes=changes(1.0, 2.0)))
    writer.close()
    table = pa.ipc.open_stream(records(run).read_bytes()).read_all()
    assert table.schema.equals(schema())
    assert [change["number"] for row in table["changes"].to_pylist() for change in row] == [1.0, 2.0]


def test_the_header_says_the_format(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    new_writer(run).close()
    assert pa.ipc.open_stream(records(run).read_bytes()).schema.metadata[b"clew.format"] == str(FORMAT).encode()


def test_changes_are_found_by_site_across_batches(tmp_path: Path) -> None:
    flushes = [Flush(n, changes=changes(n, n + 0.5, site=n % 3)) for n in range(9)]
    actual = write_and_read(tmp_path, first_flush(), *flushes).changes
    assert actual.at([1]).number.tolist() == [1.0, 1.5, 4.0, 4.5, 7.0, 7.5]
    assert actual.rows_of([1, 2]).tolist() == [2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17]
    assert actual.at(range(100)).number.tolist() == actual.number.tolist()
    assert len(actual.at([77])) == 0


def test_taken_rows_can_be_taken_from_again(tmp_path: Path) -> None:
    flushes = [Flush(n, changes=changes(n, n + 0.5)) for n in range(4)]
    actual = (
        write_and_read(tmp_path, first_flush(), *flushes).changes.take(np.array([1, 2, 5, 7])).take(np.array([0, 3]))
    )
    assert actual.number.tolist() == [0.5, 3.5]


def test_empty_columns_have_their_types(tmp_path: Path) -> None:
    shard = write_and_read(tmp_path, Flush(0))
    assert (shard.changes.number.dtype, shard.changes.site.dtype) == (np.float64, np.int32)
    assert shard.starts.stage.dtype == object
    assert isinstance(shard.changes.at([1]), Changes)


def test_columns_are_views_of_the_file_not_copies(tmp_path: Path) -> None:
    shard = write_and_read(tmp_path, first_flush(), Flush(0, changes=changes(*range(100_000))))
    number = shard.changes.number
    assert not number.flags.owndata
    assert not number.flags.writeable


def test_store_imports_neither_pandas_nor_torch() -> None:
    """pyarrow's own converters would: see arrays.py."""
    program = """
import sys, tempfile, pathlib, numpy
sys.path[:0] = sys.argv[1:]
from store.making import *
from clew.store.flush import CallEnd
run = new_run(pathlib.Path(tempfile.mkdtemp()) / "run")
writer = new_writer(run)
writer.write(first_flush())
writer.write(Flush(1, ends=[CallEnd(1, 2)], text_ids=numpy.arange(2), texts=["a", "b"]))
writer.write(numbered_flush(5))
writer.close()
shard = only_shard(run)
shard.changes.number, shard.starts.step, shard.ends.error, shard.values([0, 5]), shard.value(5)
print(sorted({"pandas", "torch", "h5py"} & set(sys.modules)))
"""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", program, str(tests), str(tests.parent / "src")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_run_folders_need_no_library() -> None:
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import clew.store.folder, clew.store.format
print(sorted({'numpy', 'pyarrow', 'xxhash'} & set(sys.modules)))
"""
    command = [sys.executable, "-c", program, str(Path(__file__).parents[2] / "src")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"

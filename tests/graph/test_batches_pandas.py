"""`graph.map` with batches of frames, tables, arrays and tensors: cut, given as recorded, and joined again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clew
from clew.errors import GraphError
from clew.graph import Graph
from graph import mapops

FRAME = pd.DataFrame(
    {"a": [1.0, 2.0, 3.0, 4.0, 5.0], "b": [10, 20, 30, 40, 50], "name": list("vwxyz")}, index=[7, 3, 9, 1, 5]
)


@pytest.fixture
def scored() -> Graph:
    return clew.record(mapops.scored, FRAME.head(2), library="operator")


def expected(frame: pd.DataFrame, rows: list[int]) -> pd.DataFrame:
    made = frame.assign(score=frame["a"] * 2.0 + frame["b"])
    return made.assign(rows=rows)


@pytest.mark.parametrize(
    "options", [{"workers": 1}, {"workers": 2, "processes": False}, {"processes": True, "workers": 1}]
)
def test_a_frame_is_given_in_frames_of_so_many_rows_and_joined_with_its_index(
    scored: Graph, options: dict[str, Any]
) -> None:
    before = FRAME.copy()
    joined = scored.map(FRAME, batch=2, **options).join()
    pd.testing.assert_frame_equal(joined, expected(FRAME, [2, 2, 2, 2, 1]))
    pd.testing.assert_frame_equal(FRAME, before)  # the graph adds columns to what it is given


def test_the_rows_of_an_output_that_is_a_frame_are_dictionaries(scored: Graph) -> None:
    rows = list(scored.map(FRAME, batch=2))
    assert rows[4] == {"a": 5.0, "b": 50, "name": "z", "score": 60.0, "rows": 1}
    assert len(rows) == 5


def test_a_row_that_is_to_blame_fails_alone_and_the_others_are_joined(scored: Graph) -> None:
    frame = FRAME.assign(a=[1.0, 2.0, -3.0, 4.0, 5.0])
    results = scored.map(frame, batch=4, workers=1)
    assert [bool(row) for row in results] == [True, True, False, True, True]
    assert [failure.index for failure in results.failures] == [2]
    assert results.failures[0].input == {"a": -3.0, "b": 30, "name": "x"}
    assert not results.ok
    joined = scored.map(frame, batch=4, workers=1).join("drop")
    assert joined.index.tolist() == [7, 3, 1, 5]
    with pytest.raises(GraphError, match="1 items failed, the first of them item 2: GuardError"):
        scored.map(frame, batch=4, workers=1).join()


def test_a_frame_that_is_numbered_anew_by_the_graph_is_numbered_as_for_all_rows() -> None:
    graph = clew.record(mapops.renumbered, FRAME.head(2), library="operator")
    pd.testing.assert_frame_equal(graph.map(FRAME, batch=2).join(), mapops.renumbered(FRAME))


def test_columns_of_a_frame_are_given_as_series_by_their_names() -> None:
    graph = clew.record(mapops.column_sum, FRAME["a"], FRAME["b"], library="operator")
    pd.testing.assert_series_equal(graph.map(FRAME, batch=2).join(), FRAME["a"] + FRAME["b"])


def test_a_series_is_given_in_series_of_so_many_rows_with_their_index() -> None:
    graph = clew.record(mapops.simple, FRAME["a"].head(2), library="operator")
    results = graph.map(FRAME["a"], batch=2)
    pd.testing.assert_series_equal(results.join(), FRAME["a"] * 10)
    assert list(graph.map(FRAME["a"], batch=2)) == [10.0, 20.0, 30.0, 40.0, 50.0]
    arrays = clew.record(mapops.simple, np.ones(2), library="operator")
    assert arrays.map(FRAME["a"], batch=2).join().tolist() == [10.0, 20.0, 30.0, 40.0, 50.0]


def test_columns_of_a_frame_are_given_as_arrays_to_inputs_that_were_recorded_with_arrays() -> None:
    graph = clew.record(mapops.column_sum, np.ones(2), np.ones(2), library="operator")
    joined = graph.map(FRAME, batch=2).join()
    assert isinstance(joined, np.ndarray)
    assert joined.tolist() == [11.0, 22.0, 33.0, 44.0, 55.0]


def test_lists_in_the_cells_of_a_table_are_rows_of_an_array_in_the_recorded_precision() -> None:
    graph = clew.record(mapops.centred, np.ones((2, 3), np.float32), library="operator")
    table = pa.table({"x": [[float(row)] * 3 for row in range(5)]})
    joined = graph.map(table, batch=2).join()["twice"]
    assert joined.dtype == np.float32
    assert joined.tolist() == [[2.0 * row] * 3 for row in range(5)]


def test_a_row_that_cannot_be_made_an_array_fails_alone() -> None:
    graph = clew.record(mapops.centred, np.ones((2, 2)), library="operator")
    results = graph.map(pa.table({"x": [None, [1.0, 2.0], [3.0, 4.0]]}), batch=3, workers=1)
    assert [isinstance(row, clew.Failure) for row in results] == [True, False, False]


def test_a_frame_recorded_as_one_is_not_given_row_by_row(scored: Graph) -> None:
    with pytest.raises(GraphError, match="recorded with a table"):
        scored.map(FRAME)


def test_rows_for_a_graph_that_was_recorded_with_a_frame_may_be_dictionaries(scored: Graph) -> None:
    joined = scored.map(FRAME.to_dict("records"), batch=2).join()
    pd.testing.assert_frame_equal(joined, expected(FRAME.reset_index(drop=True), [2, 2, 2, 2, 1]))


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "parquet"])
def test_tables_of_arrow_are_frames_for_a_graph_that_was_recorded_with_one(
    scored: Graph, kind: str, tmp_path: Path
) -> None:
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=3)
    items = {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(max_chunksize=3),
        "parquet": pq.ParquetFile(tmp_path / "in.parquet"),
    }[kind]
    joined = scored.map(items, batch=2).join()
    assert joined["score"].tolist() == [12.0, 24.0, 36.0, 48.0, 60.0]
    assert joined["rows"].tolist() == [2, 2, 2, 2, 1]


def test_frames_are_written_row_by_row_with_the_columns_that_are_kept(scored: Graph, tmp_path: Path) -> None:
    frame = FRAME.assign(a=[1.0, 2.0, -3.0, 4.0, 5.0], id=list("ABCDE"))
    done = scored.map(frame, batch=2, output=tmp_path / "out.parquet", keep=["id"], workers=1)
    assert [failure.index for failure in done.failures] == [2]
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["id"].to_pylist() == list("ABCDE")
    assert table["score"].to_pylist() == [12.0, 24.0, None, 48.0, 60.0]
    again = scored.map(frame.assign(a=1.0), batch=2, output=tmp_path / "more.parquet", keep="id", workers=1)
    assert again.ok


def test_a_job_of_frames_goes_on_with_the_rows_that_failed(scored: Graph, tmp_path: Path) -> None:
    frame = FRAME.assign(a=[1.0, 2.0, -3.0, 4.0, 5.0])
    scored.map(frame, batch=2, output=tmp_path / "out.parquet")
    again = scored.map(frame.assign(a=[1.0, 2.0, 3.0, 4.0, 5.0]), batch=2, output=tmp_path / "out.parquet")
    assert (again.kept, again.done) == (4, 1)
    assert pq.read_table(tmp_path / "out.parquet")["score"].to_pylist() == [12.0, 24.0, 36.0, 48.0, 60.0]


# ---- arrays


@pytest.fixture
def centred() -> Graph:
    return clew.record(mapops.centred, np.ones((2, 3)), library="operator")


@pytest.mark.parametrize("options", [{"workers": 1}, {"processes": True, "workers": 1}])
def test_an_array_is_given_in_arrays_of_so_many_rows_and_joined(centred: Graph, options: dict[str, Any]) -> None:
    array = np.arange(21.0).reshape(7, 3)
    joined = centred.map(array, batch=3, **options).join()
    assert np.array_equal(joined["twice"], array * 2)
    assert joined["rows"] == [3, 3, 3, 3, 3, 3, 1]
    assert [row["rows"] for row in centred.map(array, batch=3, **options)] == joined["rows"]


def test_rows_that_come_one_by_one_are_stacked_as_the_graph_was_recorded(centred: Graph) -> None:
    rows = [np.full(3, float(number)) for number in range(5)]
    assert centred.map(iter(rows), batch=2).join()["twice"].tolist() == [[2.0 * n] * 3 for n in range(5)]
    narrow = clew.record(mapops.centred, np.ones(2, np.float32), library="operator")
    assert narrow.map([1, 2, 3], batch=2).join()["twice"].dtype == np.float32


def test_an_array_that_was_recorded_as_one_row_is_no_batch() -> None:
    graph = clew.record(mapops.centred, np.ones(3), library="operator")
    for items in (np.ones((4, 3)), [np.ones(3), np.ones(3)]):
        with pytest.raises(GraphError, match="has 2 dimensions, and it was recorded with a ndarray of 1"):
            graph.map(items, batch=2)


def test_rows_of_other_shapes_are_run_apart_and_that_is_said(
    centred: Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [np.ones(3), np.ones(3), np.ones(4), np.ones(3)]
    results = centred.map(rows, batch=4, workers=1)
    assert [row["rows"] for row in results] == [2, 2, 1, 1]
    assert results.batches_split == 1
    assert "have different shapes: (3,), (4,)" in capsys.readouterr().err


def test_a_batch_for_which_the_graph_decides_otherwise_than_for_its_rows_fails() -> None:
    graph = clew.record(mapops.above, xs=[1.0, 2.0])
    results = graph.map([1.0, 2.0, 8.0, 9.0, 3.0, 3.0], batch=2, workers=1)
    assert [value or None for value in results] == [1.0, 2.0, None, None, 3.0, 3.0]
    assert "(in a batch of 2 rows)" in results.failures[0].error
    assert results.batches_split == 1


# ---- what comes out


def test_dictionaries_of_lists_are_joined() -> None:
    graph = clew.record(mapops.several, xs=[1, 2])
    joined = {"same": [0, 1, 2, 3, 4], "text": ["0", "1", "2", "3", "4"]}
    assert graph.map(range(5), batch=2).join() == joined


def test_without_batches_results_are_joined_into_a_list() -> None:
    assert clew.record(mapops.simple, 1).map(range(3)).join() == [0, 10, 20]


def test_nothing_is_joined_into_nothing(scored: Graph) -> None:
    assert scored.map(FRAME.head(0), batch=2).join() == []


def test_results_in_any_order_are_joined_in_the_order_of_the_items(scored: Graph) -> None:
    joined = scored.map(FRAME, batch=1, ordered=False, workers=3, processes=False).join()
    assert joined.index.tolist() == FRAME.index.tolist()


def test_results_that_were_taken_are_not_joined(scored: Graph) -> None:
    results = scored.map(FRAME, batch=2)
    next(results)
    with pytest.raises(GraphError, match="some were taken already"):
        results.join()
    with pytest.raises(GraphError, match="is not known"):
        scored.map(FRAME, batch=2).join("ignore")

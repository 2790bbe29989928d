"""One name's values over a run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from clew.errors import MissingLibraryError
from clew.records import DELETED
from reading.writing import Written, simple_run


def test_values_come_back_as_what_they_were(tmp_path: Path) -> None:
    values = [1, 1.0, True, None, "a", b"b", [1, (2, "c")], {"k": {1, 2}}, 2**70, -0.0, DELETED]
    back = simple_run(tmp_path, {"x": values})["x"].values
    assert back == values
    assert list(map(type, back)) == list(map(type, values))
    assert math.copysign(1, back[9]) == -1


def test_nan_comes_back(tmp_path: Path) -> None:
    assert math.isnan(simple_run(tmp_path, {"x": [float("nan")]})["x"].values[0])


def test_arrays_come_back_with_their_dtype(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    back = simple_run(tmp_path, {"x": [array]})["x"][0]
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, array)


def test_indexing_and_iteration_give_values_and_a_slice_is_a_series(tmp_path: Path) -> None:
    series = simple_run(tmp_path, {"x": [1, 2, 3, 4]})["x"]
    assert (series[0], series[-1], len(series)) == (1, 4, 4)
    assert list(series) == [1, 2, 3, 4]
    assert series[1:3].values == [2, 3]
    assert series[1:3].steps == [1, 2]
    with pytest.raises(IndexError):
        series[4]


def test_iteration_goes_over_many_blocks(tmp_path: Path) -> None:
    series = simple_run(tmp_path, {"x": list(range(9000))})["x"]
    assert list(series) == list(range(9000))


def test_lines_and_times_and_calls(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    shard.change(call, "x", 1, line=5, at=10)
    shard.change(call, "x", 2, line=7, at=20)
    shard.close()
    series = writer.open()["x"]
    assert series.lines == [5, 7]
    assert series.times.tolist() == [0.01, 0.02]
    assert [one.id for one in series.calls if one] == [call, call]
    assert set(series.places) == {("train", "mod.py", 5), ("train", "mod.py", 7)}


def test_processes_are_merged_in_order_of_time(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for process, times in enumerate([(10, 40), (20, 30)]):
        shard = writer.shard(process=process)
        call = shard.call(at=1)
        for at in times:
            shard.change(call, "x", [process, at], at=at, line=process + 1)
        shard.close()
    series = writer.open()["x"]
    assert series.values == [[0, 10], [1, 20], [1, 30], [0, 40]]
    assert series.lines == [1, 2, 2, 1]
    assert series.steps == [0, 1, 2, 3]
    assert [change.call.pid for change in series.changes if change.call] == [100, 101, 101, 100]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], "int64"),
        ([True, False], "bool"),
        ([1.0, 0.5], "float64"),
        ([1, 0.5], "float64"),
        (["a", "b"], "object"),
    ],
)
def test_to_numpy_has_the_dtype_of_the_values(tmp_path: Path, values: list[object], dtype: str) -> None:
    array = simple_run(tmp_path, {"x": values})["x"].to_numpy()
    assert array.dtype == dtype
    assert array.tolist() == values


def test_to_numpy_stacks_arrays_of_one_shape(tmp_path: Path) -> None:
    arrays = [np.full((2, 3), number, dtype=np.int16) for number in range(4)]
    stacked = simple_run(tmp_path, {"x": arrays})["x"].to_numpy()
    assert (stacked.shape, stacked.dtype) == ((4, 2, 3), np.int16)


def test_to_numpy_keeps_arrays_of_different_shapes_apart(tmp_path: Path) -> None:
    array = simple_run(tmp_path, {"x": [np.zeros(2), np.zeros(3)]})["x"].to_numpy()
    assert (array.dtype, array.shape) == (object, (2,))


def test_to_numpy_does_not_take_lists_for_rows(tmp_path: Path) -> None:
    array = simple_run(tmp_path, {"x": [[1, 2], [3, 4]]})["x"].to_numpy()
    assert (array.shape, array[1]) == ((2,), [3, 4])


def test_to_numpy_leaves_deletions_out(tmp_path: Path) -> None:
    assert simple_run(tmp_path, {"x": [1, DELETED, 2]})["x"].to_numpy().tolist() == [1, 2]
    assert len(simple_run(tmp_path / "b", {"x": [DELETED]})["x"].to_numpy()) == 0


def test_summaries_tell_of_numbers_and_arrays(tmp_path: Path) -> None:
    series = simple_run(tmp_path, {"x": [2, float("nan"), np.array([1.0, 3.0])]})["x"]
    number, nan, array = series.summaries()
    assert (number.min, number.max, number.nan) == (2, 2, 0)
    assert (nan.min, nan.nan) == (None, 1)
    assert (array.shape, array.min, array.max, array.mean) == ((2,), 1.0, 3.0, 2.0)


def test_points_are_all_numbers_and_those_of_arrays_with_one_element(tmp_path: Path) -> None:
    values = [1, "text", np.float32(2.5), np.array([3.0]), np.zeros(4), DELETED]
    assert simple_run(tmp_path, {"x": values})["x"].points().tolist() == [1.0, 2.5, 3.0]


def test_statistics_of_arrays_are_of_all_of_them_or_say_that_they_are_of_a_sample(tmp_path: Path) -> None:
    arrays = [np.array([3.0, 4.0]) * number for number in range(10)]
    series = simple_run(tmp_path, {"x": ["text", *arrays]})["x"]
    statistics = series.array_statistics()
    assert statistics is not None
    assert statistics.norms.tolist() == [5.0 * number for number in range(10)]
    assert (statistics.low, statistics.high, statistics.complete) == (0.0, 36.0, True)
    sample = series.array_statistics(limit=4)
    assert sample is not None
    assert not sample.complete


def test_a_series_without_arrays_has_no_statistics_of_them(tmp_path: Path) -> None:
    assert simple_run(tmp_path, {"x": [1, "text", [1, 2]]})["x"].array_statistics() is None


def test_repr_is_short(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"x": list(range(1000))})
    assert repr(run["x"]) == "<Series x: 1,000 changes, 0 → 999>"
    assert repr(run["x"][:0]) == "<Series x: empty>"


def test_plot_without_matplotlib_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingLibraryError, match="pip install matplotlib"):
        simple_run(tmp_path, {"x": [1]})["x"].plot()


def test_plot_draws_on_the_axes_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import ModuleType

    drawn = []

    class Axes:
        def plot(self, steps: list[int], values: object, label: str) -> None:
            drawn.append((steps, list(values), label))  # type: ignore[call-overload]

        def set_xlabel(self, text: str) -> None: ...
        def set_ylabel(self, text: str) -> None: ...

    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(__import__("sys").modules, name, ModuleType(name))
    axes = Axes()
    assert simple_run(tmp_path, {"x": [1, 4]})["x"].plot(axes) is axes
    assert drawn == [([0, 1], [1.0, 4.0], "x")]

"""pandas tables, columns and indexes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from clew.records import Kept, NotKept
from clew.values import Keep, capture, decode

FRAME = pd.DataFrame(
    {"a": [1, 2], "b": ["x", None], "c": pd.to_datetime(["2020-01-01", None]), "d": [1.5, np.nan], "e": [True, False]},
    index=pd.Index([10, 20], name="i"),
)

FRAMES = [
    FRAME,
    pd.DataFrame(),
    pd.DataFrame({0: [1.5], 1: ["x"]}),
    pd.DataFrame(np.ones((2, 3))),
    pd.DataFrame({("a", 1): [1], ("b", 2): [2]}),
    pd.DataFrame({"x": pd.Categorical(["a", "b", "a"])}),
    pd.DataFrame({"x": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["p", "q"])),
    pd.DataFrame([[1, 2]], columns=["same", "same"]),
]
SERIES = [
    FRAME["a"],
    pd.Series([1, None], dtype="Int64"),
    pd.Series([1.5], name=("t", 1)),
    pd.Series(range(3), index=pd.date_range("2020", periods=3, freq="h")),
    pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")),
]
INDEXES: list[Any] = [
    FRAME.index,
    pd.RangeIndex(2, 10, 3, name="r"),
    pd.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["p", None]),
    pd.date_range("2020", periods=5, freq="D"),
    pd.Index(["a", "b"]),
]


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
def test_a_table_reads_back(frame: Any) -> None:
    found = capture(frame)
    assert found.value.kept is Kept.FULL
    pd.testing.assert_frame_equal(decode(found.value), frame, check_index_type=True)
    assert found.unchanged(frame)
    assert capture(frame.copy()).digest == found.digest


@pytest.mark.parametrize("series", SERIES, ids=range(len(SERIES)))
def test_a_column_reads_back(series: Any) -> None:
    found = capture(series)
    pd.testing.assert_series_equal(decode(found.value), series, check_freq=True)
    assert found.unchanged(series)


@pytest.mark.parametrize("index", INDEXES, ids=range(len(INDEXES)))
def test_an_index_reads_back(index: Any) -> None:
    found = capture(index)
    back = decode(found.value)
    assert type(back) is type(index)
    pd.testing.assert_index_equal(back, index, exact=True)


@pytest.mark.parametrize(
    "scalar", [pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp(5), pd.Timedelta("1s"), pd.NaT, pd.NA]
)
def test_a_pandas_scalar_reads_back(scalar: Any) -> None:
    back = decode(capture([scalar]).value)[0]
    assert type(back) is type(scalar) and repr(back) == repr(scalar)


def test_one_cell_is_a_change() -> None:
    frame = FRAME.copy()
    found = capture(frame)
    frame.loc[20, "d"] = 2.5
    assert not found.unchanged(frame)
    assert capture(frame).digest != found.digest


def test_a_renamed_column_is_a_change() -> None:
    frame = FRAME.copy()
    found = capture(frame)
    frame.columns = ["a", "b", "c", "d", "z"]
    assert not found.unchanged(frame)
    assert capture(frame).digest != found.digest


def test_objects_in_a_column_are_not_asked_and_the_table_says_why_it_was_not_kept() -> None:
    class Odd:
        def __array__(self, *args: Any) -> Any:
            raise AssertionError("user code ran")

    frame = pd.DataFrame({"o": pd.Series([Odd(), Odd()], dtype=object)})
    found = capture(frame)
    assert found.value.kept is Kept.SUMMARY and "Python objects" in found.value.why
    back = decode(found.value)
    assert isinstance(back, NotKept) and back.summary.shape == (2, 1)


def test_a_table_over_the_limit_is_summarised() -> None:
    frame = pd.DataFrame({"x": np.arange(1000)})
    found = capture(frame, Keep(array_limit=100))
    assert found.value.kept is Kept.SUMMARY and "100 bytes" in found.value.why
    frame.loc[500, "x"] = -1
    assert not found.unchanged(frame)
    assert capture(frame, Keep(array_limit=100)).digest != found.digest


def test_a_table_in_a_container_is_watched() -> None:
    value = {"df": FRAME.copy()}
    found = capture(value)
    assert found.unchanged(value)
    value["df"].loc[10, "a"] = 9
    assert not found.unchanged(value)


def test_a_subclass_of_a_table_is_left_alone() -> None:
    class Mine(pd.DataFrame):
        @property
        def shape(self) -> Any:
            raise AssertionError("user code ran")

    value = Mine({"a": [1]})
    found = capture(value)
    assert found.value.kept is Kept.OPAQUE and found.unchanged(value)

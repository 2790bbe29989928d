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


class Odd:
    """Answers every question with a failure."""

    def __array__(self, *args: Any) -> Any:
        raise AssertionError("user code ran")

    __eq__ = __hash__ = __len__ = __iter__ = __bool__ = __repr__ = __arrow_array__ = __array__  # type: ignore[assignment]


def of_objects(*items: Any) -> Any:
    column = np.empty(len(items), object)
    for index, item in enumerate(items):
        column[index] = item
    return column


OBJECT_COLUMNS: list[Any] = [
    pd.Series(of_objects("a", None), dtype=object),
    pd.Series(of_objects("a", "b"), dtype=object, index=pd.Index(of_objects("x", "y"), dtype=object)),
    pd.Series(of_objects(1, "a", None, 2.5, b"x"), dtype=object),
    pd.Series(of_objects([1, 2], {"a": 1}, (3, 4)), dtype=object, name="n"),
    pd.Series([1, 2], index=pd.Index(of_objects((1, 2), "x"), dtype=object, name="i", tupleize_cols=False)),
    pd.Series([1 + 2j, 3j]),
]


@pytest.mark.parametrize("series", OBJECT_COLUMNS, ids=range(len(OBJECT_COLUMNS)))
def test_a_column_of_objects_reads_back(series: Any) -> None:
    found = capture(series)
    assert found.value.kept is Kept.FULL
    back = decode(found.value)
    pd.testing.assert_series_equal(back, series)
    assert list(map(type, back)) == list(map(type, series))
    assert list(map(type, back.index)) == list(map(type, series.index))
    assert capture(series.copy()).digest == found.digest


def test_a_table_with_columns_of_objects_among_others_reads_back() -> None:
    frame = pd.DataFrame({"a": [1, 2], "o": of_objects([1], {"k": 2}), "s": ["x", "y"], "p": of_objects(1, "x")})
    frame.index = pd.Index(of_objects("i", 5), dtype=object, name="mixed")
    found = capture(frame)
    assert found.value.kept is Kept.FULL and found.unchanged(frame)
    pd.testing.assert_frame_equal(decode(found.value), frame)


def test_an_index_of_objects_reads_back() -> None:
    index = pd.Index(of_objects("a", 1, (2, 3)), dtype=object, name="n", tupleize_cols=False)
    found = capture(index)
    back = decode(found.value)
    assert found.value.kept is Kept.FULL and found.unchanged(index)
    pd.testing.assert_index_equal(back, index)


def test_a_change_inside_an_object_of_a_column_is_a_change() -> None:
    frame = pd.DataFrame({"a": [1, 2], "o": of_objects([1], {"k": 2})})
    found = capture(frame)
    frame.loc[0, "o"].append(2)
    assert not found.unchanged(frame)
    assert capture(frame).digest != found.digest


def test_an_object_exchanged_in_a_column_is_a_change() -> None:
    frame = pd.DataFrame({"a": [1, 2], "o": of_objects([1], {"k": 2})})
    found = capture(frame)
    frame.at[1, "o"] = "new"
    assert not found.unchanged(frame)
    assert capture(frame).digest != found.digest


def test_a_number_beside_a_column_of_objects_is_a_change() -> None:
    frame = pd.DataFrame({"a": [1, 2], "o": of_objects([1], {"k": 2})})
    found = capture(frame)
    frame.loc[0, "a"] = 7
    assert not found.unchanged(frame)
    assert capture(frame).digest != found.digest


def test_an_object_in_the_index_that_changes_is_a_change() -> None:
    inside = [1]
    frame = pd.DataFrame({"a": [1]}, index=pd.Index(of_objects(inside), dtype=object))
    found = capture(frame)
    inside.append(2)
    assert not found.unchanged(frame)
    assert capture(frame).digest != found.digest


def test_an_index_of_several_levels_with_objects_is_judged_and_kept_in_part() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "a"), (2, 3.5)], names=["p", "q"]))
    found = capture(frame)
    assert found.value.kept is Kept.PART and "levels" in found.value.why
    assert capture(frame.copy()).digest == found.digest
    frame.index = pd.MultiIndex.from_tuples([(1, "a"), (2, 4.5)], names=["p", "q"])
    assert capture(frame).digest != found.digest


def test_a_type_of_column_that_arrow_refuses_is_judged_by_its_elements() -> None:
    column = pd.Series([1, 0, 2]).astype("Sparse[int]")
    found = capture(column)
    assert found.value.kept is Kept.PART and "Sparse" in found.value.why
    assert capture(column.copy()).digest == found.digest
    assert capture(pd.Series([1, 0, 3]).astype("Sparse[int]")).digest != found.digest


def test_objects_in_a_column_are_not_asked() -> None:
    frame = pd.DataFrame({"o": pd.Series(of_objects(Odd(), Odd()), dtype=object)})
    found = capture(frame)
    assert found.unchanged(frame)
    back = decode(found.value)
    assert [x.type for x in back["o"].array] == [f"{__name__}.{Odd.__name__}"] * 2


def test_a_column_with_something_opaque_is_kept_in_part() -> None:
    frame = pd.DataFrame({"o": of_objects(len, 1)})
    found = capture(frame)
    back = decode(found.value)
    assert found.value.kept is Kept.PART and isinstance(back, NotKept)
    assert back.part["o"].tolist()[1] == 1 and back.part["o"].tolist()[0].kept is Kept.OPAQUE


def test_a_column_of_a_foreign_type_is_left_alone() -> None:
    class Foreign(pd.api.extensions.ExtensionDtype):  # type: ignore[misc]
        name = "foreign"
        type = int

        @classmethod
        def construct_array_type(cls) -> Any:
            return Cells

    class Cells(pd.api.extensions.ExtensionArray):  # type: ignore[misc]
        dtype = Foreign()
        ready = True

        def __len__(self) -> int:
            return 2

        def copy(self) -> Any:
            return self

        def __getitem__(self, item: Any) -> Any:
            raise AssertionError("user code ran")

        def __array__(self, *args: Any, **more: Any) -> Any:
            raise AssertionError("user code ran")

    series = pd.Series(Cells())
    found = capture(series)
    assert found.value.kept is Kept.OPAQUE and "not pandas' own" in found.value.why
    assert found.unchanged(series)


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

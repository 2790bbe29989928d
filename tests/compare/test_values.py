"""Comparison of two values: numbers, text, containers, arrays, and values not kept in full."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import clew
from clew.compare.arrays import InMemory, measure, scan, ulps
from clew.compare.diff_result import Diff
from clew.compare.difference import Difference
from clew.compare.settings import EXACT, Tolerance, default
from clew.records import DELETED, Kept, Summary, Value
from clew.values import capture, parse_keep
from reading.writing import simple_run

NAN, INF = math.nan, math.inf


def diff(tmp_path: Path, a: Any, b: Any, **options: Any) -> Diff:
    runs = [simple_run(tmp_path, {"v": [one]}, name=f"12000{n}-v") for n, one in enumerate((a, b))]
    return clew.diff(*runs, **options)


def first(tmp_path: Path, a: Any, b: Any, **options: Any) -> Difference:
    difference = diff(tmp_path, a, b, **options).first
    assert difference is not None
    return difference


# ---- numbers


@pytest.mark.parametrize("pair", [(1.0, 1.0), (NAN, NAN), (INF, INF), (-0.0, 0.0), (1, 1.0), (True, 1), (None, None)])
def test_equal_numbers_are_equal(tmp_path: Path, pair: tuple[Any, Any]) -> None:
    assert diff(tmp_path, *pair, rtol=0).equal


def test_numbers_of_another_sign_of_zero_or_type_are_not_identical(tmp_path: Path) -> None:
    runs = [simple_run(tmp_path, {"v": v}, name=f"12000{n}-z") for n, v in enumerate(([0.0, 1], [-0.0, 1.0]))]
    summary = clew.diff(*runs).summary()
    assert (summary["identical"], summary["within"], summary["differ"]) == (2, 2, 0)  # arguments and result, beside


@pytest.mark.parametrize(
    "pair", [(1.0, 2.0), (NAN, 1.0), (INF, -INF), (INF, 1e308), (1, 2), (None, 0), (DELETED, 1), ("a", 1.0), (1, "1")]
)
def test_different_values_differ(tmp_path: Path, pair: tuple[Any, Any]) -> None:
    one = first(tmp_path, *pair)
    assert repr((one.a, one.b)) == repr(pair)


def test_by_default_rounding_of_floats_passes_and_integers_are_exact(tmp_path: Path) -> None:
    assert diff(tmp_path, 1.0, 1.0 + 1e-9).equal
    assert not diff(tmp_path / "b", 10**9, 10**9 + 1).equal


def test_an_explicit_tolerance_replaces_the_defaults_also_for_integers(tmp_path: Path) -> None:
    assert diff(tmp_path / "1", 100, 101, rtol=0.01).equal
    assert not diff(tmp_path / "2", 1.0, 1.0 + 1e-9, atol=1e-12).equal
    assert diff(tmp_path / "3", 1.0, math.nextafter(1.0, 2), ulp=1).equal
    assert not diff(tmp_path / "4", 1.0, math.nextafter(math.nextafter(1.0, 2), 2), ulp=1).equal


def test_numbers_are_measured(tmp_path: Path) -> None:
    measure = first(tmp_path, 2.0, 2.5).measure
    assert (measure.max_abs, measure.max_rel, measure.max_ulp) == (0.5, 0.25, 2**50)


def test_a_number_is_compared_with_an_array_that_holds_one(tmp_path: Path) -> None:
    assert diff(tmp_path / "1", 1.5, np.array(1.5)).equal
    assert diff(tmp_path / "2", np.float32(1.5), np.array([1.5])).equal
    assert not diff(tmp_path / "3", 1.5, np.array(2.5)).equal


# ---- text and containers


def test_the_note_tells_where_texts_begin_to_differ(tmp_path: Path) -> None:
    assert "character 2" in first(tmp_path, "abc", "abd").measure.note


@pytest.mark.parametrize(
    ("a", "b", "path"),
    [
        ([1, 2, 3], [1, 5, 3], "[1]"),
        ({"x": [1, {"y": 2.0}]}, {"x": [1, {"y": 3.0}]}, "['x'][1]['y']"),
        ({"x": 1}, {"x": 1, "z": 2}, "['z']"),
        ((1, 2), (1, 2, 3), "[2]"),
        ([np.zeros(3)], [np.ones(3)], "[0]"),
    ],
)
def test_the_path_leads_to_the_first_difference_in_a_container(tmp_path: Path, a: Any, b: Any, path: str) -> None:
    assert first(tmp_path, a, b).measure.path == path


def test_containers_of_floats_have_the_tolerance_of_floats(tmp_path: Path) -> None:
    assert diff(tmp_path, {"x": [1.0, NAN]}, {"x": [1.0 + 1e-10, NAN]}).equal


def test_a_list_that_holds_itself_is_compared(tmp_path: Path) -> None:
    a: list[Any] = [1]
    a.append(a)
    b: list[Any] = [2]
    b.append(b)
    assert first(tmp_path, a, b).measure.path == "[0]"


def test_a_list_and_a_tuple_differ(tmp_path: Path) -> None:
    assert "list against tuple" in first(tmp_path, [1], (1,)).measure.note


# ---- arrays


def test_arrays_are_measured(tmp_path: Path) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = a.copy()
    b[1, 2] += 0.5
    b[2, 3] = NAN
    measure = first(tmp_path, a, b).measure
    assert (measure.max_abs, measure.count, measure.inexact, measure.total) == (0.5, 2, 2, 12)
    assert (measure.first_index, measure.worst_index, measure.nonfinite_index) == ((1, 2), (1, 2), (2, 3))
    assert (measure.first_values, measure.nan, measure.inf) == ((6.0, 6.5), (0, 1), (0, 0))
    assert measure.max_rel == pytest.approx(0.5 / 6)
    assert measure.cosine is not None
    assert 0.99 < measure.cosine < 1


def test_differing_shapes_and_dtypes_are_reported(tmp_path: Path) -> None:
    measure = first(tmp_path, np.zeros((2, 3)), np.zeros((3, 2))).measure
    assert measure.shapes == ((2, 3), (3, 2))
    widened = first(tmp_path / "b", np.zeros(3, np.float32), np.ones(3, np.float64)).measure
    assert widened.dtypes == ("float32", "float64")
    assert "after widening" in widened.note


def test_arrays_of_two_types_are_compared_with_the_tolerance_of_the_coarser(tmp_path: Path) -> None:
    a = np.array([1.0, 2.0])
    assert diff(tmp_path, a, (a + 1e-6).astype(np.float32)).equal
    assert not diff(tmp_path / "b", a, a + 1e-5).equal


@pytest.mark.parametrize("floats", ["float16", "float32", "float64"])
def test_floats_and_integers_are_compared_without_dropping_the_fraction(tmp_path: Path, floats: str) -> None:
    a, b = np.array([0.0, 1.5], floats), np.array([0, 1])
    assert first(tmp_path, a, b).measure.max_abs == 0.5
    assert first(tmp_path / "b", b, a).measure.max_abs == 0.5
    assert scan(InMemory(a, floats), InMemory(b, "int64"), EXACT).magnitude == 0.5


@pytest.mark.parametrize("count", [1, 20])
def test_arrays_that_only_have_another_dtype_are_equal_and_a_note_tells_it(tmp_path: Path, count: int) -> None:
    a, b = (
        simple_run(tmp_path, {"v": [np.full(3, n, dtype) for n in range(count)]}, name=f"120000-{dtype}")
        for dtype in ("float32", "float64")
    )
    comparison = clew.diff(a, b, only="v")
    assert (comparison.equal, comparison.summary()["identical"]) == (True, 0)
    assert any("float32 in A and float64 in B" in note and note.startswith(f"{count} arr") for note in comparison.notes)


def test_nan_and_inf_at_the_same_places_are_equal(tmp_path: Path) -> None:
    a = np.array([NAN, INF, -INF, 1.0])
    b = a.copy()
    b[3] = 1.0 + 1e-12
    assert diff(tmp_path, a, b).equal
    b[1] = -INF
    assert first(tmp_path / "b", a, b).measure.nonfinite_index == (1,)


def test_large_arrays_are_read_in_pieces_and_the_place_is_right(tmp_path: Path) -> None:
    a = np.zeros((4, 100_000), np.float32)
    b = a.copy()
    b[3, 99_999] = 1.0
    measure = first(tmp_path, a, b).measure
    assert (measure.first_index, measure.count) == ((3, 99_999), 1)


def test_integers_are_compared_exactly(tmp_path: Path) -> None:
    a = np.array([2**62, 5], np.int64)
    b = np.array([2**62 + 1, 5], np.int64)
    assert first(tmp_path, a, b).measure.max_abs == 1.0
    assert first(tmp_path / "u", a.astype(np.uint64), b.astype(np.uint64)).measure.max_abs == 1.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([True, False]), np.array([True, True])),
        (np.array([1 + 1j, 2]), np.array([1 + 1j, 3])),
        (np.array(["a", "b"]), np.array(["a", "c"])),
        (np.array(["2020-01-01"], "M8[s]"), np.array(["2020-01-02"], "M8[s]")),
    ],
)
def test_arrays_of_other_types_are_compared_too(tmp_path: Path, a: Any, b: Any) -> None:
    measure = first(tmp_path, a, b).measure
    assert (measure.count, measure.first_index) == (1, (len(a) - 1,))


def test_times_of_two_units_are_compared_as_times(tmp_path: Path) -> None:
    days, seconds = np.array(["2020-01-01", "2020-01-02"], "M8[D]"), np.array(["2020-01-01", "2020-01-02"], "M8[s]")
    assert diff(tmp_path / "1", days, seconds).equal
    measure = first(tmp_path / "2", days, seconds + np.timedelta64(5, "s")).measure
    assert (measure.max_abs, measure.count) == (5, 2)


def test_the_index_and_the_order_of_columns_are_part_of_a_table(tmp_path: Path) -> None:
    import pandas

    table = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert diff(tmp_path / "1", table, table.copy()).equal
    assert first(tmp_path / "2", table, table.set_axis([0, 5])).measure.path == ".index"
    assert first(tmp_path / "3", table, table[["b", "a"]]).measure.path == ".columns[0]"


def test_masks_are_compared_and_masked_values_are_not(tmp_path: Path) -> None:
    masked = np.ma.array([1, 2, 3], mask=[0, 0, 1])
    assert diff(tmp_path / "1", masked, np.ma.array([1, 2, 99], mask=[0, 0, 1])).equal
    assert first(tmp_path / "2", masked, np.ma.array([1, 2, 3], mask=[0, 0, 0])).measure.path == ".mask"


def test_of_long_lists_the_ends_and_the_lengths_are_compared(tmp_path: Path) -> None:
    many = list(range(200_000))
    assert "the kept part" in first(tmp_path / "1", [*many, 1], [*many, 2]).measure.path
    assert "length 200,000 against 200,001" in first(tmp_path / "2", many, [*many, 2]).measure.note
    middle = [*many[:100_000], -1, *many[100_001:]]
    comparison = diff(tmp_path / "3", many, middle, only="v")
    assert (len(comparison.differences), [entry.name for entry in comparison.not_compared]) == (0, ["v"])


def test_items_that_only_one_container_has_are_reported(tmp_path: Path) -> None:
    assert first(tmp_path, {"a": 1, "b": 2}, {"a": 1}).measure.note == "only in the first"


def test_items_that_only_one_set_has_are_reported(tmp_path: Path) -> None:
    assert first(tmp_path, {1, 2, 3}, {1, 2, 4}).measure.note == "only in the first: 3; only in the second: 4"


def test_empty_arrays_are_equal(tmp_path: Path) -> None:
    assert diff(tmp_path, np.zeros((0, 3)), np.zeros((0, 3), np.float32)).equal


FLOATS = hnp.arrays(np.float64, 20, elements=st.floats(width=64))


@given(FLOATS, FLOATS, st.sampled_from([EXACT, Tolerance(1e-3, 1e-6), Tolerance(ulp=4)]))
@settings(max_examples=40)
def test_the_quick_look_and_the_measure_agree(a: Any, b: Any, tolerance: Tolerance) -> None:
    b = np.where(np.arange(20) % 3 == 0, a, b)
    sources = InMemory(a, "float64"), InMemory(b, "float64")
    quick, whole = scan(*sources, tolerance), measure(*sources, tolerance)
    with np.errstate(all="ignore"):
        size = np.where(np.isinf(a), 0, np.abs(a))
        near = np.abs(a - b) <= tolerance.atol + tolerance.rtol * size
        if tolerance.ulp:
            near |= ulps(a, b, "float64", "float64") <= tolerance.ulp
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        odd = ~np.isfinite(np.where(same, 0, a - b)) & (~np.isfinite(a) | ~np.isfinite(b))
    expected = int(np.count_nonzero(~same & (~near | odd)))
    assert whole.count == expected
    assert quick.differ == (expected > 0)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(-5, 5))
def test_ulps_count_the_floats_between(x: float, steps: int) -> None:
    y = np.float32(x)
    for _ in range(abs(steps)):
        y = np.nextafter(y, np.float32(np.copysign(np.inf, steps)))
    if np.isfinite(y):
        apart = ulps(np.array([x], np.float32), np.array([y], np.float32), "float32", "float32")
        assert apart[0] == abs(steps) or (x == 0 and y == 0)


def test_ulps_of_a_coarser_type_are_its_own() -> None:
    one = np.array([1.0], np.float32)
    assert ulps(one, one + np.float32(2**-7), "bfloat16", "bfloat16")[0] == 1
    assert ulps(one, one + np.float32(2**-7), "bfloat16", "float32")[0] == 1
    assert ulps(one, one + np.float32(2**-10), "float16", "float16")[0] == 1


def test_defaults_are_those_of_the_coarser_type() -> None:
    assert default("float32", "bfloat16").rtol == 1.6e-2
    assert default("complex64") == default("float32")
    assert default("float8_e4m3fn").rtol == default("float8_e4m3fnuz").rtol == 0.125
    assert default("int64") == EXACT


# ---- what was not kept in full


def kept(array: Any, keep: str) -> Value:
    return capture(array, parse_keep(keep)).value


def test_summaries_with_equal_hashes_are_equal_and_counted_as_by_hash(tmp_path: Path) -> None:
    a = np.arange(50_000.0)
    comparison = diff(tmp_path, kept(a, "summary"), kept(a, "summary"))
    assert comparison.equal
    assert comparison.summary()["by_hash"] == 1
    assert "1 by hash" in str(comparison)


def test_summaries_that_differ_are_counted_as_by_summary(tmp_path: Path) -> None:
    a = np.arange(50_000.0)
    comparison = diff(tmp_path, kept(a, "summary"), kept(a + 1, "summary"))
    assert len(comparison.differences) == 1
    assert comparison.summary()["by_summary"] == 1


def test_the_note_lists_the_statistics_that_differ(tmp_path: Path) -> None:
    a = np.arange(50_000.0)
    measure = first(tmp_path, kept(a, "summary"), a * 2).measure
    assert "max 49999 against 99998" in measure.note
    assert "nothing" not in measure.note


def test_a_summary_is_compared_with_what_was_kept_in_full(tmp_path: Path) -> None:
    a = np.arange(50_000.0)
    assert diff(tmp_path / "1", kept(a, "summary"), a).equal
    near = diff(tmp_path / "2", kept(a, "summary"), a + 1e-12)
    assert near.equal
    assert near.summary()["by_summary"] == 1
    assert not diff(tmp_path / "3", kept(a, "summary"), a * 2).equal


def test_with_exact_tolerance_different_hashes_are_a_difference(tmp_path: Path) -> None:
    a = np.arange(50_000.0)
    b = a.copy()
    b[7] += 1e-12
    assert not diff(tmp_path, kept(a, "summary"), kept(b, "summary"), rtol=0).equal


def test_opaque_values_are_counted_as_not_compared(tmp_path: Path) -> None:
    opaque = Value("some.Lock", None, kept=Kept.OPAQUE, why="clew does not look into it", summary=Summary())
    comparison = diff(tmp_path, opaque, opaque)
    assert [(entry.name, entry.count) for entry in comparison.not_compared] == [("v", 1)]
    assert "does not look into it" in comparison.not_compared[0].why
    assert "not compared" in str(comparison)


def test_the_difference_of_a_number_in_a_container_is_reported_once(tmp_path: Path) -> None:
    measure = first(tmp_path, {"n": 3, "m": 1}, {"n": 5, "m": 1}).measure
    assert (measure.path, measure.note, measure.cosine, measure.count) == ("['n']", "", None, 1)


def test_an_array_with_fewer_bytes_than_its_shape_needs_is_not_compared(tmp_path: Path) -> None:
    wrong = capture(np.arange(2000.0)).value
    wrong.body = wrong.body.replace("2000", "3000") if wrong.body else None
    wrong.digest = b"0" * 16
    comparison = diff(tmp_path, np.arange(3000.0), wrong)
    assert "number of bytes does not fit" in comparison.not_compared[0].why


def test_the_note_counts_the_differing_parts_of_a_container(tmp_path: Path) -> None:
    measure = first(tmp_path, [np.zeros(4), 1, 2], [np.ones(4), 1, 3]).measure
    assert (measure.path, measure.count, measure.total, measure.note) == ("[0]", 4, 4, "2 parts differ")

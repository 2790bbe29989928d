"""A series along an axis, as columns."""

from __future__ import annotations

import numpy as np
import pytest

from clew.page.curves import Curve, reduce_curve


def curve(x: list[float], y: list[float] | None = None) -> Curve:
    values = np.array(y if y is not None else x, dtype=np.float64)
    return Curve("step", np.array(x, dtype=np.float64), None, values, np.empty(0, np.int64), np.empty(0, np.uint8))


@pytest.mark.parametrize(("x", "place"), [(-5, 0), (0.4, 0), (0.6, 1), (1.0, 1), (3.9, 4), (4.0, 4), (99, 4)])
def test_the_nearest_point_is_found_the_last_of_several_at_one_place(x: float, place: int) -> None:
    assert curve([0, 1, 2, 4, 4]).nearest(x) == place


def test_buckets_are_equal_parts_of_the_axis_and_empty_ones_are_left_out() -> None:
    buckets = reduce_curve(curve([0, 1, 2, 90, 91, 100], [5, 1, 9, 2, 7, 3]), 0, 6, 10)
    assert buckets.last.tolist() == [2, 5]
    assert buckets.low.tolist() == [1, 2]
    assert buckets.high.tolist() == [9, 7]


def test_nan_is_passed_over_unless_there_is_nothing_else() -> None:
    nan = float("nan")
    buckets = reduce_curve(curve([0, 1, 2, 3], [nan, 4, nan, nan]), 0, 4, 2)
    assert buckets.low[0] == buckets.high[0] == 4
    assert np.isnan(buckets.low[1])


def test_a_window_that_is_cut_out_keeps_its_places() -> None:
    buckets = reduce_curve(curve([float(i) for i in range(100)]), 40, 60, 4)
    assert buckets.last.tolist() == [44, 49, 54, 59]
    assert buckets.low.tolist() == [40, 45, 50, 55]

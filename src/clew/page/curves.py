"""Holds a series as columns: numbers sorted along an axis, and what is not a finite number.

Computed once per series and cached; a window then takes a binary search and one pass (`reduce_curve`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.records import Kind

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.reading.lazy import Rows

Floats = npt.NDArray[np.float64]
AXES = ("step", "time", "index")

FINITE, NAN, INF, MINUS_INF, DELETED, OTHER = range(6)
WORDS = {NAN: "nan", INF: "inf", MINUS_INF: "-inf", DELETED: "deleted", OTHER: "other"}


@dataclass(frozen=True, slots=True)
class Numbers:
    """In the order of the series: the numbers to draw (NaN elsewhere), and what stands at the other places."""

    y: Floats
    odd: Rows  # indices of values that cannot be drawn
    reason: npt.NDArray[np.uint8]  # for each of these, why


@dataclass(frozen=True, slots=True)
class Curve:
    """A series along an axis."""

    axis: str  # the requested one, or "index" if the steps are not numbers
    x: Floats  # ascending
    order: Rows | None  # the index in the series of each point; None if they are in order
    y: Floats
    odd: Rows  # indices along the axis
    reason: npt.NDArray[np.uint8]

    @property
    def range(self) -> list[float] | None:
        return [float(self.x[0]), float(self.x[-1])] if len(self.x) else None

    def window(self, start: float | None, stop: float | None) -> tuple[int, int]:
        """The range of points from `start` to `stop`, both included."""
        low = 0 if start is None else int(np.searchsorted(self.x, start, side="left"))
        high = len(self.x) if stop is None else int(np.searchsorted(self.x, stop, side="right"))
        return low, max(low, high)

    def index(self, places: Any) -> Any:
        """The indices in the series of points along the axis."""
        return places if self.order is None else self.order[places]

    def nearest(self, x: float) -> int:
        """The point nearest to a place on the axis; the last one of several."""
        after = min(int(np.searchsorted(self.x, x, side="right")), len(self.x) - 1)
        before = max(after - 1, 0)
        nearest_x = self.x[before] if abs(self.x[before] - x) <= abs(self.x[after] - x) else self.x[after]
        return int(np.searchsorted(self.x, nearest_x, side="right")) - 1


def numbers_of(opened: OpenedRun, name: str) -> Numbers:
    return opened.cached(("numbers", name), lambda: _compute_numbers(opened, opened.rows_of(name)))


def curve_of(opened: OpenedRun, name: str, axis: str) -> Curve:
    return opened.cached(("curve", name, axis), lambda: _compute_curve(opened, name, axis))


def _compute_numbers(opened: OpenedRun, rows: Rows) -> Numbers:
    table = opened.tables.table
    y, plain = table.numbers(rows)
    not_plain = np.flatnonzero(~plain)
    y[not_plain], plain[not_plain] = table.single_numbers(rows[not_plain])
    odd = np.flatnonzero(~np.isfinite(y)).astype(np.int64)
    kinds = table.gather("kind", rows[odd])
    return Numbers(
        np.where(np.isinf(y), np.nan, y) if len(odd) else y, odd, _reasons_not_drawn(y[odd], plain[odd], kinds)
    )


def _reasons_not_drawn(y: Floats, plain: Any, kinds: Any) -> npt.NDArray[np.uint8]:
    reasons = np.full(len(y), OTHER, dtype=np.uint8)
    reasons[plain & np.isnan(y)] = NAN
    reasons[y == np.inf] = INF
    reasons[y == -np.inf] = MINUS_INF
    reasons[kinds == Kind.DELETED] = DELETED
    return reasons


def _compute_curve(opened: OpenedRun, name: str, axis: str) -> Curve:
    rows, numbers = opened.rows_of(name), numbers_of(opened, name)
    x: Floats | None = None
    if axis == "step":
        x = _steps_to_draw(opened.tables.steps.numbers(rows))
    elif axis == "time":
        x = opened.tables.table.times(rows)
    if x is None:
        axis, x = "index", np.arange(len(rows), dtype=np.float64)
    if len(x) < 2 or bool(np.all(x[1:] >= x[:-1])):
        return Curve(axis, x, None, numbers.y, numbers.odd, numbers.reason)
    order = np.argsort(x, kind="stable").astype(np.int64)
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    odd = inverse[numbers.odd]
    order_of_odd = np.argsort(odd, kind="stable")
    return Curve(axis, x[order], order, numbers.y[order], odd[order_of_odd], numbers.reason[order_of_odd])


def _steps_to_draw(steps: Floats | None) -> Floats | None:
    """The place of each change on the axis of steps; one without a step is drawn at the step before, or else the first.

    None if no change has a step.
    """
    if steps is None or not bool(np.isnan(steps).any()):
        return steps
    with_step = np.flatnonzero(~np.isnan(steps))
    if len(with_step) == 0:
        return None
    previous = np.searchsorted(with_step, np.arange(len(steps)), side="right") - 1
    return np.asarray(steps[with_step[np.maximum(previous, 0)]])


class Reduced(NamedTuple):
    """One point per bucket: the index of its last point, its minimum and its maximum."""

    last: Rows
    low: Floats
    high: Floats


def reduce_curve(curve: Curve, begin: int, end: int, buckets: int) -> Reduced:
    """Divide the axis into equal buckets with the extremes of their points; empty buckets are left out."""
    x, y = curve.x[begin:end], curve.y[begin:end]
    edges = np.linspace(x[0], x[-1], buckets + 1)[:-1]
    starts = np.unique(np.searchsorted(x, edges, side="left"))
    starts = starts[starts < len(x)]
    last = np.append(starts[1:], len(x)) - 1
    return Reduced(last + begin, np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts))

"""One name as columns: numbers over an axis, sorted along it, and what is no number.

Made once for a series and kept; a window of it is then a matter of a binary search and one pass (`reduced`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.records import Kind

if TYPE_CHECKING:
    from clew.history.lazy import Rows
    from clew.page.opened import Opened

Floats = npt.NDArray[np.float64]
AXES = ("step", "time", "index")

FINITE, NAN, INF, MINUS_INF, DELETED, OTHER = range(6)
WORDS = {NAN: "nan", INF: "inf", MINUS_INF: "-inf", DELETED: "deleted", OTHER: "other"}


@dataclass(frozen=True, slots=True)
class Numbers:
    """In the order of the series: what can be drawn (NaN elsewhere), and what is to be told instead."""

    y: Floats
    odd: Rows  # places where there is nothing to draw
    what: npt.NDArray[np.uint8]  # and why, for each of those


@dataclass(frozen=True, slots=True)
class Curve:
    """A series along an axis."""

    axis: str  # the one asked for; "index" where the steps are no numbers
    x: Floats  # ascending
    order: Rows | None  # the place in the series of each point; None if they are in order
    y: Floats
    odd: Rows  # places along the axis
    what: npt.NDArray[np.uint8]

    @property
    def range(self) -> list[float] | None:
        return [float(self.x[0]), float(self.x[-1])] if len(self.x) else None

    def window(self, start: float | None, stop: float | None) -> tuple[int, int]:
        """The points between, both included."""
        low = 0 if start is None else int(np.searchsorted(self.x, start, side="left"))
        high = len(self.x) if stop is None else int(np.searchsorted(self.x, stop, side="right"))
        return low, max(low, high)

    def index(self, places: Any) -> Any:
        """Where points along the axis stand in the series."""
        return places if self.order is None else self.order[places]

    def nearest(self, x: float) -> int:
        """The point nearest to a place on the axis; of several at one place the last."""
        right = min(int(np.searchsorted(self.x, x, side="right")), len(self.x) - 1)
        left = max(right - 1, 0)
        there = self.x[left] if abs(self.x[left] - x) <= abs(self.x[right] - x) else self.x[right]
        return int(np.searchsorted(self.x, there, side="right")) - 1


def numbers_of(opened: Opened, name: str) -> Numbers:
    return opened.cached(("numbers", name), lambda: _numbers(opened, opened.rows_of(name)))


def curve_of(opened: Opened, name: str, axis: str) -> Curve:
    return opened.cached(("curve", name, axis), lambda: _curve(opened, name, axis))


def _numbers(opened: Opened, rows: Rows) -> Numbers:
    table = opened.tables.table
    y, plain = table.numbers(rows)
    other = np.flatnonzero(~plain)
    y[other], plain[other] = table.single_numbers(rows[other])
    odd = np.flatnonzero(~np.isfinite(y)).astype(np.int64)
    kinds = table.gather("kind", rows[odd])
    return Numbers(np.where(np.isinf(y), np.nan, y) if len(odd) else y, odd, _why(y[odd], plain[odd], kinds))


def _why(y: Floats, plain: Any, kinds: Any) -> npt.NDArray[np.uint8]:
    what = np.full(len(y), OTHER, dtype=np.uint8)
    what[plain & np.isnan(y)] = NAN
    what[y == np.inf] = INF
    what[y == -np.inf] = MINUS_INF
    what[kinds == Kind.DELETED] = DELETED
    return what


def _curve(opened: Opened, name: str, axis: str) -> Curve:
    rows, numbers = opened.rows_of(name), numbers_of(opened, name)
    x: Floats | None = None
    if axis == "step":
        x = _placed(opened.tables.steps.numbers(rows))
    elif axis == "time":
        x = opened.tables.table.times(rows)
    if x is None:
        axis, x = "index", np.arange(len(rows), dtype=np.float64)
    if len(x) < 2 or bool(np.all(x[1:] >= x[:-1])):
        return Curve(axis, x, None, numbers.y, numbers.odd, numbers.what)
    order = np.argsort(x, kind="stable").astype(np.int64)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    odd = back[numbers.odd]
    along = np.argsort(odd, kind="stable")
    return Curve(axis, x[order], order, numbers.y[order], odd[along], numbers.what[along])


def _placed(steps: Floats | None) -> Floats | None:
    """Where to draw changes on the axis of steps: those without one, NaN, at the last step before, or else the first.

    None if not one has a step.
    """
    if steps is None or not bool(np.isnan(steps).any()):
        return steps
    known = np.flatnonzero(~np.isnan(steps))
    if len(known) == 0:
        return None
    last = np.searchsorted(known, np.arange(len(steps)), side="right") - 1
    return np.asarray(steps[known[np.maximum(last, 0)]])


class Reduced(NamedTuple):
    """One point for many: where its bucket ends, the smallest and the largest in it."""

    last: Rows
    low: Floats
    high: Floats


def reduced(curve: Curve, begin: int, end: int, buckets: int) -> Reduced:
    """So many equal parts of the axis, each with the extremes of the points in it; empty ones are left out."""
    x, y = curve.x[begin:end], curve.y[begin:end]
    edges = np.linspace(x[0], x[-1], buckets + 1)[:-1]
    starts = np.unique(np.searchsorted(x, edges, side="left"))
    starts = starts[starts < len(x)]
    last = np.append(starts[1:], len(x)) - 1
    return Reduced(last + begin, np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts))

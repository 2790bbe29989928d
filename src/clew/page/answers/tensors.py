"""A series of arrays: their statistics and their histograms over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import ClewError
from clew.page.arrays import array_of, is_array, must_be_read, outlines_of, summary_of_row, value_rows
from clew.page.curves import AXES, Curve, curve_of
from clew.page.plain import number, numbers, places
from clew.records import Kept, Summary

if TYPE_CHECKING:
    from clew.history.lazy import Rows
    from clew.page.opened import Opened
    from clew.page.query import Query

POINTS = 400  # arrays that are told of at once
READ = 128 << 20  # bytes that are read for one answer
COLUMNS, MOST_COLUMNS = 60, 200
BINS, MOST_BINS = 40, 200


def tensors(opened: Opened, query: Query) -> dict[str, Any]:
    """Statistics of every array in the window, or of one in so many."""
    name = query.needed("name")
    curve = curve_of(opened, name, query.one_of("axis", AXES))
    along = _arrays_along(opened, name, curve)
    begin, end = np.searchsorted(along, curve.window(query.number("from"), query.number("to"))).tolist()
    inside = along[begin:end]
    chosen, every = _chosen(opened, name, curve, inside, query.whole("px", POINTS, 2, 4_000))
    rows = opened.rows_of(name)[curve.index(chosen)]
    outlines = outlines_of(opened.tables, rows)
    summaries = [summary_of_row(opened, row, one) for row, one in zip(rows.tolist(), outlines, strict=True)]
    return {
        "name": name,
        "axis": curve.axis,
        "total": len(along),
        "inside": len(inside),
        "range": [float(curve.x[along[0]]), float(curve.x[along[-1]])] if len(along) else None,
        "reduced": every > 1,
        "every": every,
        "x": places(curve.x[chosen]),
        "index": curve.index(chosen).tolist(),
        **{field: [number(getattr(one, field)) for one in summaries] for field in ("min", "max", "mean", "std")},
        **{field: [getattr(one, field) or 0 for one in summaries] for field in ("nan", "inf")},
        "full": [one.value.kept == Kept.FULL for one in outlines],
        "shapes": list(dict.fromkeys(_shape(one.value.summary) for one in outlines if is_array(one))),
    }


def _arrays_along(opened: Opened, name: str, curve: Curve) -> Rows:
    """Places along the axis of what may be arrays."""

    def find() -> Rows:
        found = value_rows(opened, name)
        if curve.order is None:
            return found
        there = np.zeros(len(curve.x), dtype=np.bool_)
        there[found] = True
        return np.flatnonzero(there[curve.order])

    return opened.cached(("arrays", name, curve.axis), find)


def _chosen(opened: Opened, name: str, curve: Curve, inside: Rows, points: int) -> tuple[Rows, int]:
    """One in so many that they are neither too many to draw nor too large to read."""
    every = max(-(-len(inside) // min(points, POINTS)), 1)
    while True:
        chosen = inside[::every]
        if len(chosen) <= 2 or _to_read(opened, opened.rows_of(name)[curve.index(chosen)]) <= READ:
            return chosen, every
        every *= 2


def _to_read(opened: Opened, rows: Rows) -> int:
    """Bytes of those whose statistics were never made."""
    pairs = zip(rows.tolist(), outlines_of(opened.tables, rows), strict=True)
    return sum(one.stored for row, one in pairs if must_be_read(opened, row, one))


def _shape(summary: Summary) -> str:
    return f"{summary.dtype} {summary.shape}"


# ---- histograms


def histogram(opened: Opened, query: Query) -> dict[str, Any]:
    """How the numbers of some of the arrays are spread, all over the same bins."""
    name, axis = query.needed("name"), query.one_of("axis", AXES)
    columns = query.whole("columns", COLUMNS, 1, MOST_COLUMNS)
    bins = query.whole("bins", BINS, 2, MOST_BINS)
    key = "histogram", name, axis, columns, bins
    return opened.cached(key, lambda: _histogram(opened, name, axis, columns, bins))


def _histogram(opened: Opened, name: str, axis: str, columns: int, bins: int) -> dict[str, Any]:
    curve = curve_of(opened, name, axis)
    along = _arrays_along(opened, name, curve)
    rows = opened.rows_of(name)
    even = np.linspace(0, max(len(along) - 1, 0), min(columns, len(along))).astype(np.int64)
    chosen = along[np.unique(even)]
    read = _readable(opened, rows, curve, chosen)
    arrays = [_finite(opened, int(rows[curve.index(place)]), name) for place in read.tolist()]
    low, high = _ends(arrays)
    return {
        "x": places(curve.x[read]),
        "index": curve.index(read).tolist(),
        "edges": numbers(np.linspace(low / 2, high / 2, bins + 1) * 2),
        "counts": [_counted(array, low, high, bins) for array in arrays],
        "left_out": len(along) - len(read),
        "note": _note(len(along), len(chosen), len(read)),
    }


def _readable(opened: Opened, rows: Rows, curve: Curve, chosen: Rows) -> Rows:
    """Those whose values were kept, as many as may be read for one answer."""
    read: list[int] = []
    left = READ
    for place, one in zip(chosen.tolist(), outlines_of(opened.tables, rows[curve.index(chosen)]), strict=True):
        if one.value.kept == Kept.FULL and is_array(one) and (one.stored <= left or not read):
            read.append(place)
            left -= one.stored
    return np.array(read, dtype=np.int64)


def _finite(opened: Opened, row: int, name: str) -> Any:
    try:
        flat = array_of(opened.tables.table.value(row), f"`{name}`").reshape(-1)
    except ClewError:
        return np.empty(0)
    if flat.dtype.kind != "f" or flat.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # a long double may be Inf here
            flat = flat.astype(np.float64)
    good = np.isfinite(flat)
    return flat if bool(good.all()) else flat[good]


def _ends(arrays: list[Any]) -> tuple[float, float]:
    some = [array for array in arrays if array.size]
    if not some:
        return 0.0, 1.0
    low, high = float(min(array.min() for array in some)), float(max(array.max() for array in some))
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _counted(array: Any, low: float, high: float, bins: int) -> list[int]:
    with np.errstate(all="ignore"):
        shares = (array.astype(np.float64) / 2 - low / 2) / (high / 2 - low / 2)  # halved: floats are 2**1024 apart
        slots = np.clip((np.nan_to_num(shares) * bins).astype(np.int64), 0, bins - 1)
    counts: list[int] = np.bincount(slots, minlength=bins).tolist()
    return counts


def _note(total: int, chosen: int, read: int) -> str:
    if not total:
        return "no arrays were recorded under this name"
    if not read:
        return "the values of none of these arrays were kept, only their statistics"
    lost = f"; of {chosen - read:,} the values were not kept, or they are too large together" if read < chosen else ""
    return f"{read:,} of {total:,} arrays{lost}" if read < total else ""

"""Answers about a series of arrays: their statistics and histograms over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import ClewError
from clew.page.array_slices import array_of, is_array, must_be_read, outlines_of, summary_of_row, value_rows
from clew.page.curves import AXES, Curve, curve_of
from clew.page.plain_json import axis_numbers, number, numbers
from clew.records import Kept, Summary

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query
    from clew.reading.lazy import Rows

POINTS = 400  # arrays per answer
READ = 128 << 20  # bytes read per answer
COLUMNS, MOST_COLUMNS = 60, 200
BINS, MOST_BINS = 40, 200


def tensors(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """Statistics of every array in the window, or of every n-th if there are too many."""
    name = query.required("name")
    curve = curve_of(opened, name, query.choice("axis", AXES))
    array_points = _array_points(opened, name, curve)
    begin, end = np.searchsorted(array_points, curve.window(query.number("from"), query.number("to"))).tolist()
    in_window = array_points[begin:end]
    sample, every = _sample_points(opened, name, curve, in_window, query.integer("px", POINTS, 2, 4_000))
    rows = opened.rows_of(name)[curve.index(sample)]
    outlines = outlines_of(opened.tables, rows)
    summaries = [summary_of_row(opened, row, outline) for row, outline in zip(rows.tolist(), outlines, strict=True)]
    return {
        "name": name,
        "axis": curve.axis,
        "total": len(array_points),
        "inside": len(in_window),
        "range": [float(curve.x[array_points[0]]), float(curve.x[array_points[-1]])] if len(array_points) else None,
        "reduced": every > 1,
        "every": every,
        "x": axis_numbers(curve.x[sample]),
        "index": curve.index(sample).tolist(),
        **{
            field: [number(getattr(summary, field)) for summary in summaries] for field in ("min", "max", "mean", "std")
        },
        **{field: [getattr(summary, field) or 0 for summary in summaries] for field in ("nan", "inf")},
        "full": [outline.value.kept == Kept.FULL for outline in outlines],
        "shapes": list(dict.fromkeys(_type_text(outline.value.summary) for outline in outlines if is_array(outline))),
    }


def _array_points(opened: OpenedRun, name: str, curve: Curve) -> Rows:
    """Points along the axis that may be arrays."""

    def find() -> Rows:
        indices = value_rows(opened, name)
        if curve.order is None:
            return indices
        is_array_at = np.zeros(len(curve.x), dtype=np.bool_)
        is_array_at[indices] = True
        return np.flatnonzero(is_array_at[curve.order])

    return opened.cached(("arrays", name, curve.axis), find)


def _sample_points(opened: OpenedRun, name: str, curve: Curve, points_in_window: Rows, points: int) -> tuple[Rows, int]:
    """Every n-th point, such that there are neither too many to draw nor too many bytes to read; and n."""
    every = max(-(-len(points_in_window) // min(points, POINTS)), 1)
    while True:
        sample = points_in_window[::every]
        if len(sample) <= 2 or _bytes_to_read(opened, opened.rows_of(name)[curve.index(sample)]) <= READ:
            return sample, every
        every *= 2


def _bytes_to_read(opened: OpenedRun, rows: Rows) -> int:
    """The size of the arrays whose statistics are not computed yet."""
    pairs = zip(rows.tolist(), outlines_of(opened.tables, rows), strict=True)
    return sum(outline.stored for row, outline in pairs if must_be_read(opened, row, outline))


def _type_text(summary: Summary) -> str:
    return f"{summary.dtype} {summary.shape}"


# ---- histograms


def histogram(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """Histograms of a sample of the arrays, all with the same bins."""
    name, axis = query.required("name"), query.choice("axis", AXES)
    columns = query.integer("columns", COLUMNS, 1, MOST_COLUMNS)
    bins = query.integer("bins", BINS, 2, MOST_BINS)
    key = "histogram", name, axis, columns, bins
    return opened.cached(key, lambda: _compute_histogram(opened, name, axis, columns, bins))


def _compute_histogram(opened: OpenedRun, name: str, axis: str, columns: int, bins: int) -> dict[str, Any]:
    curve = curve_of(opened, name, axis)
    array_points = _array_points(opened, name, curve)
    rows = opened.rows_of(name)
    positions = np.linspace(0, max(len(array_points) - 1, 0), min(columns, len(array_points))).astype(np.int64)
    sample = array_points[np.unique(positions)]
    readable = _readable_points(opened, rows, curve, sample)
    arrays = [_finite_numbers(opened, int(rows[curve.index(place)]), name) for place in readable.tolist()]
    low, high = _common_range(arrays)
    return {
        "x": axis_numbers(curve.x[readable]),
        "index": curve.index(readable).tolist(),
        "edges": numbers(np.linspace(low / 2, high / 2, bins + 1) * 2),
        "counts": [_count_per_bin(array, low, high, bins) for array in arrays],
        "left_out": len(array_points) - len(readable),
        "note": _left_out_note(len(array_points), len(sample), len(readable)),
    }


def _readable_points(opened: OpenedRun, rows: Rows, curve: Curve, sample: Rows) -> Rows:
    """The points whose values were kept, as many as one answer may read."""
    readable: list[int] = []
    bytes_left = READ
    for point, outline in zip(sample.tolist(), outlines_of(opened.tables, rows[curve.index(sample)]), strict=True):
        if outline.value.kept == Kept.FULL and is_array(outline) and (outline.stored <= bytes_left or not readable):
            readable.append(point)
            bytes_left -= outline.stored
    return np.array(readable, dtype=np.int64)


def _finite_numbers(opened: OpenedRun, row: int, name: str) -> Any:
    try:
        flat = array_of(opened.tables.table.value(row), f"`{name}`").reshape(-1)
    except ClewError:
        return np.empty(0)
    if flat.dtype.kind != "f" or flat.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # a long double may become Inf
            flat = flat.astype(np.float64)
    is_finite = np.isfinite(flat)
    return flat if bool(is_finite.all()) else flat[is_finite]


def _common_range(arrays: list[Any]) -> tuple[float, float]:
    non_empty = [array for array in arrays if array.size]
    if not non_empty:
        return 0.0, 1.0
    low, high = float(min(array.min() for array in non_empty)), float(max(array.max() for array in non_empty))
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _count_per_bin(array: Any, low: float, high: float, bins: int) -> list[int]:
    with np.errstate(all="ignore"):
        shares = (array.astype(np.float64) / 2 - low / 2) / (high / 2 - low / 2)  # halved: floats are 2**1024 apart
        slots = np.clip((np.nan_to_num(shares) * bins).astype(np.int64), 0, bins - 1)
    counts: list[int] = np.bincount(slots, minlength=bins).tolist()
    return counts


def _left_out_note(total: int, sampled: int, readable: int) -> str:
    if not total:
        return "no arrays were recorded under this name"
    if not readable:
        return "the values of none of these arrays were kept, only their statistics"
    reason = (
        f"; of {sampled - readable:,} the values were not kept, or they are too large together"
        if readable < sampled
        else ""
    )
    return f"{readable:,} of {total:,} arrays{reason}" if readable < total else ""

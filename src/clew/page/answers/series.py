"""Answers with curves of numbers, and with one point of a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import UnknownNameError
from clew.page.answers.source import line_of
from clew.page.curves import AXES, OTHER, WORDS, Curve, curve_of, reduce_curve
from clew.page.open_run import step_text
from clew.page.plain_json import axis_numbers, number, numbers
from clew.page.value_boxes import box_of_row, boxes_of_rows
from clew.text.brief import printable, shorten, time_text

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query

MARKS = 200
PIXELS, MOST = 1_000, 20_000
TEXT = 60  # characters shown of a value that is not a number


def series(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """A window of a curve: every point, or the extremes of as many buckets as there are pixels."""
    name = query.required("name")
    curve = curve_of(opened, name, query.choice("axis", AXES))
    begin, end = curve.window(query.number("from"), query.number("to"))
    pixels = query.integer("px", PIXELS, 10, MOST)
    marks, total = _odd_marks(opened, name, curve, begin, end)
    return {
        "name": name,
        "axis": curve.axis,
        "total": len(curve.x),
        "inside": end - begin,
        "range": curve.range,
        **_curve_points(curve, begin, end, pixels),
        "marks": marks,
        "marksTotal": total,
    }


def _curve_points(curve: Curve, begin: int, end: int, pixels: int) -> dict[str, Any]:
    if end - begin <= 2 * pixels:
        return {"reduced": False, "x": axis_numbers(curve.x[begin:end]), "y": numbers(curve.y[begin:end])}
    buckets = reduce_curve(curve, begin, end, pixels)
    return {
        "reduced": True,
        "x": axis_numbers(curve.x[buckets.last]),
        "y": numbers(curve.y[buckets.last]),
        "low": numbers(buckets.low),
        "high": numbers(buckets.high),
    }


def _odd_marks(opened: OpenedRun, name: str, curve: Curve, begin: int, end: int) -> tuple[list[dict[str, Any]], int]:
    """Marks for values that are not finite numbers, evenly sampled if there are too many."""
    first, last = np.searchsorted(curve.odd, [begin, end]).tolist()
    total = last - first
    sample = np.unique(np.linspace(first, max(last - 1, first), min(total, MARKS)).astype(np.int64))
    positions, reasons = curve.odd[sample], curve.reason[sample]
    other_indices = np.flatnonzero(reasons == OTHER)
    rows = opened.rows_of(name)[curve.index(positions[other_indices])]
    texts = dict(zip(other_indices.tolist(), boxes_of_rows(opened.tables, rows), strict=True))
    marks: list[dict[str, Any]] = []
    for index, (x, reason) in enumerate(zip(axis_numbers(curve.x[positions]), reasons.tolist(), strict=True)):
        text = {"text": shorten(texts[index]["text"], TEXT)} if index in texts else {}
        marks.append({"x": x, "what": WORDS[reason], **text})
    return marks, total


def point(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """One value of a series, with the place and call in which it was recorded."""
    name = query.required("name")
    rows = opened.rows_of(name)
    index = _requested_index(opened, query, name, len(rows))
    row = int(rows[index])
    view = opened.tables
    shard, local = view.table.place(row)
    reader = view.table.shards[shard]
    site = reader.sites[int(view.table.column(shard, "site")[local])]
    function = reader.functions[site.function]
    call = view.call_of_row(row)
    rows_of_one = np.array([row], dtype=np.int64)
    return {
        "name": name,
        "index": index,
        "total": len(rows),
        "step": step_text(view.steps.at(rows_of_one)[0]),
        "time": number(float(time_text(view.table.times(rows_of_one)[0], view.table.times_error(rows_of_one)[0]))),
        "value": box_of_row(view, row, name),
        "place": {"file": printable(function.file), "line": site.line, "function": printable(function.name)},
        "code": line_of(function, site.line),
        "call": None if call is None else f"{call.shard}:{call.id}",
    }


def _requested_index(opened: OpenedRun, query: Query, name: str, total: int) -> int:
    x = query.number("x")
    if x is None:
        index = query.integer("index", 0)
        if index >= total:
            message = f"`{name}` has {total:,} values, and none numbered {index:,}."
            raise UnknownNameError("no-such-point", message, f"The last is {total - 1:,}.")
        return index
    curve = curve_of(opened, name, query.choice("axis", AXES))
    return int(curve.index(curve.nearest(x)))

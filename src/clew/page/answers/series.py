"""Curves of numbers, and one point of a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import UnknownNameError
from clew.page.answers.source import line_of
from clew.page.boxes import box_of_row, boxes_of_rows
from clew.page.curves import AXES, OTHER, WORDS, Curve, curve_of, reduced
from clew.page.opened import step_text
from clew.page.plain import number, numbers, places
from clew.show.text import printable, shorten, time_text

if TYPE_CHECKING:
    from clew.page.opened import Opened
    from clew.page.query import Query

MARKS = 200
PIXELS, MOST = 1_000, 20_000
TEXT = 60  # characters told of what is no number


def series(opened: Opened, query: Query) -> dict[str, Any]:
    """A window of a curve: every point, or the extremes of as many buckets as there are pixels."""
    name = query.needed("name")
    curve = curve_of(opened, name, query.one_of("axis", AXES))
    begin, end = curve.window(query.number("from"), query.number("to"))
    pixels = query.whole("px", PIXELS, 10, MOST)
    marks, total = _marks(opened, name, curve, begin, end)
    return {
        "name": name,
        "axis": curve.axis,
        "total": len(curve.x),
        "inside": end - begin,
        "range": curve.range,
        **_points(curve, begin, end, pixels),
        "marks": marks,
        "marksTotal": total,
    }


def _points(curve: Curve, begin: int, end: int, pixels: int) -> dict[str, Any]:
    if end - begin <= 2 * pixels:
        return {"reduced": False, "x": places(curve.x[begin:end]), "y": numbers(curve.y[begin:end])}
    found = reduced(curve, begin, end, pixels)
    return {
        "reduced": True,
        "x": places(curve.x[found.last]),
        "y": numbers(curve.y[found.last]),
        "low": numbers(found.low),
        "high": numbers(found.high),
    }


def _marks(opened: Opened, name: str, curve: Curve, begin: int, end: int) -> tuple[list[dict[str, Any]], int]:
    """What is no finite number, evenly chosen where there is too much of it."""
    first, last = np.searchsorted(curve.odd, [begin, end]).tolist()
    total = last - first
    chosen = np.unique(np.linspace(first, max(last - 1, first), min(total, MARKS)).astype(np.int64))
    at, what = curve.odd[chosen], curve.what[chosen]
    others = np.flatnonzero(what == OTHER)
    rows = opened.rows_of(name)[curve.index(at[others])]
    texts = dict(zip(others.tolist(), boxes_of_rows(opened.tables, rows), strict=True))
    marks: list[dict[str, Any]] = []
    for place, (x, word) in enumerate(zip(places(curve.x[at]), what.tolist(), strict=True)):
        told = {"text": shorten(texts[place]["text"], TEXT)} if place in texts else {}
        marks.append({"x": x, "what": WORDS[word], **told})
    return marks, total


def point(opened: Opened, query: Query) -> dict[str, Any]:
    """One value of a series, where it was recorded and in which call."""
    name = query.needed("name")
    rows = opened.rows_of(name)
    index = _asked_for(opened, query, name, len(rows))
    row = int(rows[index])
    view = opened.tables
    shard, local = view.table.place(row)
    reader = view.table.shards[shard]
    site = reader.sites[int(view.table.column(shard, "site")[local])]
    function = reader.functions[site.function]
    call = view.call_of_row(row)
    one = np.array([row], dtype=np.int64)
    return {
        "name": name,
        "index": index,
        "total": len(rows),
        "step": step_text(view.steps.at(one)[0]),
        "time": number(float(time_text(view.table.times(one)[0], view.table.times_error(one)[0]))),
        "value": box_of_row(view, row, name),
        "place": {"file": printable(function.file), "line": site.line, "function": printable(function.name)},
        "code": line_of(function, site.line),
        "call": None if call is None else f"{call.shard}:{call.id}",
    }


def _asked_for(opened: Opened, query: Query, name: str, total: int) -> int:
    x = query.number("x")
    if x is None:
        index = query.whole("index", 0)
        if index >= total:
            what = f"`{name}` has {total:,} values, and none numbered {index:,}."
            raise UnknownNameError("no-such-point", what, f"The last is {total - 1:,}.")
        return index
    curve = curve_of(opened, name, query.one_of("axis", AXES))
    return int(curve.index(curve.nearest(x)))

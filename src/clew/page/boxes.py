"""A value as the page shows it: one line, what is known of it, and a picture if it looks like one.

What is large is not read for a line: its outline says enough.
"""

from __future__ import annotations

import base64
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.page.plain import number
from clew.records import DELETED, Kept, Kind, NotKept, Summary, Value
from clew.show.pictures import picture
from clew.show.text import brief, printable
from clew.show.values import Look, type_name, value_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.history.lazy import Rows
    from clew.history.view import View

    Box = dict[str, Any]

LINE = 100  # characters of a value in a list
TEXT = 4_000  # likewise where it is shown alone
READ = 64 << 10  # bytes of a value that are read for a line in a list
READ_ALONE = 64 << 20  # likewise for a value that is shown alone, with its picture
_KEPT = {Kept.FULL: "full", Kept.PART: "part", Kept.SUMMARY: "summary", Kept.OPAQUE: "opaque"}
_STATISTICS = ("min", "max", "mean", "std", "nan", "inf", "norm", "zeros")
_PLAIN: dict[int, str] = {Kind.FLOAT: "float", Kind.INT: "int", Kind.BOOL: "bool", Kind.NONE: "NoneType"}
_IMAGE = re.compile(r'style="width:(\d+)px;height:(\d+)px;[^"]*" src="(data:image/png;base64,[A-Za-z0-9+/=]+)"')
_GAP = 4


def box_of(value: Any, *, alone: bool = False, draw: bool = False, name: str = "") -> Box:
    """The box of a value that is at hand."""
    if type(value) is NotKept:
        found = _box(value_line(value, width=LINE), value.type, value.kept, value.why, value.summary)
    else:
        text, cut = _text(value, alone)
        found = _box(text, _type(value), Kept.FULL, "", _summary(value, alone), cut)
    drawn = picture_of(value, name) if draw else None
    return {**found, "picture": drawn} if drawn else found


def boxes_of_rows(view: View, rows: Rows) -> list[Box]:
    """The values of changes, for a list: what is large is told by its outline."""
    table = view.table
    kinds, numbers = table.gather("kind", rows), table.gather("number", rows)
    out = [_of_number(int(kind), float(one)) for kind, one in zip(kinds.tolist(), numbers.tolist(), strict=True)]
    pointing = np.flatnonzero(kinds == Kind.VALUE)
    where = table.shard_of(rows[pointing])
    for shard in np.unique(where).tolist():
        chosen = pointing[where == shard]
        ids = table.column(shard, "value")[rows[chosen] - table.offsets[shard]].tolist()
        for place, box in zip(chosen.tolist(), boxes_of_ids(view, shard, ids), strict=True):
            out[place] = box
    return out


def boxes_of_ids(view: View, shard: int, ids: Sequence[int]) -> list[Box]:
    """The values with these ids, for a list."""
    from clew.values import decode

    reader = view.table.shards[shard]
    outlines = reader.outlines(ids)
    small = [place for place, outline in enumerate(outlines) if outline.stored <= READ]
    read = dict(zip(small, reader.values([ids[place] for place in small]), strict=True))
    return [
        _of_outline(outline.value) if place not in read else _of_stored(read[place], decode(read[place]))
        for place, outline in enumerate(outlines)
    ]


def box_of_row(view: View, row: int, name: str = "") -> Box:
    """The value of one change, shown alone."""
    shard, local = view.table.place(row)
    kind = int(view.table.column(shard, "kind")[local])
    if kind != Kind.VALUE:
        return _of_number(kind, float(view.table.column(shard, "number")[local]))
    return box_of_id(view, shard, int(view.table.column(shard, "value")[local]), name)


def box_of_id(view: View, shard: int, id: int, name: str = "") -> Box:
    """A value by its id, shown alone: with statistics and a picture."""
    from clew.values import decode, summary_of

    reader = view.table.shards[shard]
    outline = reader.outlines([id])[0]
    if outline.stored > READ_ALONE:
        return _of_outline(outline.value)
    stored = reader.value(id)
    value = decode(stored)
    text, cut = _text(value, alone=True)
    found = _box(text, stored.type, stored.kept, stored.why, summary_of(stored), cut)
    drawn = picture_of(value, name)
    return {**found, "picture": drawn} if drawn else found


# ---- the parts of a box


def _box(text: str, type: str, kept: Kept, why: str, summary: Summary, cut: int = 0) -> Box:
    found: Box = {"text": text, "type": printable(type), "kept": _KEPT[kept]}
    if why:
        found["why"] = printable(why)
    if cut:
        found["cut"] = cut
    if summary.shape is not None:
        found["shape"] = list(summary.shape)
    for name in ("dtype", "device"):
        told = getattr(summary, name)
        if told:
            found[name] = printable(told)
    stats = stats_of(summary)
    if stats:
        found["stats"] = stats
    return found


def stats_of(summary: Summary) -> dict[str, Any]:
    """What is known of the numbers inside."""
    known = {name: getattr(summary, name) for name in _STATISTICS}
    return {name: number(value) for name, value in known.items() if value is not None}


def _of_number(kind: int, value: float) -> Box:
    if kind == Kind.DELETED:
        return _box("deleted", "deleted", Kept.FULL, "", Summary())
    if kind == Kind.NONE:
        return _box("None", "NoneType", Kept.FULL, "", Summary())
    read: Any = bool(value) if kind == Kind.BOOL else int(value) if kind == Kind.INT and math.isfinite(value) else value
    return _box(repr(read), _PLAIN.get(kind, "?"), Kept.FULL, "", Summary())


def _of_outline(value: Value) -> Box:
    told = NotKept(value.type, value.kept, value.why, value.summary)
    return _box(value_line(told, width=LINE), value.type, value.kept, value.why, value.summary)


def _of_stored(stored: Value, value: Any) -> Box:
    text, cut = _text(value, alone=False)
    return _box(text, stored.type, stored.kept, stored.why, stored.summary, cut)


def _text(value: Any, alone: bool) -> tuple[str, int]:
    """One line, and how many characters of a text are left out of it."""
    if value is DELETED:
        return "deleted", 0
    if type(value) is float:
        return repr(value), 0
    if type(value) is str:
        room = TEXT if alone else LINE
        return printable(repr(value[:room])), max(len(value) - room, 0)
    if not alone or Look(value, room=0).facts is not None or type(value) is NotKept:
        return value_line(value, width=LINE), 0
    return brief(value, TEXT), 0


def _type(value: Any) -> str:
    return "deleted" if value is DELETED else type_name(value)


def _summary(value: Any, alone: bool) -> Summary:
    """What is seen of an array from outside; with its statistics if it is shown alone."""
    facts = Look(value, stats=alone, room=1 << 20).facts
    if facts is None:
        return Summary()
    found = Summary(facts.shape, facts.dtype, facts.device, nan=facts.nan, inf=facts.inf)
    found.min, found.max, found.mean = facts.low, facts.high, facts.mean
    return found


# ---- pictures


def picture_of(value: Any, name: str = "") -> str | None:
    """A data: URI; several pictures side by side as one."""
    drawn = picture(value, name)
    if drawn is None:
        return None
    images = _IMAGE.findall(drawn)
    if len(images) == 1 and "<svg" not in drawn:
        found: str = images[0][2]
        return found
    return as_uri(_side_by_side(images) if images else _alone(drawn))


def _side_by_side(images: list[tuple[str, str, str]]) -> str:
    parts, left = [], 0
    for width, height, uri in images:
        style = 'style="image-rendering:pixelated"'
        parts.append(f'<image x="{left}" width="{width}" height="{height}" {style} href="{uri}"/>')
        left += int(width) + _GAP
    tall = max(int(height) for _, height, _ in images)
    size = f'width="{left - _GAP}" height="{tall}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _alone(drawn: str) -> str:
    """A drawing that stands by itself: without the page's colour, and with the name of its language."""
    first = drawn[: drawn.find("</svg>") + 6].replace("currentColor", "#7a8794")
    return first if "xmlns=" in first else first.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)


def as_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode('ascii')}"

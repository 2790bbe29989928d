"""Makes the box of a value for the page: one line, its type and statistics, and a picture if it looks like one.

Large values are not read for a line; their outlines are enough.
"""

from __future__ import annotations

import base64
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.page.plain_json import number
from clew.records import DELETED, Kept, Kind, NotKept, Summary, Value
from clew.show.pictures import picture
from clew.text.brief import brief, printable
from clew.text.values import Look, type_name, value_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.reading.lazy import Rows
    from clew.reading.view import View

    Box = dict[str, Any]

LINE = 100  # characters of a value in a list
TEXT = 4_000  # likewise in detail
READ = 64 << 10  # bytes of a value that are read for a line in a list
READ_DETAILED = 64 << 20  # likewise in detail, with its picture
_KEPT = {Kept.FULL: "full", Kept.PART: "part", Kept.SUMMARY: "summary", Kept.OPAQUE: "opaque"}
_STATISTICS = ("min", "max", "mean", "std", "nan", "inf", "norm", "zeros")
_PLAIN: dict[int, str] = {Kind.FLOAT: "float", Kind.INT: "int", Kind.BOOL: "bool", Kind.NONE: "NoneType"}
_IMAGE = re.compile(r'style="width:(\d+)px;height:(\d+)px;[^"]*" src="(data:image/png;base64,[A-Za-z0-9+/=]+)"')
_GAP = 4


def box_of(value: Any, *, detailed: bool = False, draw: bool = False, name: str = "") -> Box:
    """The box of a value in memory."""
    if type(value) is NotKept:
        box = _make_box(value_line(value, width=LINE), value.type, value.kept, value.why, value.summary)
    else:
        text, cut = _line_text(value, detailed)
        box = _make_box(text, _type_of(value), Kept.FULL, "", _summary_in_memory(value, detailed), cut)
    image = picture_of(value, name) if draw else None
    return {**box, "picture": image} if image else box


def boxes_of_rows(view: View, rows: Rows) -> list[Box]:
    """The boxes of changes for a list; large values are described by their outlines."""
    table = view.table
    kinds, numbers = table.gather("kind", rows), table.gather("number", rows)
    out = [_box_of_number(int(kind), float(cell)) for kind, cell in zip(kinds.tolist(), numbers.tolist(), strict=True)]
    in_value_table = np.flatnonzero(kinds == Kind.VALUE)
    shards = table.shard_of(rows[in_value_table])
    for shard in np.unique(shards).tolist():
        indices = in_value_table[shards == shard]
        ids = table.column(shard, "value")[rows[indices] - table.offsets[shard]].tolist()
        for index, box in zip(indices.tolist(), boxes_of_ids(view, shard, ids), strict=True):
            out[index] = box
    return out


def boxes_of_ids(view: View, shard: int, ids: Sequence[int]) -> list[Box]:
    """The boxes of the values with these ids, for a list."""
    from clew.values import decode

    reader = view.table.shards[shard]
    outlines = reader.outlines(ids)
    small = [place for place, outline in enumerate(outlines) if outline.stored <= READ]
    read = dict(zip(small, reader.values([ids[place] for place in small]), strict=True))
    return [
        _box_of_outline(outline.value) if place not in read else _box_of_stored(read[place], decode(read[place]))
        for place, outline in enumerate(outlines)
    ]


def box_of_row(view: View, row: int, name: str = "") -> Box:
    """The detailed box of one change."""
    shard, local = view.table.place(row)
    kind = int(view.table.column(shard, "kind")[local])
    if kind != Kind.VALUE:
        return _box_of_number(kind, float(view.table.column(shard, "number")[local]))
    return box_of_id(view, shard, int(view.table.column(shard, "value")[local]), name)


def box_of_id(view: View, shard: int, id: int, name: str = "") -> Box:
    """The detailed box of the value with this id, with statistics and a picture."""
    from clew.values import decode, summary_of

    reader = view.table.shards[shard]
    outline = reader.outlines([id])[0]
    if outline.stored > READ_DETAILED:
        return _box_of_outline(outline.value)
    stored = reader.value(id)
    value = decode(stored)
    text, cut = _line_text(value, detailed=True)
    box = _make_box(text, stored.type, stored.kept, stored.why, summary_of(stored), cut)
    image = picture_of(value, name)
    return {**box, "picture": image} if image else box


# ---- the parts of a box


def _make_box(text: str, type: str, kept: Kept, why: str, summary: Summary, cut: int = 0) -> Box:
    box: Box = {"text": text, "type": printable(type), "kept": _KEPT[kept]}
    if why:
        box["why"] = printable(why)
    if cut:
        box["cut"] = cut
    if summary.shape is not None:
        box["shape"] = list(summary.shape)
    for name in ("dtype", "device"):
        field = getattr(summary, name)
        if field:
            box[name] = printable(field)
    stats = stats_of(summary)
    if stats:
        box["stats"] = stats
    return box


def stats_of(summary: Summary) -> dict[str, Any]:
    """The known statistics of the numbers inside."""
    statistics = {name: getattr(summary, name) for name in _STATISTICS}
    return {name: number(value) for name, value in statistics.items() if value is not None}


def _box_of_number(kind: int, value: float) -> Box:
    if kind == Kind.DELETED:
        return _make_box("deleted", "deleted", Kept.FULL, "", Summary())
    if kind == Kind.NONE:
        return _make_box("None", "NoneType", Kept.FULL, "", Summary())
    read: Any = bool(value) if kind == Kind.BOOL else int(value) if kind == Kind.INT and math.isfinite(value) else value
    return _make_box(repr(read), _PLAIN.get(kind, "?"), Kept.FULL, "", Summary())


def _box_of_outline(value: Value) -> Box:
    placeholder = NotKept(value.type, value.kept, value.why, value.summary)
    return _make_box(value_line(placeholder, width=LINE), value.type, value.kept, value.why, value.summary)


def _box_of_stored(stored: Value, value: Any) -> Box:
    text, cut = _line_text(value, detailed=False)
    return _make_box(text, stored.type, stored.kept, stored.why, stored.summary, cut)


def _line_text(value: Any, detailed: bool) -> tuple[str, int]:
    """One line for the value, and how many characters of a text it leaves out."""
    if value is DELETED:
        return "deleted", 0
    if type(value) is float:
        return repr(value), 0
    if type(value) is str:
        room = TEXT if detailed else LINE
        return printable(repr(value[:room])), max(len(value) - room, 0)
    if not detailed or Look(value, room=0).facts is not None or type(value) is NotKept:
        return value_line(value, width=LINE), 0
    return brief(value, TEXT), 0


def _type_of(value: Any) -> str:
    return "deleted" if value is DELETED else type_name(value)


def _summary_in_memory(value: Any, detailed: bool) -> Summary:
    """The shape, dtype and device of an array, with its statistics if `detailed`."""
    facts = Look(value, stats=detailed, room=1 << 20).facts
    if facts is None:
        return Summary()
    summary = Summary(facts.shape, facts.dtype, facts.device, nan=facts.nan, inf=facts.inf)
    summary.min, summary.max, summary.mean = facts.low, facts.high, facts.mean
    return summary


# ---- pictures


def picture_of(value: Any, name: str = "") -> str | None:
    """The picture of a value as a data: URI; several pictures are put side by side."""
    markup = picture(value, name)
    if markup is None:
        return None
    images = _IMAGE.findall(markup)
    if len(images) == 1 and "<svg" not in markup:
        uri: str = images[0][2]
        return uri
    return as_uri(_side_by_side(images) if images else _standalone_svg(markup))


def _side_by_side(images: list[tuple[str, str, str]]) -> str:
    parts, x = [], 0
    for width, height, uri in images:
        style = 'style="image-rendering:pixelated"'
        parts.append(f'<image x="{x}" width="{width}" height="{height}" {style} href="{uri}"/>')
        x += int(width) + _GAP
    total_height = max(int(height) for _, height, _ in images)
    size = f'width="{x - _GAP}" height="{total_height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _standalone_svg(markup: str) -> str:
    """The first drawing as a document of its own: with a fixed colour and the namespace of SVG."""
    svg = markup[: markup.find("</svg>") + 6].replace("currentColor", "#7a8794")
    return svg if "xmlns=" in svg else svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)


def as_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode('ascii')}"

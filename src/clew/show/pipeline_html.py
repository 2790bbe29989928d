"""Renders a trace for notebooks and reports: the exact lines of `pipeline` as boxes that open, with small pictures.

All text is escaped, no script runs, nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.show.notebook import safe
from clew.show.pictures import note, picture
from clew.show.pipeline import rows
from clew.show.pipeline_values import Row
from clew.show.tree_lines import ERROR, MARKS, NAME, PLACE, REMARK, TIME, VARIABLE

PICTURES = 4 << 20  # characters of pictures per page
_STAGE_OPEN = 90  # lines: a longer stage is initially closed
_CALL_OPEN = 24  # likewise for a call

_PAGE = "font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;text-align:left;max-width:1100px"
_STAGE = "margin:8px 0;padding:4px 12px;border:1px solid rgba(128,128,128,.3);border-radius:6px"
_CALL = "margin:4px 0 6px 2px;padding-left:12px;border-left:2px solid rgba(128,128,128,.3)"
_DRAWN = "display:flex;flex-wrap:wrap;gap:3px 12px;align-items:center;margin:3px 0 3px {indent}em"
_COLUMN = 50  # em: the column in which pictures are aligned, unless the text is longer
_TEXT = "white-space:pre-wrap;overflow-wrap:anywhere"
_STYLES = {
    ERROR: "color:#d6336c;font-weight:600",
    MARKS: "opacity:.6",
    PLACE: "opacity:.6",
    TIME: "opacity:.6",
    REMARK: "font-style:italic;opacity:.75",
    VARIABLE: "color:#1c7ed6",
}


def html(part: Any) -> str:
    """A trace, stage, call, item or lineage as HTML."""
    return f'<div style="{_PAGE}">{_Page().boxes(rows(part), 0)}</div>'


class _Page:
    """Builds one page, and counts the room left for pictures."""

    def __init__(self) -> None:
        self._picture_room = PICTURES

    def boxes(self, lines: Sequence[Row], depth: int) -> str:
        """The content of one box, whose own lines are at this depth."""
        parts: list[str] = []
        place = 0
        while place < len(lines):
            row = lines[place]
            end = _end_of_box(lines, place) if row.opens else place + 1
            parts.append(self._box(row, lines[place + 1 : end]) if row.opens else self._line(row, depth))
            place = end
        return "".join(parts)

    def _box(self, row: Row, inner_rows: Sequence[Row]) -> str:
        style = _STAGE if row.opens == "stage" else _CALL
        limit = _STAGE_OPEN if row.opens == "stage" else _CALL_OPEN
        has_error = any(text == "raised " for inner_row in inner_rows for text, _ in inner_row.line.pieces)
        open_attribute = " open" if len(inner_rows) <= limit or has_error else ""
        summary = f'<summary style="cursor:pointer;{_TEXT}">{_row_html(row)}</summary>'
        return f'<details style="{style}"{open_attribute}>{summary}{self.boxes(inner_rows, row.depth + 1)}</details>'

    def _line(self, row: Row, depth: int) -> str:
        indent = 1.5 * max(row.depth - depth, 0)
        picture_html = self._picture_html(row)
        if not picture_html:
            return f'<div style="{_TEXT};margin-left:{indent}em">{_row_html(row)}</div>'
        text = f'<span style="{_TEXT};min-width:{_COLUMN - indent}em">{_row_html(row)}</span>'
        return f'<div style="{_DRAWN.format(indent=indent)}">{text}{picture_html}</div>'

    def _picture_html(self, row: Row) -> str:
        markup = picture(row.value, row.name) if row.has_value else None
        if markup is None:
            return ""
        self._picture_room -= len(markup)
        if self._picture_room < 0:
            markup = note(
                "not drawn", f"{PICTURES >> 20} MB of pictures are drawn already: show a stage or a call alone"
            )
        return f'<span style="display:inline-flex;flex-wrap:wrap;gap:3px;align-items:center">{markup}</span>'


def _end_of_box(lines: Sequence[Row], place: int) -> int:
    """The index after the last line of a box."""
    end = place + 1
    while end < len(lines) and lines[end].depth > lines[place].depth:
        end += 1
    return end


def _row_html(row: Row) -> str:
    return "".join(_piece_html(text, style) for text, style in row.line.pieces if text)


def _piece_html(text: str, style: str) -> str:
    if style == NAME:
        return f"<b>{safe(text)}</b>"
    css = _STYLES.get(style)
    return f'<span style="{css}">{safe(text)}</span>' if css else safe(text)

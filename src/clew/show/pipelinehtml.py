"""A trace in a notebook or a report: the lines of `pipeline`, word for word, as boxes that open, with small pictures.

Every text is escaped, no script runs, nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.show.marks import ERROR, MARKS, NAME, PLACE, SAID, TIME, VARIABLE
from clew.show.notebook import safe
from clew.show.pictures import note, picture
from clew.show.pipeline import rows
from clew.show.pipelinevalues import Row

PICTURES = 4 << 20  # characters of pictures in one page
_STAGE_OPEN = 90  # lines: a stage of more is closed at first
_CALL_OPEN = 24  # likewise a call

_PAGE = "font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;text-align:left;max-width:1100px"
_STAGE = "margin:8px 0;padding:4px 12px;border:1px solid rgba(128,128,128,.3);border-radius:6px"
_CALL = "margin:4px 0 6px 2px;padding-left:12px;border-left:2px solid rgba(128,128,128,.3)"
_DRAWN = "display:flex;flex-wrap:wrap;gap:3px 12px;align-items:center;margin:3px 0 3px {indent}em"
_COLUMN = 50  # em: where pictures stand below each other, unless the text is longer
_TEXT = "white-space:pre-wrap;overflow-wrap:anywhere"
_STYLES = {
    ERROR: "color:#d6336c;font-weight:600",
    MARKS: "opacity:.6",
    PLACE: "opacity:.6",
    TIME: "opacity:.6",
    SAID: "font-style:italic;opacity:.75",
    VARIABLE: "color:#1c7ed6",
}


def html(shown: Any) -> str:
    """A trace, a stage, a call, an item or a lineage, as HTML."""
    return f'<div style="{_PAGE}">{_Page().boxes(rows(shown), 0)}</div>'


class _Page:
    """One page that is being made: how much room there is left for pictures."""

    def __init__(self) -> None:
        self._room = PICTURES

    def boxes(self, lines: Sequence[Row], depth: int) -> str:
        """The lines of one box, whose own lines stand at this depth."""
        parts: list[str] = []
        place = 0
        while place < len(lines):
            row = lines[place]
            end = _end(lines, place) if row.opens else place + 1
            parts.append(self._box(row, lines[place + 1 : end]) if row.opens else self._line(row, depth))
            place = end
        return "".join(parts)

    def _box(self, row: Row, inside: Sequence[Row]) -> str:
        style = _STAGE if row.opens == "stage" else _CALL
        limit = _STAGE_OPEN if row.opens == "stage" else _CALL_OPEN
        failed = any(text == "raised " for one in inside for text, _ in one.line.pieces)
        opened = " open" if len(inside) <= limit or failed else ""
        summary = f'<summary style="cursor:pointer;{_TEXT}">{_words(row)}</summary>'
        return f'<details style="{style}"{opened}>{summary}{self.boxes(inside, row.depth + 1)}</details>'

    def _line(self, row: Row, depth: int) -> str:
        indent = 1.5 * max(row.depth - depth, 0)
        drawn = self._drawn(row)
        if not drawn:
            return f'<div style="{_TEXT};margin-left:{indent}em">{_words(row)}</div>'
        words = f'<span style="{_TEXT};min-width:{_COLUMN - indent}em">{_words(row)}</span>'
        return f'<div style="{_DRAWN.format(indent=indent)}">{words}{drawn}</div>'

    def _drawn(self, row: Row) -> str:
        drawn = picture(row.value, row.name) if row.has_value else None
        if drawn is None:
            return ""
        self._room -= len(drawn)
        if self._room < 0:
            drawn = note(
                "not drawn", f"{PICTURES >> 20} MB of pictures are drawn already: show a stage or a call alone"
            )
        return f'<span style="display:inline-flex;flex-wrap:wrap;gap:3px;align-items:center">{drawn}</span>'


def _end(lines: Sequence[Row], place: int) -> int:
    """Where the lines that belong to a box end."""
    end = place + 1
    while end < len(lines) and lines[end].depth > lines[place].depth:
        end += 1
    return end


def _words(row: Row) -> str:
    return "".join(_piece(text, style) for text, style in row.line.pieces if text)


def _piece(text: str, style: str) -> str:
    if style == NAME:
        return f"<b>{safe(text)}</b>"
    given = _STYLES.get(style)
    return f'<span style="{given}">{safe(text)}</span>' if given else safe(text)

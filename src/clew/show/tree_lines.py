"""Holds the lines of a tree as styled pieces of text, and writes them in the form that a stream supports.

A terminal gets colours (from rich, which respects `NO_COLOR` and dumb terminals) and lines cut to its width. A pipe or
file gets whole lines of plain text. A stream that cannot encode the marks gets ASCII ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

BRANCH, LAST, THROUGH, NOTHING = "├─ ", "└─ ", "│  ", "   "
ARROW, DOTS = "→", "…"

MARKS, NAME, PLACE, TIME = "bright_black", "bold cyan", "bright_black", "yellow"
VARIABLE, RESULT, ERROR, REMARK, PLAIN = "cyan", "green", "bold red", "italic", ""

LEVELS = 30  # levels of marks before a line; further outer levels are only counted

_ASCII = str.maketrans(
    {"├": "|", "└": "`", "│": "|", "─": "-", "→": "->", "…": "...", "“": '"', "”": '"', "×": "x", "µ": "u"}
)
_NON_ASCII_MARKS = "├─│└→…“”"


@dataclass(frozen=True, slots=True)
class Line:
    """A line as pieces of text, each with its style for a terminal."""

    pieces: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def rich(self) -> Text:
        """The line as a text for a rich console."""
        from rich.text import Text

        return Text.assemble(*self.pieces, no_wrap=True, overflow="ignore")

    def after(self, prefix: str) -> Line:
        """The same line, preceded by the marks of its place in the tree."""
        return Line(((prefix, MARKS), *self.pieces)) if prefix else self


def line(*pieces: tuple[str, str] | str) -> Line:
    """Make a line from pieces; a plain string is a piece without a style."""
    return Line(tuple((piece, PLAIN) if isinstance(piece, str) else piece for piece in pieces))


def margin(marks: list[str]) -> str:
    """The marks before a line, one per level; in deep recursion, a count replaces the outer levels."""
    hidden = len(marks) - LEVELS
    return "".join(marks) if hidden <= 0 else f"{DOTS}{hidden} levels{DOTS} " + "".join(marks[hidden:])


def to_ascii(text: str) -> str:
    """The text with ASCII in place of clew's own marks."""
    return text.translate(_ASCII)


def shows_marks(encoding: str | None) -> bool:
    """Whether the marks of a tree can be written in this encoding."""
    try:
        _NON_ASCII_MARKS.encode(encoding or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True


class Pen:
    """Turns lines into the text to write to one stream."""

    def __init__(self, stream: Any, *, ascii: bool = False, plain: bool = False) -> None:
        self.stream = stream
        encoding = getattr(stream, "encoding", None)
        self._encoding = encoding if isinstance(encoding, str) else None
        self._ascii = ascii or not shows_marks(self._encoding)
        isatty = getattr(stream, "isatty", None)
        self._terminal = not plain and isatty is not None and bool(isatty())
        coloured = self._terminal or (not plain and bool(os.environ.get("FORCE_COLOR")))
        self._console: Any = self._make_console() if coloured else None

    def _make_console(self) -> Any:
        from rich.console import Console

        return Console(file=self.stream, markup=False, highlight=False, emoji=False)

    def render(self, lines: Iterable[Line]) -> str:
        """The lines with their line ends as one text, so that it is written at once."""
        if self._console is None:
            return "".join(self._fit(line.text) + "\n" for line in lines)
        with self._console.capture() as caught:
            for line in lines:
                self._console.print(self._rich_text(line), soft_wrap=True)
        return str(caught.get())

    def _rich_text(self, line: Line) -> Text:
        text = Line(tuple((self._fit(part), style) for part, style in line.pieces)).rich()
        width = self._console.width
        if self._terminal and text.cell_len > width:
            dots = to_ascii(DOTS) if self._ascii else DOTS
            text.truncate(max(width - len(dots), 0), overflow="crop")
            text.append(dots)
        return text

    def _fit(self, text: str) -> str:
        """The text with characters that the stream cannot encode replaced by escapes."""
        if self._ascii:
            text = to_ascii(text)
        if self._encoding is None:
            return text
        try:
            return text.encode(self._encoding, "backslashreplace").decode(self._encoding)
        except (UnicodeError, LookupError):
            return text

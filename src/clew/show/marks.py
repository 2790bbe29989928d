"""Lines of a tree: pieces of text with a style, and the pen that writes them as the stream at hand can show them.

A terminal gets colours (by rich, so `NO_COLOR` and dumb terminals are plain) and lines cut to its width; a pipe or a
file gets the whole lines as plain text; a stream that cannot show the marks gets ASCII ones.
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
VARIABLE, RESULT, ERROR, SAID, PLAIN = "cyan", "green", "bold red", "italic", ""

LEVELS = 30  # of marks before a line; of a deeper one the outer levels are counted

_ASCII = str.maketrans(
    {"├": "|", "└": "`", "│": "|", "─": "-", "→": "->", "…": "...", "“": '"', "”": '"', "×": "x", "µ": "u"}
)
_NEEDED = "├─│└→…“”"


@dataclass(frozen=True, slots=True)
class Line:
    """A line as pieces of text, each with the style a terminal may give it."""

    pieces: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def rich(self) -> Text:
        """For a rich console."""
        from rich.text import Text

        return Text.assemble(*self.pieces, no_wrap=True, overflow="ignore")

    def after(self, prefix: str) -> Line:
        """The same line behind the marks of its place in the tree."""
        return Line(((prefix, MARKS), *self.pieces)) if prefix else self


def line(*pieces: tuple[str, str] | str) -> Line:
    """A line of pieces; a plain text is a piece without a style."""
    return Line(tuple((piece, PLAIN) if isinstance(piece, str) else piece for piece in pieces))


def margin(marks: list[str]) -> str:
    """The marks before a line, one a level. Deep recursion would push every line out of sight: there, a count."""
    hidden = len(marks) - LEVELS
    return "".join(marks) if hidden <= 0 else f"{DOTS}{hidden} levels{DOTS} " + "".join(marks[hidden:])


def to_ascii(text: str) -> str:
    """The text with ASCII in place of clew's own marks."""
    return text.translate(_ASCII)


def shows_marks(encoding: str | None) -> bool:
    """Whether a stream of this encoding can show the marks of a tree."""
    try:
        _NEEDED.encode(encoding or "utf-8")
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

    def written(self, lines: Iterable[Line]) -> str:
        """The lines, each with its end: one text, to be written at once."""
        if self._console is None:
            return "".join(self._fit(one.text) + "\n" for one in lines)
        with self._console.capture() as caught:
            for one in lines:
                self._console.print(self._painted(one), soft_wrap=True)
        return str(caught.get())

    def _painted(self, one: Line) -> Text:
        text = Line(tuple((self._fit(part), style) for part, style in one.pieces)).rich()
        width = self._console.width
        if self._terminal and text.cell_len > width:
            dots = to_ascii(DOTS) if self._ascii else DOTS
            text.truncate(max(width - len(dots), 0), overflow="crop")
            text.append(dots)
        return text

    def _fit(self, text: str) -> str:
        """What the stream's encoding can show; the rest is spelled out."""
        if self._ascii:
            text = to_ascii(text)
        if self._encoding is None:
            return text
        try:
            return text.encode(self._encoding, "backslashreplace").decode(self._encoding)
        except (UnicodeError, LookupError):
            return text

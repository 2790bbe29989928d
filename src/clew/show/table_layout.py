"""Lays out tables that fit the terminal: essential columns stay whole, others shrink or disappear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from clew.text.brief import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

ALWAYS = 0
_GAP = 2  # spaces between columns
_NARROWEST = 8  # the width to which a folding column may shrink


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and how it shrinks when the terminal is narrow."""

    name: str = ""
    right: bool = False
    optional: int = ALWAYS  # columns with the largest number are dropped first
    least: int | None = None  # the smallest width, with an ellipsis at the end; None: it never shrinks
    folds: bool = False  # wraps to the next line instead
    style: str = ""

    def least_width(self, natural: int) -> int:
        if self.folds:
            return min(natural, _NARROWEST if self.least is None else self.least)
        return natural if self.least is None else min(natural, self.least)


class Columns:
    """Rows under column names. In a pipe, cells are separated by tabs, neither cut nor padded."""

    def __init__(self, columns: Iterable[Column], *, header: bool = True) -> None:
        self._columns = list(columns)
        self._header = header and any(column.name for column in self._columns)
        self._rows: list[list[Text]] = []

    def add(self, *cells: object) -> None:
        self._rows.append([cell if isinstance(cell, Text) else Text(printable(cell)) for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not console.is_terminal:
            yield from self._separated_by_tabs()
            return
        natural = [self._natural_width(place) for place in range(len(self._columns))]
        yield self._table(self._widths(natural, options.max_width))

    def _separated_by_tabs(self) -> Iterator[Segment]:
        header = [[Text(column.name) for column in self._columns]] if self._header else []
        for cells in [*header, *self._rows]:
            yield Segment(
                "\t".join(cell.plain for cell in cells).rstrip("\t")
            )  # a Text would make rich expand the tabs
            yield Segment.line()

    def _natural_width(self, place: int) -> int:
        cells = max((row[place].cell_len for row in self._rows), default=0)
        return max(cells, len(self._columns[place].name)) if cells and self._header else cells

    def _widths(self, natural: list[int], available: int) -> dict[int, int]:
        """The width of each column shown, by its index."""
        shown = [place for place, width in enumerate(natural) if width]
        least = {place: self._columns[place].least_width(natural[place]) for place in shown}
        while _total(least[place] for place in shown) > available:
            optional = [place for place in shown if self._columns[place].optional]
            if not optional:
                break
            shown.remove(max(optional, key=lambda place: self._columns[place].optional))
        widths = {place: natural[place] for place in shown}
        while (excess := _total(widths.values()) - available) > 0:
            elastic = [place for place in shown if widths[place] > least[place]]
            if not elastic:
                break
            widest = max(elastic, key=lambda place: widths[place])
            other_widths = [widths[place] for place in elastic if place != widest]
            new_width = max(
                least[widest], min(max(other_widths, default=0), widths[widest] - 1), widths[widest] - excess
            )
            widths[widest] = new_width
        return widths

    def _table(self, widths: dict[int, int]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", show_header=self._header)
        for place, width in widths.items():
            column = self._columns[place]
            table.add_column(
                column.name,
                justify="right" if column.right else "left",
                style=column.style,
                width=width,
                no_wrap=not column.folds,
                overflow="fold" if column.folds else "ellipsis",
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in widths))
        return table


def _total(widths: Iterable[int]) -> int:
    listed = list(widths)
    return sum(listed) + _GAP * (len(listed) - 1)

"""CSV: one row a change. Numbers and short texts as they are, anything else as JSON.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, and a formula can run programs and send
data away. Such a text gets an apostrophe before it, unless it is a plain number; `raw_cells=True` leaves it as it is.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, Final

from clew.export.files import blocks, chosen, total, whole_file
from clew.export.json import text
from clew.export.plain import LONGEST_INTEGER
from clew.records import DELETED

if TYPE_CHECKING:
    from pathlib import Path

    from clew.export import Progress
    from clew.history.run import Run

COLUMNS = ["name", "step", "time", "function", "line", "rank", "call", "value"]

# What spreadsheets begin a formula with, the full-width forms of it, and what they leave out before it.
_FORMULA: Final = re.compile(r"[\s\x00-\x20\ufeff'\"]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.ASCII)


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress, raw_cells: bool = False) -> Path:
    """A deletion has an empty value and is not to be told from an empty text; JSON and Parquet tell them apart."""
    count, done = total(run, names), 0
    safe = _as_it_is if raw_cells else defused
    # surrogateescape's counterpart for text: what UTF-8 cannot say is spelled out instead of failing halfway
    with whole_file(target) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        for name in chosen(run, names):
            for block in blocks(run, name):
                values = (safe(cell(value)) for value in run.tables.table.values(block.rows))
                columns = (map(safe, block.functions), block.lines, block.ranks, block.calls.tolist(), values)
                steps = ("" if step is None else safe(cell(step)) for step in block.steps)
                out.writerows((safe(name), *row) for row in zip(steps, block.times.tolist(), *columns, strict=True))
                done += len(block.rows)
                progress(done, count)
    return target


def cell(value: Any) -> Any:
    """What stands in a cell: exact for numbers."""
    if type(value) in (bool, str, float) or (type(value) is int and value.bit_length() <= LONGEST_INTEGER):
        return value  # of a float the csv module writes the repr
    if value is None:
        return "None"
    return "" if value is DELETED else text(value)


def defused(content: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: an apostrophe says that what follows is text."""
    if type(content) is str and _FORMULA.match(content) and not _NUMBER.fullmatch(content):
        return f"'{content}"
    return content


def _as_it_is(content: Any) -> Any:
    return content

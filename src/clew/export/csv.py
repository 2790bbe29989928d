"""Exports to CSV: one row for each change. Numbers and texts stay as they are; any other value is JSON.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, and a formula can run
programs and send data away. Such a text gets an apostrophe before it, unless it is a plain number;
`raw_cells=True` leaves it as it is.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any, Final

from clew.export.json import to_json
from clew.export.plain_data import LONGEST_INTEGER
from clew.export.whole_files import count_changes, names_to_export, read_blocks, whole_file
from clew.records import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clew.export import Progress
    from clew.reading.run import Run

COLUMNS = ["name", "step", "time", "function", "line", "rank", "call", "value"]

# The characters that begin a formula, their full-width and small forms, and those that spreadsheets skip before them,
# blanks and characters without a width among them.
_SKIPPED: Final = r"\s\x00-\x20\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff'\""
_FORMULA: Final = re.compile(rf"[{_SKIPPED}]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b]")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.ASCII)


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress, raw_cells: bool = False) -> Path:
    """Write all changes. A deletion has an empty value, like an empty text; JSON and Parquet distinguish the two."""
    total, count = count_changes(run, names), 0
    safe: Callable[[Any], Any] = (lambda content: content) if raw_cells else escape_formula
    # backslashreplace: a text that UTF-8 cannot encode must not end the export halfway
    with whole_file(target) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        for name in names_to_export(run, names):
            for block in read_blocks(run, name):
                values = (safe(cell(value)) for value in run.tables.table.values(block.rows))
                columns = (map(safe, block.functions), block.lines, block.ranks, block.calls.tolist(), values)
                steps = ("" if step is None else safe(cell(step)) for step in block.steps)
                out.writerows((safe(name), *row) for row in zip(steps, block.times.tolist(), *columns, strict=True))
                count += len(block.rows)
                progress(count, total)
    return target


def cell(value: Any) -> Any:
    """The content of a cell; numbers are exact."""
    if type(value) in (bool, str, float) or (type(value) is int and value.bit_length() <= LONGEST_INTEGER):
        return value  # the csv module writes the repr of a float
    if value is None:
        return "None"
    return "" if value is DELETED else to_json(value)


def escape_formula(content: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: an apostrophe marks what follows as text."""
    if type(content) is str and _FORMULA.match(content) and not _NUMBER.fullmatch(content):
        return f"'{content}"
    return content

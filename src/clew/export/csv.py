"""CSV: one row a change. Numbers and short texts as they are, anything else as JSON."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from clew.export.files import blocks, chosen, total, whole_file
from clew.export.json import text
from clew.records import DELETED

if TYPE_CHECKING:
    from pathlib import Path

    from clew.export import Progress
    from clew.history.run import Run

_AS_THEY_ARE = frozenset([int, bool, str, float])
COLUMNS = ["name", "step", "time", "function", "line", "rank", "call", "value"]


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """A deletion has an empty value and is not to be told from an empty text; JSON and Parquet tell them apart."""
    count, done = total(run, names), 0
    # surrogateescape's counterpart for text: what UTF-8 cannot say is spelled out instead of failing halfway
    with whole_file(target) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        for name in chosen(run, names):
            for block in blocks(run, name):
                values = map(cell, run.tables.table.values(block.rows))
                columns = (block.functions, block.lines, block.ranks, block.calls.tolist(), values)
                steps = map(cell, block.steps)
                out.writerows((name, *row) for row in zip(steps, block.times.tolist(), *columns, strict=True))
                done += len(block.rows)
                progress(done, count)
    return target


def cell(value: Any) -> Any:
    """What stands in a cell: exact for numbers."""
    if type(value) in _AS_THEY_ARE:
        return value  # of a float the csv module writes the repr
    if value is None:
        return "None"
    return "" if value is DELETED else text(value)

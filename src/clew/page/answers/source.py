"""The source of a call's function, with what was recorded at each line after so many changes.

Only files that the run names as those of its functions, and only Python source: a run that came from elsewhere cannot
make the page show something else.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.history.table import INPUT, distinct
from clew.page.boxes import boxes_of_rows
from clew.page.nodes import hidden_rows
from clew.show.text import shorten
from clew.store.files import open_regular

if TYPE_CHECKING:
    from clew.history.call import Call
    from clew.history.lazy import Rows
    from clew.page.opened import Opened
    from clew.page.query import Query

LARGEST = 2 << 20
LINES = 2_000  # shown of one function
AROUND = 200  # lines shown after a function's first, where its end cannot be found
SUFFIXES = (".py", ".pyw", ".pyx", ".ipy")
LONGEST = 300  # characters of a line that is shown alone
_BLOCK = 1 << 16


def source(opened: Opened, query: Query) -> dict[str, Any]:
    """Lines and values; `at` is the number of changes that have happened, or `of` and `nth` name the last of them."""
    call = opened.call(query.needed("call"))
    rows = opened.cached(("source rows", call._place), lambda: call.changes.rows)
    at = min(query.whole("at", _until(opened, query, rows)), len(rows))
    text, missing = _read(call.file)
    lines, first = _cut(text, call, _last_line(opened, call))
    return {
        "file": call.file,
        "first": first,
        "lines": lines,
        "missing": missing,
        "changed": _changed(opened, call) if missing is None else None,
        "total": len(rows),
        "at": at,
        "values": [*_arguments(opened, call), *_values(opened, rows, at)],
    }


def _until(opened: Opened, query: Query, rows: Rows) -> int:
    """How many changes there were when a value of a series had come; all, if none of this call's is named."""
    name, nth = query.text("of"), query.whole("nth", 0)
    if not name or nth >= len(opened.rows_of(name)):
        return len(rows)
    found = np.flatnonzero(rows == opened.rows_of(name)[nth])
    return int(found[0]) + 1 if len(found) else len(rows)


# ---- the text


def line_of(file: str, line: int) -> str | None:
    """One line of a source file that the run names; None where it cannot be had."""
    lines = _read(file)[0].splitlines()
    return shorten(lines[line - 1].strip(), LONGEST) if 1 <= line <= len(lines) else None


def _read(file: str) -> tuple[str, str | None]:
    """The text of a source file, or why there is none."""
    if not file or file.startswith("<"):
        return "", "it was not written in a file"
    if not file.endswith(SUFFIXES):
        return "", "the file is no Python source"
    if not os.path.isabs(file):
        return "", "where the file lies was not recorded"
    try:
        with open_regular(Path(file)) as opened:
            data = opened.read(LARGEST + 1) or b""
    except FileNotFoundError:
        return "", "the file is gone, or on another machine"
    except OSError as error:
        return "", f"the file cannot be read: {error.strerror or error}"
    if len(data) > LARGEST:
        return "", f"the file is larger than {LARGEST >> 20} MB"
    if b"\0" in data:
        return "", "the file is no text"
    return data.decode("utf-8-sig", "replace"), None


def _changed(opened: Opened, call: Call) -> str | None:
    try:
        written = os.lstat(call.file).st_mtime_ns
    except OSError:
        return None
    began = int(call._start("time"))
    return "the file was changed after this ran; these lines may not be what ran" if written > began else None


def _last_line(opened: Opened, call: Call) -> int:
    """The last line of the function of which anything is known."""
    function = call._function.id
    lines = (site.line for site in call._calls.reader.sites.values() if site.function == function)
    return max(lines, default=call.line)


def _cut(text: str, call: Call, known: int) -> tuple[list[str], int]:
    """The lines of the function, and the number of the first."""
    lines = text.splitlines()
    if not lines:
        return [], max(call.line, 1)
    if call.function == "<module>":
        return lines[:LINES], 1
    first, last = _extent(text, call.line) or (call.line, max(known, call.line + AROUND))
    first = min(max(first, 1), len(lines))
    return lines[first - 1 : min(last, first + LINES)], first


def _extent(text: str, line: int) -> tuple[int, int] | None:
    """First and last line of the function that begins at a line, decorators included."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            decorators = getattr(node, "decorator_list", [])
            begin = min([node.lineno, *(one.lineno for one in decorators)])
            if line in (begin, node.lineno):
                found = begin, node.end_lineno or node.lineno
    return found


# ---- the values


def _arguments(opened: Opened, call: Call) -> list[dict[str, Any]]:
    table = opened.tables.table
    rows = hidden_rows(call._calls, np.array([call.id]), INPUT)[1] + int(table.offsets[call._calls.shard])
    return _line_values(opened, rows, [1] * len(rows), [1] * len(rows), -1, table.names_of(rows))


def _values(opened: Opened, rows: Rows, at: int) -> list[dict[str, Any]]:
    """Of every name at every line the value it last had, and which of how many that was."""
    if at == 0:
        return []
    table = opened.tables.table
    counted = opened.cached(("source sites", int(rows[0]), len(rows)), lambda: _counted(table.gather("site", rows)))
    so_far, totals = counted.until(at), counted.until(len(rows))
    wanted = np.flatnonzero(so_far)
    last = _last_places(counted.sites[:at], wanted, counted.size)
    order = np.argsort(table.lines(rows[last]), kind="stable")
    wanted, last = wanted[order], last[order]
    chosen = rows[last]
    nth, of = so_far[wanted].tolist(), totals[wanted].tolist()
    now = int(np.flatnonzero(last == at - 1)[0])
    return _line_values(opened, chosen, nth, of, now, table.names_of(chosen))


@dataclass(frozen=True, slots=True)
class _Counted:
    """The site of each change of a call, and how often each site had come at every so many changes."""

    sites: Any
    size: int
    marks: Any  # a row for every _BLOCK changes

    def until(self, at: int) -> Any:
        block = at // _BLOCK
        return self.marks[block] + np.bincount(self.sites[block * _BLOCK : at], minlength=self.size)


def _counted(sites: Any) -> _Counted:
    ids, back = distinct(sites)  # as small numbers: a damaged file may name any
    sites, size = back.astype(np.int32), len(ids)
    block = [np.bincount(sites[begin : begin + _BLOCK], minlength=size) for begin in range(0, len(sites), _BLOCK)]
    return _Counted(sites, size, np.cumsum([np.zeros(size, dtype=np.int64), *block], axis=0))


def _last_places(sites: Any, wanted: Rows, size: int) -> Rows:
    """Where each of these sites comes last: looked for from the end, for most are near it."""
    last = np.full(size, -1, dtype=np.int64)
    end = len(sites)
    while end > 0 and bool((last[wanted] < 0).any()):
        begin = max(end - _BLOCK, 0)
        part = np.full(size, -1, dtype=np.int64)
        part[sites[begin:end]] = np.arange(begin, end)  # the last write wins
        last = np.where(last < 0, part, last)
        end = begin
    found: Rows = last[wanted]
    return found


def _line_values(
    opened: Opened, rows: Rows, nth: list[int], of: list[int], now: int, names: list[str]
) -> list[dict[str, Any]]:
    lines, boxes = opened.tables.table.lines(rows), boxes_of_rows(opened.tables, rows)
    return [
        {
            "line": lines[index],
            "name": names[index],
            "value": boxes[index],
            "nth": nth[index],
            "of": of[index],
            "now": index == now,
        }
        for index in range(len(rows))
    ]

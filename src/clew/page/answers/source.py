"""The source of a call's function, with what was recorded at each line after so many changes.

The source is the one that the run itself holds. No file that a run names is ever opened: a run that came from elsewhere
could name any file of this machine, and a report would carry it away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.history.table import INPUT, distinct
from clew.page.boxes import boxes_of_rows
from clew.page.nodes import hidden_rows
from clew.show.text import shorten

if TYPE_CHECKING:
    from clew.history.call import Call
    from clew.history.lazy import Rows
    from clew.page.opened import Opened
    from clew.page.query import Query
    from clew.records import Function

LINES = 2_000  # shown of one function
LONGEST = 300  # characters of a line that is shown alone
_BLOCK = 1 << 16


def source(opened: Opened, query: Query) -> dict[str, Any]:
    """Lines and values; `at` is the number of changes that have happened, or `of` and `nth` name the last of them."""
    call = opened.call(query.needed("call"))
    rows = opened.cached(("source rows", call._place), lambda: call.changes.rows)
    at = min(query.whole("at", _until(opened, query, rows)), len(rows))
    function = call._function
    return {
        "file": call.file,
        "first": max(call.line, 1),
        "lines": (function.source or "").splitlines()[:LINES],
        "missing": _why_missing(function),
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


def line_of(function: Function, line: int) -> str | None:
    """One line of a function's source; None where it cannot be had."""
    lines = (function.source or "").splitlines()
    place = line - function.line
    return shorten(lines[place].strip(), LONGEST) if 0 <= place < len(lines) else None


def _why_missing(function: Function) -> str | None:
    if function.source is not None:
        return None
    if function.code_hash is None and function.file_hash is None:
        return "the run does not hold it: an older version recorded it, or it was not written in a file"
    return "the run does not hold it: it belongs to a library, is very long, or could not be verified when it ran"


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

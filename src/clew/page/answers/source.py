"""Answers with the source of a call's function, and the values recorded at each line after some number of changes.

The source is the one stored in the run. No file that a run names is ever opened: a run from elsewhere could name any
file of this machine, and a report would then contain it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.page.tree_nodes import hidden_rows
from clew.page.value_boxes import boxes_of_rows
from clew.reading.table import INPUT, distinct
from clew.text.brief import shorten

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query
    from clew.reading.call import Call
    from clew.reading.lazy import Rows
    from clew.records import Function

LINES = 2_000  # lines shown per function
LONGEST = 300  # characters of a line shown on its own
_BLOCK = 1 << 16


def source(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """Lines and values after `at` changes, or up to the change that `of` and `nth` name."""
    call = opened.call(query.required("call"))
    rows = opened.cached(("source rows", call._place), lambda: call.changes.rows)
    at = min(query.integer("at", _change_count(opened, query, rows)), len(rows))
    function = call._function
    return {
        "file": call.file,
        "first": max(call.line, 1),
        "lines": (function.source or "").splitlines()[:LINES],
        "missing": _why_missing(function),
        "total": len(rows),
        "at": at,
        "values": [*_argument_values(opened, call), *_last_values(opened, rows, at)],
    }


def _change_count(opened: OpenedRun, query: Query, rows: Rows) -> int:
    """The number of changes up to the named value of a series; all changes, if none of this call is named."""
    name, nth = query.text("of"), query.integer("nth", 0)
    if not name or nth >= len(opened.rows_of(name)):
        return len(rows)
    positions = np.flatnonzero(rows == opened.rows_of(name)[nth])
    return int(positions[0]) + 1 if len(positions) else len(rows)


# ---- the text


def line_of(function: Function, line: int) -> str | None:
    """One line of a function's source; None if it is not available."""
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


def _argument_values(opened: OpenedRun, call: Call) -> list[dict[str, Any]]:
    table = opened.tables.table
    rows = hidden_rows(call._calls, np.array([call.id]), INPUT)[1] + int(table.offsets[call._calls.shard])
    return _line_values(opened, rows, [1] * len(rows), [1] * len(rows), -1, table.names_of(rows))


def _last_values(opened: OpenedRun, rows: Rows, at: int) -> list[dict[str, Any]]:
    """For each name at each line its last value, and the ordinal and total number of its values."""
    if at == 0:
        return []
    table = opened.tables.table
    site_counts = opened.cached(
        ("source sites", int(rows[0]), len(rows)), lambda: _count_sites(table.gather("site", rows))
    )
    so_far, totals = site_counts.until(at), site_counts.until(len(rows))
    sites = np.flatnonzero(so_far)
    last = _last_positions(site_counts.sites[:at], sites, site_counts.size)
    order = np.argsort(table.lines(rows[last]), kind="stable")
    sites, last = sites[order], last[order]
    last_rows = rows[last]
    nth, of = so_far[sites].tolist(), totals[sites].tolist()
    current = int(np.flatnonzero(last == at - 1)[0])
    return _line_values(opened, last_rows, nth, of, current, table.names_of(last_rows))


@dataclass(frozen=True, slots=True)
class _SiteCounts:
    """The site of each change of a call, and how often each site occurred up to every `_BLOCK`-th change."""

    sites: Any
    size: int
    marks: Any  # one row per _BLOCK changes

    def until(self, at: int) -> Any:
        block = at // _BLOCK
        return self.marks[block] + np.bincount(self.sites[block * _BLOCK : at], minlength=self.size)


def _count_sites(sites: Any) -> _SiteCounts:
    ids, inverse = distinct(sites)  # renumbered, because ids in a damaged file may be arbitrarily large
    sites, size = inverse.astype(np.int32), len(ids)
    block = [np.bincount(sites[begin : begin + _BLOCK], minlength=size) for begin in range(0, len(sites), _BLOCK)]
    return _SiteCounts(sites, size, np.cumsum([np.zeros(size, dtype=np.int64), *block], axis=0))


def _last_positions(sites: Any, searched_sites: Rows, size: int) -> Rows:
    """The last position of each of these sites, searched from the end, which most are near."""
    last = np.full(size, -1, dtype=np.int64)
    end = len(sites)
    while end > 0 and bool((last[searched_sites] < 0).any()):
        begin = max(end - _BLOCK, 0)
        part = np.full(size, -1, dtype=np.int64)
        part[sites[begin:end]] = np.arange(begin, end)  # the last write wins
        last = np.where(last < 0, part, last)
        end = begin
    positions: Rows = last[searched_sites]
    return positions


def _line_values(
    opened: OpenedRun, rows: Rows, nth: list[int], of: list[int], current: int, names: list[str]
) -> list[dict[str, Any]]:
    lines, boxes = opened.tables.table.lines(rows), boxes_of_rows(opened.tables, rows)
    return [
        {
            "line": lines[index],
            "name": names[index],
            "value": boxes[index],
            "nth": nth[index],
            "of": of[index],
            "now": index == current,
        }
        for index in range(len(rows))
    ]

"""A run as a whole: its names, functions, ledger and metadata."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.history.ledger import STILL_RUNNING, Ledger
from clew.page.plain import number, told
from clew.records import Kind, Note
from clew.show.text import printable
from clew.store.graphs import read_graphs

if TYPE_CHECKING:
    from clew.page.opened import Opened
    from clew.page.query import Query

NAMES = 1_000
FUNCTIONS = 1_000
PLACES = 4  # functions named of one name
LOOKED_AT = 1_000  # changes that are looked at for one that holds something


def overview(opened: Opened, query: Query, row: dict[str, Any]) -> dict[str, Any]:
    """What people see first."""
    return {"run": row, "version": opened.version, **opened.cached("overview", lambda: _overview(opened))}


def _overview(opened: Opened) -> dict[str, Any]:
    run, view = opened.run, opened.tables
    names = view.table.counts
    functions = run.functions()
    shards = view.table.shards
    has_items = any(site.role == "item" for shard in shards for site in shard.sites.values())
    return {
        "counts": {
            "changes": sum(names.values()),
            "calls": len(view.calls),
            "names": len(names),
            "functions": len(functions),
            "threads": sum(len(np.unique(shard.start("thread"))) for shard in view.calls.shards),
            "ranks": len({shard.rank for shard in shards}),
        },
        "names": _rows(opened, list(names)[:NAMES]),
        "functions": [_function(line) for line in functions[:FUNCTIONS]],
        "pages": {
            "series": bool(names),
            "tree": len(view.calls) > 0,
            "pipeline": has_items,
            "graph": len(view.calls) > 0 or bool(read_graphs(opened.folder)),
        },
        "ledger": [_note(note) for note in _told(run.ledger)],
        "problems": [printable(problem) for problem in run.problems],
        "meta": told(run.meta),
    }


def _told(ledger: Ledger) -> list[Note]:
    """The notes; of a run that goes on also that they are not all there can be."""
    return [*ledger, Note("running", "", STILL_RUNNING)] if ledger.running else list(ledger)


def _function(line: Any) -> dict[str, Any]:
    return {
        "function": printable(line.name),
        "file": printable(line.file),
        "line": line.line,
        "calls": line.calls,
        "seconds": number(line.seconds),
        "errors": line.errors,
    }


def _note(note: Any) -> dict[str, str]:
    times = f" (×{note.count:,})" if note.count > 1 else ""
    return {"kind": printable(note.kind), "subject": printable(note.subject), "text": printable(note.text) + times}


def names(opened: Opened, query: Query) -> dict[str, Any]:
    """The names that fit what was typed."""
    known = opened.cached("lowered", lambda: [(name.lower(), name) for name in opened.tables.table.first_seen])
    fits = _matcher(query.text("search").lower())
    found = [name for lowered, name in known if fits is None or fits(lowered)]
    offset, limit = query.whole("offset", 0), query.whole("limit", NAMES, 1, NAMES)
    end = offset + limit
    return {
        "found": len(found),
        "offset": offset,
        "names": _rows(opened, found[offset:end]),
        "next": end if end < len(found) else None,
    }


def _matcher(wanted: str) -> Any:
    """A test for names in small letters."""
    if not wanted.strip():
        return None
    if "*" in wanted or "?" in wanted:
        return lambda name: fnmatchcase(name, wanted)
    first, *others = wanted.split()
    if not others:
        return lambda name: first in name
    return lambda name: first in name and all(word in name for word in others)


def _rows(opened: Opened, wanted: list[str]) -> list[dict[str, Any]]:
    counts = opened.tables.table.counts
    first, functions = _by_name(opened, set(wanted))
    return [
        {
            "name": name,
            "kind": _kind(opened, name, first[name]),
            "count": counts[name],
            "functions": functions[name][:PLACES],
        }
        for name in wanted
    ]


def _by_name(opened: Opened, wanted: set[str]) -> tuple[dict[str, tuple[int, int]], dict[str, list[str]]]:
    """By name: shard and row of a first change, and the functions it was seen in."""
    table = opened.tables.table
    first: dict[str, tuple[int, int]] = {}
    functions: dict[str, list[str]] = {}
    for shard, reader in enumerate(table.shards):
        rows = table._scanned[shard].first
        for id, site in reader.sites.items():
            if site.role != "value" or not 0 <= id < len(rows) or rows[id] < 0:
                continue
            name = table.naming.label(shard, id)
            if name not in wanted:
                continue
            at = shard, int(rows[id])
            first[name] = min(first.get(name, at), at)
            where = printable(reader.functions[site.function].name)
            known = functions.setdefault(name, [])
            if where not in known:
                known.append(where)
    return first, functions


def _kind(opened: Opened, name: str, first: tuple[int, int]) -> str:
    """By what it held first, None and nothing aside."""
    table = opened.tables.table
    shard, row = first
    kind, value = int(table.column(shard, "kind")[row]), -1
    if kind in (Kind.NONE, Kind.DELETED):
        rows = table.rows_of(name)[:LOOKED_AT]
        kinds = table.gather("kind", rows)
        held = np.flatnonzero((kinds != Kind.NONE) & (kinds != Kind.DELETED))
        if len(held) == 0:
            return "value"
        shard, row = table.place(int(rows[held[0]]))
        kind = int(kinds[held[0]])
    if kind != Kind.VALUE:
        return "number"
    value = int(table.column(shard, "value")[row])
    if bool(table.shards[shard].single_numbers([value])[1][0]):
        return "number"
    summary = table.shards[shard].outlines([value])[0].value.summary
    return "tensor" if summary.shape is not None and summary.dtype is not None else "value"

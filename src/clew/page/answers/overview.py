"""Answers about a run as a whole: its names, functions, ledger and metadata."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.page.plain_json import json_safe, number
from clew.reading.ledger import STILL_RUNNING, Ledger
from clew.records import Kind, Note
from clew.store.graph_files import read_graphs
from clew.text.brief import printable

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query

NAMES = 1_000
FUNCTIONS = 1_000
PLACES = 4  # functions listed per name
LOOKED_AT = 1_000  # changes searched for one with a value


def overview(opened: OpenedRun, query: Query, row: dict[str, Any]) -> dict[str, Any]:
    """The data of the first page of a run."""
    return {"run": row, "version": opened.version, **opened.cached("overview", lambda: _overview_of_tables(opened))}


def _overview_of_tables(opened: OpenedRun) -> dict[str, Any]:
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
        "names": _name_rows(opened, list(names)[:NAMES]),
        "functions": [_function_row(line) for line in functions[:FUNCTIONS]],
        "pages": {
            "series": bool(names),
            "tree": len(view.calls) > 0,
            "pipeline": has_items,
            "graph": len(view.calls) > 0 or bool(read_graphs(opened.folder)),
        },
        "ledger": [_note_row(note) for note in _ledger_notes(run.ledger)],
        "problems": [printable(problem) for problem in run.problems],
        "meta": json_safe(run.meta),
    }


def _ledger_notes(ledger: Ledger) -> list[Note]:
    """The notes of the ledger; for a running run, with one that says that more may follow."""
    return [*ledger, Note("running", "", STILL_RUNNING)] if ledger.running else list(ledger)


def _function_row(line: Any) -> dict[str, Any]:
    return {
        "function": printable(line.name),
        "file": printable(line.file),
        "line": line.line,
        "calls": line.calls,
        "seconds": number(line.seconds),
        "errors": line.errors,
    }


def _note_row(note: Any) -> dict[str, str]:
    times = f" (×{note.count:,})" if note.count > 1 else ""
    return {"kind": printable(note.kind), "subject": printable(note.subject), "text": printable(note.text) + times}


def names(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """The names that match the search text."""
    lowered_names = opened.cached("lowered", lambda: [(name.lower(), name) for name in opened.tables.table.first_seen])
    is_match = _name_test(query.text("search").lower())
    matches = [name for lowered, name in lowered_names if is_match is None or is_match(lowered)]
    offset, limit = query.integer("offset", 0), query.integer("limit", NAMES, 1, NAMES)
    end = offset + limit
    return {
        "found": len(matches),
        "offset": offset,
        "names": _name_rows(opened, matches[offset:end]),
        "next": end if end < len(matches) else None,
    }


def _name_test(pattern: str) -> Any:
    """A test for lower-case names; None if all match."""
    if not pattern.strip():
        return None
    if "*" in pattern or "?" in pattern:
        return lambda name: fnmatchcase(name, pattern)
    first, *further = pattern.split()
    if not further:
        return lambda name: first in name
    return lambda name: first in name and all(part in name for part in further)


def _name_rows(opened: OpenedRun, names: list[str]) -> list[dict[str, Any]]:
    counts = opened.tables.table.counts
    first, functions = _first_places(opened, set(names))
    return [
        {
            "name": name,
            "kind": _kind_of_name(opened, name, first[name]),
            "count": counts[name],
            "functions": functions[name][:PLACES],
        }
        for name in names
    ]


def _first_places(opened: OpenedRun, names: set[str]) -> tuple[dict[str, tuple[int, int]], dict[str, list[str]]]:
    """For each name the shard and row of its first change, and the functions in which it changed."""
    table = opened.tables.table
    first: dict[str, tuple[int, int]] = {}
    functions: dict[str, list[str]] = {}
    for shard, reader in enumerate(table.shards):
        rows = table._scanned[shard].first
        for id, site in reader.sites.items():
            if site.role != "value" or not 0 <= id < len(rows) or rows[id] < 0:
                continue
            name = table.naming.label(shard, id)
            if name not in names:
                continue
            place = shard, int(rows[id])
            first[name] = min(first.get(name, place), place)
            function = printable(reader.functions[site.function].name)
            functions_of_name = functions.setdefault(name, [])
            if function not in functions_of_name:
                functions_of_name.append(function)
    return first, functions


def _kind_of_name(opened: OpenedRun, name: str, first: tuple[int, int]) -> str:
    """The kind of a name by its first value other than None and deleted."""
    table = opened.tables.table
    shard, row = first
    kind, value = int(table.column(shard, "kind")[row]), -1
    if kind in (Kind.NONE, Kind.DELETED):
        rows = table.rows_of(name)[:LOOKED_AT]
        kinds = table.gather("kind", rows)
        with_value = np.flatnonzero((kinds != Kind.NONE) & (kinds != Kind.DELETED))
        if len(with_value) == 0:
            return "value"
        shard, row = table.place(int(rows[with_value[0]]))
        kind = int(kinds[with_value[0]])
    if kind != Kind.VALUE:
        return "number"
    value = int(table.column(shard, "value")[row])
    if bool(table.shards[shard].single_numbers([value])[1][0]):
        return "number"
    summary = table.shards[shard].outlines([value])[0].value.summary
    return "tensor" if summary.shape is not None and summary.dtype is not None else "value"

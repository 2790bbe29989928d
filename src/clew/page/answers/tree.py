"""Answers with a part of the tree of calls, and with one call in detail."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.page.siblings import FOLDED, Branch, Selection, branch_of, fold_siblings, selection_of, times_of
from clew.page.tree_nodes import call_nodes, change_nodes
from clew.text.brief import printable, shorten

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query
    from clew.reading.lazy import Rows
    from clew.show.fold import Group

LIMIT, MOST = 200, 1_000
NAMED = 4  # names shown of a folded round
FILTERS = ("function", "name", "errors", "slow", "stage")
CALLERS = 50


def tree(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """The children of a call, or the roots: at most `limit` nodes from `offset` on, with repetitions folded."""
    selection = selection_of(opened, query)
    parent = opened.place(query["parent"]) if query.text("parent") else None
    key = tuple(query.text(name) for name in FILTERS)
    branch = branch_of(opened, parent, selection, key)
    offset, limit = query.integer("offset", 0), query.integer("limit", LIMIT, 1, MOST)
    nodes, end = _nodes_of_branch(opened, branch, offset, limit, query.flag("fold", True), selection)
    return {
        "total": len(branch),
        "offset": offset,
        "nodes": nodes,
        "next": end if end < len(branch) else None,
        "found": None if selection is None else int(selection.fits.sum()),
    }


def _nodes_of_branch(
    opened: OpenedRun, branch: Branch, offset: int, limit: int, fold: bool, selection: Selection | None
) -> tuple[list[dict[str, Any]], int]:
    parts, end = _shown_parts(branch, offset, limit, fold)
    singles = np.array([part for part in parts if isinstance(part, int)], dtype=np.int64)
    node_by_sibling = dict(
        zip(singles.tolist(), _nodes_of_siblings(opened, branch.entries[singles], selection), strict=True)
    )
    return [node_by_sibling[part] if isinstance(part, int) else _fold_node(opened, branch, part) for part in parts], end


def _shown_parts(branch: Branch, offset: int, limit: int, fold: bool) -> tuple[list[int | Group], int]:
    """The siblings and folds to show, and the offset of the next one."""
    if not fold:
        end = min(offset + limit, len(branch))
        return list(range(offset, end)), max(end, offset)
    parts: list[int | Group] = []
    end = offset
    for group in fold_siblings(branch, offset):
        if group.count > 1 and group.count * group.period >= FOLDED:
            parts.append(group)
            end = group.end
        else:
            singles = list(islice(range(group.start, group.end), limit - len(parts)))
            parts += singles
            end = singles[-1] + 1
        if len(parts) >= limit:
            break
    return parts, end


def _nodes_of_siblings(opened: OpenedRun, entries: Rows, selection: Selection | None) -> list[dict[str, Any]]:
    """The nodes of these siblings, in their order."""
    calls, changes = np.flatnonzero(entries >= 0), np.flatnonzero(entries < 0)
    fits = None if selection is None else selection.fits
    result: list[dict[str, Any]] = [{}] * len(entries)
    for indices, nodes in (
        (calls, call_nodes(opened, entries[calls], fits)),
        (changes, change_nodes(opened, -1 - entries[changes])),
    ):
        for index, node in zip(indices.tolist(), nodes, strict=True):
            result[index] = node
    return result


def _fold_node(opened: OpenedRun, branch: Branch, group: Group) -> dict[str, Any]:
    entries = branch.entries[group.start : group.end]
    places = entries[entries >= 0]
    times = times_of(opened)
    names = _sibling_names(opened, branch.entries[group.start : group.start + group.period])
    text = ", ".join(names[:NAMED]) + (f", … {len(names) - NAMED} more" if len(names) > NAMED else "")
    return {
        "kind": "fold",
        "offset": group.start,
        "count": len(entries),
        "times": group.count,
        "text": f"{text} ×{group.count:,}",
        "seconds": float(np.nansum(times.seconds[places])),
        "errors": int(times.failed[places].sum()),
    }


def _sibling_names(opened: OpenedRun, entries: Rows) -> list[str]:
    """The names of the siblings in one round."""
    view = opened.tables
    names = []
    for entry in entries.tolist():
        if entry < 0:
            name = view.table.names_of(np.array([-1 - entry], dtype=np.int64))[0]
        else:
            shard, local = view.calls.split(entry)
            name = shard.reader.functions[int(shard.start("function")[local])].name
        names.append(shorten(printable(name), 60))
    return names


def call(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """One call in detail, with its parents and callers."""
    requested_call = opened.call(query.required("call"))
    parents, ancestor = [], requested_call.parent
    while ancestor is not None:
        parents.append({"id": f"{ancestor.shard}:{ancestor.id}", "function": printable(ancestor.function)})
        ancestor = ancestor.parent
    (node,) = call_nodes(opened, np.array([requested_call._place], dtype=np.int64), detailed=True)
    return {
        "call": node,
        "parents": parents[::-1],
        "callers": [
            {"file": printable(caller.file), "line": caller.line, "function": printable(caller.function)}
            for caller in requested_call.callers[:CALLERS]
        ],
    }

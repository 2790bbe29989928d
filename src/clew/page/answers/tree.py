"""The tree of calls, a part at a time; and one call by itself."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.page.branches import FOLDED, Branch, Chosen, branch_of, chosen_by, folded, times_of
from clew.page.nodes import call_nodes, change_nodes
from clew.show.text import printable, shorten

if TYPE_CHECKING:
    from clew.history.lazy import Rows
    from clew.page.opened import Opened
    from clew.page.query import Query
    from clew.show.fold import Group

LIMIT, MOST = 200, 1_000
NAMED = 4  # of a fold's pattern
FILTERS = ("function", "name", "errors", "slow", "stage")
CALLERS = 50


def tree(opened: Opened, query: Query) -> dict[str, Any]:
    """What is under a call, or the roots: from `offset` on, at most `limit` nodes, with what repeats folded."""
    chosen = chosen_by(opened, query)
    parent = opened.place(query["parent"]) if query.text("parent") else None
    key = tuple(query.text(name) for name in FILTERS)
    branch = branch_of(opened, parent, chosen, key)
    offset, limit = query.whole("offset", 0), query.whole("limit", LIMIT, 1, MOST)
    nodes, end = _nodes(opened, branch, offset, limit, query.yes("fold", True), chosen)
    return {
        "total": len(branch),
        "offset": offset,
        "nodes": nodes,
        "next": end if end < len(branch) else None,
        "found": None if chosen is None else int(chosen.fits.sum()),
    }


def _nodes(
    opened: Opened, branch: Branch, offset: int, limit: int, fold: bool, chosen: Chosen | None
) -> tuple[list[dict[str, Any]], int]:
    parts, end = _parts(branch, offset, limit, fold)
    alone = np.array([part for part in parts if isinstance(part, int)], dtype=np.int64)
    made = dict(zip(alone.tolist(), _made(opened, branch.what[alone], chosen), strict=True))
    return [made[part] if isinstance(part, int) else _fold(opened, branch, part) for part in parts], end


def _parts(branch: Branch, offset: int, limit: int, fold: bool) -> tuple[list[int | Group], int]:
    """Siblings and folds to be shown, and where the next begins."""
    if not fold:
        end = min(offset + limit, len(branch))
        return list(range(offset, end)), max(end, offset)
    parts: list[int | Group] = []
    end = offset
    for group in folded(branch, offset):
        if group.count > 1 and group.count * group.period >= FOLDED:
            parts.append(group)
            end = group.end
        else:
            some = list(islice(range(group.start, group.end), limit - len(parts)))
            parts += some
            end = some[-1] + 1
        if len(parts) >= limit:
            break
    return parts, end


def _made(opened: Opened, what: Rows, chosen: Chosen | None) -> list[dict[str, Any]]:
    """The nodes of these siblings, in their order."""
    calls, changes = np.flatnonzero(what >= 0), np.flatnonzero(what < 0)
    fits = None if chosen is None else chosen.fits
    out: list[dict[str, Any]] = [{}] * len(what)
    for at, nodes in (
        (calls, call_nodes(opened, what[calls], fits)),
        (changes, change_nodes(opened, -1 - what[changes])),
    ):
        for place, node in zip(at.tolist(), nodes, strict=True):
            out[place] = node
    return out


def _fold(opened: Opened, branch: Branch, group: Group) -> dict[str, Any]:
    inside = branch.what[group.start : group.end]
    places = inside[inside >= 0]
    times = times_of(opened)
    names = _names(opened, branch.what[group.start : group.start + group.period])
    shown = ", ".join(names[:NAMED]) + (f", … {len(names) - NAMED} more" if len(names) > NAMED else "")
    return {
        "kind": "fold",
        "offset": group.start,
        "count": len(inside),
        "times": group.count,
        "text": f"{shown} ×{group.count:,}",
        "seconds": float(np.nansum(times.seconds[places])),
        "errors": int(times.failed[places].sum()),
    }


def _names(opened: Opened, what: Rows) -> list[str]:
    """What the siblings of one round are called."""
    view = opened.tables
    names = []
    for one in what.tolist():
        if one < 0:
            name = view.table.names_of(np.array([-1 - one], dtype=np.int64))[0]
        else:
            shard, local = view.calls.split(one)
            name = shard.reader.functions[int(shard.start("function")[local])].name
        names.append(shorten(printable(name), 60))
    return names


def call(opened: Opened, query: Query) -> dict[str, Any]:
    """One call with its values in full, what it is in, and how it was reached."""
    found = opened.call(query.needed("call"))
    parents, above = [], found.parent
    while above is not None:
        parents.append({"id": f"{above.shard}:{above.id}", "function": printable(above.function)})
        above = above.parent
    (node,) = call_nodes(opened, np.array([found._place], dtype=np.int64), alone=True)
    return {
        "call": node,
        "parents": parents[::-1],
        "callers": [
            {"file": printable(caller.file), "line": caller.line, "function": printable(caller.function)}
            for caller in found.callers[:CALLERS]
        ],
    }

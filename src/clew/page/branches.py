"""What is under a call, as columns: its calls and changes in order of time, and what of it repeats.

A million siblings are two arrays: what each is, and a number that says what it looks like. Only what is sent becomes
an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.errors import UnknownNameError
from clew.history.table import INPUT, distinct
from clew.history.tree import Tree
from clew.show.fold import FEWEST, LONGEST_ROUND, Group, groups

if TYPE_CHECKING:
    from clew.history.calls import ShardCalls
    from clew.history.lazy import Rows
    from clew.page.opened import Opened
    from clew.page.query import Query
    from clew.records import Function

    Mask = npt.NDArray[np.bool_]

LOOKED_AT = 2_000  # siblings that are looked at together for what repeats
FOLDED = 8  # siblings that are worth folding
_WIDE = 1 << 32  # more than there are sites or functions


@dataclass(frozen=True, slots=True)
class Branch:
    """Siblings: the place of a call, or -1 - row for a change; and the number of what each looks like."""

    what: Rows
    shape: Rows

    def __len__(self) -> int:
        return len(self.what)


@dataclass(frozen=True, slots=True)
class Times:
    """By place of a call: how long it took (NaN while it runs), and whether it raised."""

    seconds: npt.NDArray[np.float64]
    failed: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Chosen:
    """By place: the calls that fit a filter, and those that led to them too."""

    fits: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.bool_]
    name: str | None  # of the changes that are shown; None: of all


def times_of(opened: Opened) -> Times:
    return opened.cached("times", lambda: _times(opened))


def _times(opened: Opened) -> Times:
    seconds, failed = [np.empty(0)], [np.empty(0, dtype=np.bool_)]
    for shard in opened.tables.calls.shards:
        ends = shard.ends(shard.start("call"))
        over = ends >= 0
        took = np.full(shard.count, np.nan)
        took[over] = (shard.finished.time[ends[over]] - shard.start("time")[over]) / 1e9
        raised = np.zeros(shard.count, dtype=np.bool_)
        raised[over] = shard.raised()[ends[over]]
        seconds.append(took)
        failed.append(raised)
    return Times(np.concatenate(seconds), np.concatenate(failed))


# ---- filters


def chosen_by(opened: Opened, query: Query) -> Chosen | None:
    """The calls a person asks for; None if for all."""
    function, name, stage = (query.text(key) or None for key in ("function", "name", "stage"))
    errors, slow = query.yes("errors"), query.text("slow") or None
    if not (function or name or stage or errors or slow):
        return None
    key = "chosen", function, name, stage, errors, slow
    return opened.cached(key, lambda: _chosen(opened, function, name, stage, errors, slow))


def _chosen(
    opened: Opened, function: str | None, name: str | None, stage: str | None, errors: bool, slow: str | None
) -> Chosen:
    from clew.history.tree import with_ancestors

    view = opened.tables
    tree = _tree(opened, function, name, errors, slow)
    fits = tree._selected if tree.filtered else np.ones(len(view.calls), dtype=np.bool_)
    if stage is None:
        return Chosen(fits, tree._shown, name)
    fits = fits & np.concatenate([np.zeros(0, dtype=np.bool_), *(_in_stage(one, stage) for one in view.calls.shards)])
    return Chosen(fits, with_ancestors(fits, view.calls.parents), name)


def _tree(opened: Opened, function: str | None, name: str | None, errors: bool, slow: str | None) -> Tree:
    """Where no function has that name, those whose names hold it are meant: a person is still typing."""
    try:
        return Tree(opened.tables, function=function, name=name, errors=errors, slow=slow)
    except UnknownNameError:
        if function is None or any(mark in function for mark in "*?[:"):
            raise
        try:
            return Tree(opened.tables, function=f"*{function}*", name=name, errors=errors, slow=slow)
        except UnknownNameError:
            pass
        raise


def _in_stage(shard: ShardCalls, stage: str) -> Mask:
    fits = np.zeros(shard.count, dtype=np.bool_)
    told = np.flatnonzero(shard.starts.given("stage"))
    fits[told] = shard.starts.take(told).stage == stage
    return fits


# ---- siblings


def branch_of(opened: Opened, parent: int | None, chosen: Chosen | None, key: Any) -> Branch:
    """What is under a call, or the calls that no call made."""
    return opened.cached(("branch", parent, key), lambda: _branch(opened, parent, chosen))


def _branch(opened: Opened, parent: int | None, chosen: Chosen | None) -> Branch:
    calls = opened.tables.calls
    if parent is None:
        places = calls.roots()
        rows = np.empty(0, dtype=np.int64)
    else:
        places, rows = _children(opened, parent), _changes(opened, parent)
    if chosen is not None:
        places = places[chosen.kept[places]]
        rows = _named(opened, rows, chosen, parent)
    if not len(places):
        return Branch(-1 - rows, _change_shapes(opened, rows))
    if not len(rows):
        return Branch(places, _call_shapes(opened, places))
    what = np.concatenate([-1 - rows, places])
    shape = np.concatenate([_change_shapes(opened, rows), _call_shapes(opened, places)])
    times = np.concatenate([opened.tables.table.gather("time", rows), _began(opened, places)])
    order = np.argsort(times, kind="stable")
    return Branch(what[order], shape[order])


def _children(opened: Opened, parent: int) -> Rows:
    calls = opened.tables.calls
    shard, local = calls.split(parent)
    own = shard.children(local) + (parent - local)
    elsewhere = calls.children_elsewhere.get(parent)
    if elsewhere is None:
        return own
    both = np.concatenate([own, np.array(elsewhere, dtype=np.int64)])
    return both[np.argsort(_began(opened, both), kind="stable")]


def _changes(opened: Opened, parent: int) -> Rows:
    """The changes in a call; without those that only say what it was given."""
    view = opened.tables
    shard, local = view.calls.split(parent)
    id = int(shard.start("call")[local])
    rows = shard.rows(id)
    given, inputs = shard.hidden(INPUT)
    begin, end = np.searchsorted(given, [id, id + 1]).tolist()
    if begin < end and len(rows):
        sites = shard.reader.sites
        column = view.table.column(shard.shard, "site")
        names = {sites[one].name for one in np.unique(column[inputs[begin:end]]).tolist()}
        line = shard.reader.functions[int(shard.start("function")[local])].line
        told = [one for one, site in sites.items() if site.line == line and site.name in names and site.role == "value"]
        rows = rows[~np.isin(column[rows], told)] if told else rows
    return rows + int(view.table.offsets[shard.shard])


def _named(opened: Opened, rows: Rows, chosen: Chosen, parent: int | None) -> Rows:
    if parent is None or not chosen.fits[parent]:
        return rows[:0]
    if chosen.name is None:
        return rows
    named: Rows = rows[opened.tables.table.is_named(rows, chosen.name)]
    return named


def _began(opened: Opened, places: Rows) -> Rows:
    return _of_calls(opened, places, lambda shard, local: shard.start("time")[local])


def _of_calls(opened: Opened, places: Rows, ask: Any) -> Rows:
    calls = opened.tables.calls
    if len(calls.shards) == 1:
        return np.asarray(ask(calls.shards[0], places), dtype=np.int64)
    out = np.empty(len(places), dtype=np.int64)
    where = np.searchsorted(calls.offsets, places, side="right") - 1
    for shard in np.unique(where).tolist():
        at = where == shard
        out[at] = ask(calls.shards[shard], places[at] - calls.offsets[shard])
    return out


def _call_shapes(opened: Opened, places: Rows) -> Rows:
    """Calls of one function look alike; one that raised looks like no other."""
    numbers, _ = functions_of(opened)
    failed = times_of(opened).failed[places]
    return np.where(failed, -1 - places, numbers[places].astype(np.int64) * 2 + 1)


def functions_of(opened: Opened) -> tuple[npt.NDArray[np.int32], list[Function]]:
    """By place of a call the number of its function, the same in all shards; and the functions by number."""
    return opened.cached("functions", lambda: _functions(opened))


def _functions(opened: Opened) -> tuple[npt.NDArray[np.int32], list[Function]]:
    known: dict[tuple[str, str, str, int], int] = {}
    functions: list[Function] = []
    parts = [np.empty(0, dtype=np.int32)]
    for shard in opened.tables.calls.shards:
        ids, back = distinct(shard.start("function"))
        numbers = np.zeros(len(ids), dtype=np.int32)
        for place, id in enumerate(ids.tolist()):
            function = shard.reader.functions[id]
            key = function.module, function.name, function.file, function.line
            if key not in known:
                known[key] = len(functions)
                functions.append(function)
            numbers[place] = known[key]
        parts.append(numbers[back])
    return np.concatenate(parts), functions


def _change_shapes(opened: Opened, rows: Rows) -> Rows:
    """Changes at one site look alike."""
    table = opened.tables.table
    shapes: Rows = table.gather("site", rows).astype(np.int64) * 2
    return shapes if len(table.shards) == 1 else shapes + 2 * _WIDE * table.shard_of(rows)


# ---- what repeats


def folded(branch: Branch, offset: int) -> Iterator[Group]:
    """From `offset` on: groups of equal rounds, one sibling alone being a group of one. However long, in pieces."""
    at = offset
    while at < len(branch):
        end = min(at + LOOKED_AT, len(branch))
        base, sure = at, len(branch) if end == len(branch) else end - FEWEST * LONGEST_ROUND
        for found in groups(branch.shape[at:end].tolist()):
            group = Group(base + found.start, found.period, found.count)
            if group.start >= sure:
                break  # it may go on beyond the piece that is looked at
            if group.end > sure and group.count > 1:
                group = _extended(branch.shape, group)
            at = group.end
            yield group
            if group.end > base + found.end:
                break  # past what the piece says


def _extended(shape: Rows, group: Group) -> Group:
    """The same rounds as far as they go."""
    same, block = group.end, 1 << 16
    while same < len(shape):
        stop = min(same + block, len(shape))
        differs = np.flatnonzero(shape[same:stop] != shape[same - group.period : stop - group.period])
        if len(differs):
            same += int(differs[0])
            break
        same, block = stop, block * 2
    return Group(group.start, group.period, (same - group.start) // group.period)

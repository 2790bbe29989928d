"""Holds the children of a call as columns: its calls and changes in order of time, and their repetitions.

A million siblings are two arrays: what each one is, and the number of its shape. Only siblings that are sent become
objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.errors import UnknownNameError
from clew.reading.table import INPUT, distinct
from clew.reading.tree import Tree
from clew.show.fold import FEWEST, LONGEST_ROUND, Group, groups

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query
    from clew.reading.calls import ShardCalls
    from clew.reading.lazy import Rows
    from clew.records import Function

    Mask = npt.NDArray[np.bool_]

LOOKED_AT = 2_000  # siblings searched together for repetitions
FOLDED = 8  # siblings needed to make folding worthwhile
_WIDE = 1 << 32  # more than any number of sites or functions


@dataclass(frozen=True, slots=True)
class Branch:
    """Siblings: for each an entry (the place of a call, or -1 - row for a change) and the number of its shape."""

    entries: Rows
    shape: Rows

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class Times:
    """For each place of a call: its duration (NaN while it runs), and whether it raised."""

    seconds: npt.NDArray[np.float64]
    failed: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Selection:
    """For each place: whether the call matches the filter, and whether it is shown because it led to a match."""

    fits: npt.NDArray[np.bool_]
    shown: npt.NDArray[np.bool_]
    name: str | None  # the name of the changes that are shown; None: all


def times_of(opened: OpenedRun) -> Times:
    return opened.cached("times", lambda: _compute_times(opened))


def _compute_times(opened: OpenedRun) -> Times:
    seconds, failed = [np.empty(0)], [np.empty(0, dtype=np.bool_)]
    for shard in opened.tables.calls.shards:
        ends = shard.ends(shard.start("call"))
        has_end = ends >= 0
        durations = np.full(shard.count, np.nan)
        durations[has_end] = (shard.finished.time[ends[has_end]] - shard.start("time")[has_end]) / 1e9
        raised = np.zeros(shard.count, dtype=np.bool_)
        raised[has_end] = shard.raised()[ends[has_end]]
        seconds.append(durations)
        failed.append(raised)
    return Times(np.concatenate(seconds), np.concatenate(failed))


# ---- filters


def selection_of(opened: OpenedRun, query: Query) -> Selection | None:
    """The calls selected by a query; None if it has no filter."""
    function, name, stage = (query.text(key) or None for key in ("function", "name", "stage"))
    errors, slow = query.flag("errors"), query.text("slow") or None
    if not (function or name or stage or errors or slow):
        return None
    key = "chosen", function, name, stage, errors, slow
    return opened.cached(key, lambda: _compute_selection(opened, function, name, stage, errors, slow))


def _compute_selection(
    opened: OpenedRun, function: str | None, name: str | None, stage: str | None, errors: bool, slow: str | None
) -> Selection:
    from clew.reading.tree import with_ancestors

    view = opened.tables
    tree = _filtered_tree(opened, function, name, errors, slow)
    fits = tree._selected if tree.filtered else np.ones(len(view.calls), dtype=np.bool_)
    if stage is None:
        return Selection(fits, tree._shown, name)
    fits = fits & np.concatenate(
        [np.zeros(0, dtype=np.bool_), *(_in_stage(shard, stage) for shard in view.calls.shards)]
    )
    return Selection(fits, with_ancestors(fits, view.calls.parents), name)


def _filtered_tree(opened: OpenedRun, function: str | None, name: str | None, errors: bool, slow: str | None) -> Tree:
    """The filtered tree. If no function has that name, names that contain it match: the user may still be typing."""
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
    calls = np.flatnonzero(shard.starts.is_valid("stage"))
    fits[calls] = shard.starts.take(calls).stage == stage
    return fits


# ---- siblings


def branch_of(opened: OpenedRun, parent: int | None, selection: Selection | None, key: Any) -> Branch:
    """The children of a call, or the root calls."""
    return opened.cached(("branch", parent, key), lambda: _compute_branch(opened, parent, selection))


def _compute_branch(opened: OpenedRun, parent: int | None, selection: Selection | None) -> Branch:
    calls = opened.tables.calls
    if parent is None:
        places = calls.roots()
        rows = np.empty(0, dtype=np.int64)
    else:
        places, rows = _child_places(opened, parent), _change_rows(opened, parent)
    if selection is not None:
        places = places[selection.shown[places]]
        rows = _selected_changes(opened, rows, selection, parent)
    if not len(places):
        return Branch(-1 - rows, _change_shapes(opened, rows))
    if not len(rows):
        return Branch(places, _call_shapes(opened, places))
    entries = np.concatenate([-1 - rows, places])
    shape = np.concatenate([_change_shapes(opened, rows), _call_shapes(opened, places)])
    times = np.concatenate([opened.tables.table.gather("time", rows), _start_times(opened, places)])
    order = np.argsort(times, kind="stable")
    return Branch(entries[order], shape[order])


def _child_places(opened: OpenedRun, parent: int) -> Rows:
    calls = opened.tables.calls
    shard, local = calls.split(parent)
    own = shard.children(local) + (parent - local)
    elsewhere = calls.children_elsewhere.get(parent)
    if elsewhere is None:
        return own
    both = np.concatenate([own, np.array(elsewhere, dtype=np.int64)])
    return both[np.argsort(_start_times(opened, both), kind="stable")]


def _change_rows(opened: OpenedRun, parent: int) -> Rows:
    """The changes in a call, except those that only repeat its arguments."""
    view = opened.tables
    shard, local = view.calls.split(parent)
    id = int(shard.start("call")[local])
    rows = shard.rows(id)
    input_calls, inputs = shard.hidden(INPUT)
    begin, end = np.searchsorted(input_calls, [id, id + 1]).tolist()
    if begin < end and len(rows):
        sites = shard.reader.sites
        column = view.table.column(shard.shard, "site")
        names = {sites[site_id].name for site_id in np.unique(column[inputs[begin:end]]).tolist()}
        line = shard.reader.functions[int(shard.start("function")[local])].line
        argument_sites = [
            site_id
            for site_id, site in sites.items()
            if site.line == line and site.name in names and site.role == "value"
        ]
        rows = rows[~np.isin(column[rows], argument_sites)] if argument_sites else rows
    return rows + int(view.table.offsets[shard.shard])


def _selected_changes(opened: OpenedRun, rows: Rows, selection: Selection, parent: int | None) -> Rows:
    if parent is None or not selection.fits[parent]:
        return rows[:0]
    if selection.name is None:
        return rows
    matching_rows: Rows = rows[opened.tables.table.is_named(rows, selection.name)]
    return matching_rows


def _start_times(opened: OpenedRun, places: Rows) -> Rows:
    return _per_call(opened, places, lambda shard, local: shard.start("time")[local])


def _per_call(opened: OpenedRun, places: Rows, compute: Any) -> Rows:
    calls = opened.tables.calls
    if len(calls.shards) == 1:
        return np.asarray(compute(calls.shards[0], places), dtype=np.int64)
    out = np.empty(len(places), dtype=np.int64)
    shards = np.searchsorted(calls.offsets, places, side="right") - 1
    for shard in np.unique(shards).tolist():
        in_shard = shards == shard
        out[in_shard] = compute(calls.shards[shard], places[in_shard] - calls.offsets[shard])
    return out


def _call_shapes(opened: OpenedRun, places: Rows) -> Rows:
    """The shape of a call is its function; a call that raised has a shape of its own."""
    numbers, _ = functions_of(opened)
    failed = times_of(opened).failed[places]
    return np.where(failed, -1 - places, numbers[places].astype(np.int64) * 2 + 1)


def functions_of(opened: OpenedRun) -> tuple[npt.NDArray[np.int32], list[Function]]:
    """For each place the number of its function, the same in all shards; and the functions by number."""
    return opened.cached("functions", lambda: _number_functions(opened))


def _number_functions(opened: OpenedRun) -> tuple[npt.NDArray[np.int32], list[Function]]:
    function_numbers: dict[tuple[str, str, str, int], int] = {}
    functions: list[Function] = []
    parts = [np.empty(0, dtype=np.int32)]
    for shard in opened.tables.calls.shards:
        ids, inverse = distinct(shard.start("function"))
        numbers = np.zeros(len(ids), dtype=np.int32)
        for index, id in enumerate(ids.tolist()):
            function = shard.reader.functions[id]
            key = function.module, function.name, function.file, function.line
            if key not in function_numbers:
                function_numbers[key] = len(functions)
                functions.append(function)
            numbers[index] = function_numbers[key]
        parts.append(numbers[inverse])
    return np.concatenate(parts), functions


def _change_shapes(opened: OpenedRun, rows: Rows) -> Rows:
    """The shape of a change is its site."""
    table = opened.tables.table
    shapes: Rows = table.gather("site", rows).astype(np.int64) * 2
    return shapes if len(table.shards) == 1 else shapes + 2 * _WIDE * table.shard_of(rows)


# ---- repetitions


def fold_siblings(branch: Branch, offset: int) -> Iterator[Group]:
    """Groups of equal rounds from `offset` on, where a single sibling is a group of one; found piece by piece."""
    position = offset
    while position < len(branch):
        piece_end = min(position + LOOKED_AT, len(branch))
        piece_start, reliable_end = (
            position,
            len(branch) if piece_end == len(branch) else piece_end - FEWEST * LONGEST_ROUND,
        )
        for local_group in groups(branch.shape[position:piece_end].tolist()):
            group = Group(piece_start + local_group.start, local_group.period, local_group.count)
            if group.start >= reliable_end:
                break  # it may continue beyond this piece
            if group.end > reliable_end and group.count > 1:
                group = _extend_group(branch.shape, group)
            position = group.end
            yield group
            if group.end > piece_start + local_group.end:
                break  # the group reaches beyond this piece


def _extend_group(shape: Rows, group: Group) -> Group:
    """The group extended to all following equal rounds."""
    end, block = group.end, 1 << 16
    while end < len(shape):
        stop = min(end + block, len(shape))
        differs = np.flatnonzero(shape[end:stop] != shape[end - group.period : stop - group.period])
        if len(differs):
            end += int(differs[0])
            break
        end, block = stop, block * 2
    return Group(group.start, group.period, (end - group.start) // group.period)

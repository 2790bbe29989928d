"""Holds the calls of a run as columns: by id, by parent, in the order they began.

A call's *place* is the index of its start when all shards are laid end to end, like the row of a change.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.reading.table import Column, Table, is_sorted
from clew.store.format import NO_STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.reading.lazy import Rows
    from clew.records import Function

_QUERIES_BEFORE_SORTING = 4  # single queries for a call's rows before sorting all rows pays off


class ShardCalls:
    """Starts, ends and the changes of each call, for one shard."""

    def __init__(self, table: Table, shard: int) -> None:
        self.table = table
        self.shard = shard
        self.reader = table.shards[shard]
        self.changes = table.changes[shard]
        self.starts = self.reader.starts
        self.finished = self.reader.ends
        self.count = len(self.starts)
        self._query_count = 0
        self._hidden: dict[int, tuple[Column, Rows]] = {}

    def start(self, name: str) -> Column:
        return self.starts.column(name)

    def has_step(self) -> npt.NDArray[np.bool_]:
        """Which calls received a step when they began."""
        return np.asarray(self.start("step") != NO_STEP, dtype=np.bool_)

    @cached_property
    def _by_id(self) -> tuple[Column, Rows]:
        ids = self.start("call")
        order = np.argsort(ids, kind="stable")
        return ids[order], order.astype(np.int64)

    def places(self, ids: Column) -> Rows:
        """The places where these calls started; -1 for a call whose start was not recorded."""
        sorted_ids, order = self._by_id
        return find_places(sorted_ids, order, ids)

    @cached_property
    def _ends_by_id(self) -> tuple[Column, Rows]:
        ids = self.finished.call
        order = np.argsort(ids, kind="stable")
        return ids[order], order.astype(np.int64)

    def ends(self, ids: Column) -> Rows:
        """The rows of these calls in the table of ends; -1 for calls that are still running."""
        sorted_ids, order = self._ends_by_id
        return find_places(sorted_ids, order, ids)

    def raised(self) -> npt.NDArray[np.bool_]:
        """Which of the ends are exceptions."""
        return self.finished.is_valid("error")

    @cached_property
    def parents(self) -> Rows:
        """The place of each call's parent within the shard, -1 for a root.

        A parent must have begun before its child. Links in a damaged file that violate this are ignored, so no call is
        its own ancestor and every upward walk ends.
        """
        parents = self.places(self.start("parent"))
        own, time = np.arange(self.count), self.start("time")
        before = (time[parents] < time) | ((time[parents] == time) & (parents < own))
        return np.where((parents >= 0) & before, parents, -1)

    @cached_property
    def _by_parent(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.parents, kind="stable").astype(np.int64)
        return self.parents[order], order

    def children(self, place: int) -> Rows:
        """Places of the calls made by this one, in the order they began."""
        parents, order = self._by_parent
        begin, end = np.searchsorted(parents, [place, place + 1])
        children = order[begin:end]
        return children[np.argsort(self.start("time")[children], kind="stable")]

    @cached_property
    def _in_turn(self) -> bool:
        """Whether the rows of each call are contiguous."""
        return self.changes.is_sorted("call")

    @cached_property
    def _by_call(self) -> tuple[Column, Rows, Rows | None]:
        """Sorted call ids; where the rows of each begin, and the last end; the rows, None if already in order."""
        if self._in_turn:
            calls, counts = self.changes.call_runs()
            return calls, np.concatenate([[0], np.cumsum(counts)]), None
        column = self.changes.column("call")
        order = np.argsort(column, kind="stable").astype(np.int64)
        return column[order], np.arange(len(order) + 1), order

    def _bounds(self, ids: Any) -> tuple[Rows, Rows]:
        calls, edges, _ = self._by_call
        return edges[np.searchsorted(calls, ids)], edges[np.searchsorted(calls, ids, side="right")]

    def _unsorted_rows(self, id: int) -> Rows:
        self._query_count += 1
        if self._query_count <= _QUERIES_BEFORE_SORTING and not self._in_turn and "_by_call" not in self.__dict__:
            return np.flatnonzero(self.changes.column("call") == id).astype(np.int64, copy=False)
        begin, end = map(int, self._bounds(id))
        order = self._by_call[2]
        return np.arange(begin, end) if order is None else order[begin:end]

    def count_rows(self, ids: Column) -> Rows:
        """How many rows each of these calls has, including hidden ones."""
        begin, end = self._bounds(ids)
        return end - begin

    def hidden(self, code: int) -> tuple[Column, Rows]:
        """Hidden rows, which carry a `STEP`, `INPUT`, `OUTPUT` or `ITEM`: their calls, sorted, and the rows."""
        if code not in self._hidden:
            rows = self.table.hidden_rows(self.shard, code)
            calls = self.changes.gather("call", rows)
            if not is_sorted(calls):
                order = np.argsort(calls, kind="stable")
                calls, rows = calls[order], rows[order]
            self._hidden[code] = calls, rows
        return self._hidden[code]

    def count_children(self, places: Rows) -> Rows:
        """How many calls in the same process each of these calls made."""
        parents, _ = self._by_parent
        return np.searchsorted(parents, places, side="right") - np.searchsorted(parents, places, side="left")

    def rows(self, id: int) -> Rows:
        """Rows (within the shard) of the visible changes of one call, in the order they happened."""
        if self._in_turn:
            begin, end = map(int, self._bounds(id))
            return self._in_time(np.flatnonzero(self.table.is_visible(self.shard, slice(begin, end))) + begin)
        rows = self._unsorted_rows(id)
        return self._in_time(rows[self.table.is_visible(self.shard, rows)])

    def all_rows(self, id: int) -> Rows:
        """Rows (within the shard) of one call, including hidden ones."""
        return self._in_time(self._unsorted_rows(id))

    def _in_time(self, rows: Rows) -> Rows:
        # Rows that a probe delayed until the call ended (`last=`) come late; their times give their position.
        if self._rows_in_time:
            return rows
        times = self.changes.gather("time", rows)
        return rows if is_sorted(times) else rows[np.argsort(times, kind="stable")]

    @cached_property
    def _rows_in_time(self) -> bool:
        return self.changes.is_sorted("time")

    @cached_property
    def in_order(self) -> bool:
        """Whether rows within every call are in order of time: true unless a probe delayed rows."""
        if self._rows_in_time:
            return True
        order = self._by_call[2]
        calls, times = self.changes.column("call"), self.changes.column("time")
        if order is not None:
            calls, times = calls[order], times[order]
        return bool(np.all((times[1:] >= times[:-1]) | (calls[1:] != calls[:-1])))


class CallTable:
    """The calls of all shards of a run."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.shards = [ShardCalls(table, shard) for shard in range(len(table.shards))]
        counts = [shard.count for shard in self.shards]
        self.offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def split(self, place: int) -> tuple[ShardCalls, int]:
        """The shard of a place, and the place within it."""
        shard = int(np.searchsorted(self.offsets, place, side="right")) - 1
        return self.shards[shard], place - int(self.offsets[shard])

    def place(self, shard: int, id: int) -> int | None:
        """The place of the call with this id, or None if its start was not recorded."""
        local = int(self.shards[shard].places(np.array([id], dtype=np.int64))[0])
        return None if local < 0 else local + int(self.offsets[shard])

    @cached_property
    def started_by(self) -> dict[int, int]:
        """place → place of the call in another process that started this call's process.

        As within a shard, a call that began before its supposed parent is not its child.
        """
        by_name = {shard.reader.name: shard.shard for shard in self.shards}
        parent_by_child: dict[int, int] = {}
        for shard in self.shards:
            for origin in shard.reader.origins:
                child = self.place(shard.shard, origin.call)
                parent_shard = by_name.get(origin.shard, shard.shard)
                parent = self.place(parent_shard, origin.parent) if parent_shard != shard.shard else None
                if parent is None:
                    continue
                children = [child] if child is not None else self._calls_with_parent(shard, origin.call)
                parent_by_child |= {child: parent for child in children if self.began(parent) < self.began(child)}
        return {child: parent for child, parent in parent_by_child.items() if self._parent_within(child) < 0}

    def _calls_with_parent(self, shard: ShardCalls, call: int) -> list[int]:
        """Places of the calls in a shard whose parent is a call that another shard holds."""
        rows = np.flatnonzero(shard.start("parent") == call) + int(self.offsets[shard.shard])
        places: list[int] = rows.tolist()
        return places

    def began(self, place: int) -> int:
        """When the call began, in ns."""
        shard, local = self.split(place)
        return int(shard.start("time")[local])

    def _parent_within(self, place: int) -> int:
        shard, local = self.split(place)
        return int(shard.parents[local])

    @cached_property
    def children_elsewhere(self) -> dict[int, list[int]]:
        """place → places of the calls in other processes that it started."""
        children_by_parent: dict[int, list[int]] = {}
        for child, parent in self.started_by.items():
            children_by_parent.setdefault(parent, []).append(child)
        return children_by_parent

    @cached_property
    def parents(self) -> Rows:
        """By place: the place of the parent call, in any process; -1 for a root."""
        offsets = self.offsets.tolist()
        parts = [
            np.where(shard.parents < 0, -1, shard.parents + offset)
            for shard, offset in zip(self.shards, offsets, strict=False)
        ]
        parents = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        for child, parent in self.started_by.items():
            parents[child] = parent
        return parents

    def matching(self, matches: Callable[[Function], bool]) -> Rows:
        """Places of the calls of matching functions, in the order they began."""
        return self._in_start_order(lambda shard: self._calls_of_functions(shard, matches))

    def roots(self) -> Rows:
        """Places of the calls that no recorded call made."""
        roots = self._in_start_order(lambda shard: np.flatnonzero(shard.parents < 0))
        return roots[~np.isin(roots, list(self.started_by))] if self.started_by else roots

    def _calls_of_functions(self, shard: ShardCalls, matches: Callable[[Function], bool]) -> Column:
        ids = [id for id, function in shard.reader.functions.items() if matches(function)]
        return np.flatnonzero(np.isin(shard.start("function"), ids))

    def _in_start_order(self, select_calls: Callable[[ShardCalls], Column]) -> Rows:
        parts, times = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for shard, offset in zip(self.shards, self.offsets.tolist(), strict=False):
            local = select_calls(shard)
            parts.append(local + offset)
            times.append(shard.start("time")[local])
        return np.concatenate(parts)[np.argsort(np.concatenate(times), kind="stable")]


def find_places(sorted_ids: Column, order: Rows, ids: Any) -> Rows:
    """The place of each id, given all ids sorted and the order that sorts them; -1 for an unknown id."""
    if len(sorted_ids) == 0:
        return np.full(len(ids), -1, dtype=np.int64)
    positions = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
    return np.where(sorted_ids[positions] == ids, order[positions], -1)

"""The calls of a run as columns: by id, by parent, in the order they began.

A call's *place* is the number of its start in the shards laid end to end, as a row is for a change.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.history.table import Column, Table, is_sorted
from clew.store.format import NO_STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.history.lazy import Rows
    from clew.records import Function

ASKED_OFTEN = 4  # single questions about a call's changes before sorting all of them pays


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
        self._asked = 0
        self._hidden: dict[int, tuple[Column, Rows]] = {}

    def start(self, name: str) -> Column:
        return self.starts.column(name)

    def step_given(self) -> npt.NDArray[np.bool_]:
        """Which calls were told their step when they began."""
        return np.asarray(self.start("step") != NO_STEP, dtype=np.bool_)

    @cached_property
    def _by_id(self) -> tuple[Column, Rows]:
        ids = self.start("call")
        order = np.argsort(ids, kind="stable")
        return ids[order], order.astype(np.int64)

    def places(self, ids: Column) -> Rows:
        """Where these calls started, -1 for a call whose start was not recorded."""
        known, order = self._by_id
        return find_sorted(known, order, ids)

    @cached_property
    def _ends_by_id(self) -> tuple[Column, Rows]:
        ids = self.finished.call
        order = np.argsort(ids, kind="stable")
        return ids[order], order.astype(np.int64)

    def ends(self, ids: Column) -> Rows:
        """Where these calls ended in the table of ends, -1 while they run."""
        known, order = self._ends_by_id
        return find_sorted(known, order, ids)

    def raised(self) -> npt.NDArray[np.bool_]:
        """Which of the ends are exceptions."""
        return self.finished.is_valid("error")

    @cached_property
    def parents(self) -> Rows:
        """The place of each call's parent within the shard, -1 for a root.

        A parent began before its child. What a damaged file says to the contrary is not believed: no call is its own
        ancestor, and every walk upwards ends.
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
        inside = order[begin:end]
        return inside[np.argsort(self.start("time")[inside], kind="stable")]

    @cached_property
    def _in_turn(self) -> bool:
        """Whether calls come one after the other, each with all its rows; or there is only one."""
        return self.changes.is_sorted("call")

    @cached_property
    def _by_call(self) -> tuple[Column, Rows, Rows | None]:
        """Calls, ascending; where the rows of each begin, and the last end; those rows, None if they are in order."""
        if self._in_turn:
            calls, counts = self.changes.call_runs()
            return calls, np.concatenate([[0], np.cumsum(counts)]), None
        column = self.changes.column("call")
        order = np.argsort(column, kind="stable").astype(np.int64)
        return column[order], np.arange(len(order) + 1), order

    def _bounds(self, ids: Any) -> tuple[Rows, Rows]:
        calls, edges, _ = self._by_call
        return edges[np.searchsorted(calls, ids)], edges[np.searchsorted(calls, ids, side="right")]

    def _every_row(self, id: int) -> Rows:
        self._asked += 1
        if self._asked <= ASKED_OFTEN and not self._in_turn and "_by_call" not in self.__dict__:
            return np.flatnonzero(self.changes.column("call") == id).astype(np.int64, copy=False)
        begin, end = map(int, self._bounds(id))
        order = self._by_call[2]
        return np.arange(begin, end) if order is None else order[begin:end]

    def count_rows(self, ids: Column) -> Rows:
        """How many rows each of these calls has, hidden ones among them."""
        begin, end = self._bounds(ids)
        return end - begin

    def hidden(self, code: int) -> tuple[Column, Rows]:
        """Rows that are no changes but carry a `STEP`, `INPUT`, `OUTPUT` or `ITEM`: their calls, sorted, and they."""
        if code not in self._hidden:
            rows = self.table.rows_that_are(self.shard, code)
            calls = self.changes.gather("call", rows)
            if not is_sorted(calls):
                order = np.argsort(calls, kind="stable")
                calls, rows = calls[order], rows[order]
            self._hidden[code] = calls, rows
        return self._hidden[code]

    def count_children(self, places: Rows) -> Rows:
        """How many calls of the same process each of these made."""
        parents, _ = self._by_parent
        return np.searchsorted(parents, places, side="right") - np.searchsorted(parents, places, side="left")

    def rows(self, id: int) -> Rows:
        """Rows (within the shard) of the changes people see of one call, in the order they happened."""
        if self._in_turn:
            begin, end = map(int, self._bounds(id))
            return self._in_time(np.flatnonzero(self.table.seen(self.shard, slice(begin, end))) + begin)
        rows = self._every_row(id)
        return self._in_time(rows[self.table.seen(self.shard, rows)])

    def all_rows(self, id: int) -> Rows:
        """Rows (within the shard) of one call, those that are no changes of a name among them."""
        return self._in_time(self._every_row(id))

    def _in_time(self, rows: Rows) -> Rows:
        # Rows a probe held back until the call ended (`last=`) come late; their times say where they belong.
        if self._rows_in_time:
            return rows
        times = self.changes.gather("time", rows)
        return rows if is_sorted(times) else rows[np.argsort(times, kind="stable")]

    @cached_property
    def _rows_in_time(self) -> bool:
        return self.changes.is_sorted("time")

    @cached_property
    def in_order(self) -> bool:
        """Whether within every call a later row has a later time: true unless rows were held back."""
        if self._rows_in_time:
            return True
        order = self._by_call[2]
        calls, times = self.changes.column("call"), self.changes.column("time")
        if order is not None:
            calls, times = calls[order], times[order]
        return bool(np.all((times[1:] >= times[:-1]) | (calls[1:] != calls[:-1])))


class CallTable:
    """The calls of all shards."""

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
        """The place of a call by its id, or None if its start was not recorded."""
        local = int(self.shards[shard].places(np.array([id], dtype=np.int64))[0])
        return None if local < 0 else local + int(self.offsets[shard])

    @cached_property
    def started_by(self) -> dict[int, int]:
        """place → place of the call of another process that started its process.

        As within a shard, what began before its parent is not believed to be its child.
        """
        by_name = {shard.reader.name: shard.shard for shard in self.shards}
        found: dict[int, int] = {}
        for shard in self.shards:
            for origin in shard.reader.origins:
                child = self.place(shard.shard, origin.call)
                other = by_name.get(origin.shard, shard.shard)
                parent = self.place(other, origin.parent) if other != shard.shard else None
                if parent is None:
                    continue
                children = [child] if child is not None else self._inside(shard, origin.call)
                found |= {child: parent for child in children if self.began(parent) < self.began(child)}
        return {child: parent for child, parent in found.items() if self._parent_within(child) < 0}

    def _inside(self, shard: ShardCalls, call: int) -> list[int]:
        """The calls of a shard that were made in a call which another shard has."""
        inside = np.flatnonzero(shard.start("parent") == call) + int(self.offsets[shard.shard])
        places: list[int] = inside.tolist()
        return places

    def began(self, place: int) -> int:
        """When, in ns."""
        shard, local = self.split(place)
        return int(shard.start("time")[local])

    def _parent_within(self, place: int) -> int:
        shard, local = self.split(place)
        return int(shard.parents[local])

    @cached_property
    def children_elsewhere(self) -> dict[int, list[int]]:
        """place → places of the calls in other processes that it started."""
        found: dict[int, list[int]] = {}
        for child, parent in self.started_by.items():
            found.setdefault(parent, []).append(child)
        return found

    @cached_property
    def parents(self) -> Rows:
        """By place: the place of the call it is in, in whatever process; -1 for a root."""
        offsets = self.offsets.tolist()
        parts = [
            np.where(shard.parents < 0, -1, shard.parents + offset)
            for shard, offset in zip(self.shards, offsets, strict=False)
        ]
        parents = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        for child, parent in self.started_by.items():
            parents[child] = parent
        return parents

    def matching(self, wanted: Callable[[Function], bool]) -> Rows:
        """Places of the calls of functions that are wanted, in the order they began."""
        return self._begun(lambda shard: self._called(shard, wanted))

    def roots(self) -> Rows:
        """Places of the calls that no recorded call made."""
        roots = self._begun(lambda shard: np.flatnonzero(shard.parents < 0))
        return roots[~np.isin(roots, list(self.started_by))] if self.started_by else roots

    def _called(self, shard: ShardCalls, wanted: Callable[[Function], bool]) -> Column:
        ids = [id for id, function in shard.reader.functions.items() if wanted(function)]
        return np.flatnonzero(np.isin(shard.start("function"), ids))

    def _begun(self, choose: Callable[[ShardCalls], Column]) -> Rows:
        parts, times = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        for shard, offset in zip(self.shards, self.offsets.tolist(), strict=False):
            local = choose(shard)
            parts.append(local + offset)
            times.append(shard.start("time")[local])
        return np.concatenate(parts)[np.argsort(np.concatenate(times), kind="stable")]


def find_sorted(known: Column, order: Rows, wanted: Any) -> Rows:
    """For each wanted id its place, given the sorted ids and the order that sorts them; -1 where there is none."""
    if len(known) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, order[at], -1)

"""Which step a change belongs to.

The last step seen before it in its own call; else the step its call was told when it began; else the same question to
the call that made it, at the moment it did. If there is none, a change in a function that is told steps has no step: it
came before the first one. In functions that nobody told a step it is how many changes of that name came before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.history.calls import CallTable, ShardCalls, find_sorted
from clew.history.table import STEP, Column, Table
from clew.records import Kind

if TYPE_CHECKING:
    from clew.history.lazy import Rows


class Steps:
    """Steps of changes, a shard at a time."""

    def __init__(self, table: Table, calls: CallTable) -> None:
        self.table = table
        self.calls = calls
        self._marks: dict[int, Marks] = {}

    def at(self, rows: Rows) -> list[Any]:
        """The step of each of these changes."""
        steps = np.empty(len(rows), dtype=object)
        lacking = np.ones(len(rows), dtype=np.bool_)
        for marks, places, said in self._said(rows):
            steps[places] = marks.values(said)
            lacking[places] = False
        counted = lacking & ~self._before_the_first(rows, lacking)
        if counted.all():
            ordinals: list[Any] = self.table.ordinals(rows).tolist()
            return ordinals
        steps[counted] = self.table.ordinals(rows[counted])
        result: list[Any] = steps.tolist()
        return result

    def of_call(self, shard: int, place: int) -> Any:
        """The step at which a call began, or None."""
        return self.of_calls(shard, np.array([place], dtype=np.int64))[0]

    def of_calls(self, shard: int, places: Rows) -> list[Any]:
        """The step at which each of these calls of a shard began, or None."""
        marks = self._marks_of(shard)
        steps = np.full(len(places), None, dtype=object)
        if marks.count:
            found = marks.when_begun(places)
            steps[found >= 0] = marks.values(found[found >= 0])
        result: list[Any] = steps.tolist()
        return result

    def numbers(self, rows: Rows) -> npt.NDArray[np.float64] | None:
        """The step of each of these changes at the speed of the column, NaN for those that have none; None if one of
        them is no number."""
        steps = np.full(len(rows), np.nan)
        lacking = np.ones(len(rows), dtype=np.bool_)
        for marks, places, said in self._said(rows):
            numbers = marks.numbers(said)
            if numbers is None or len(numbers) == len(rows):
                return numbers
            steps[places] = numbers
            lacking[places] = False
        counted = lacking & ~self._before_the_first(rows, lacking)
        if counted.any():
            steps[counted] = self.table.ordinals(rows[counted])
        return steps

    def _before_the_first(self, rows: Rows, lacking: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of the changes that lack a step happened in functions that are told steps."""
        before = np.zeros(len(rows), dtype=np.bool_)
        if lacking.any() and self._told:
            before[lacking] = self.table.happened_in(rows[lacking], self._told)
        return before

    @cached_property
    def _told(self) -> set[tuple[str, str]]:
        """Functions (module and name) that said a step in one of their calls, or were called while one held."""
        told: set[tuple[str, str]] = set()
        for number, shard in enumerate(self.table.shards):
            functions = {site.function for site in shard.sites.values() if site.role == "step"}
            marks, calls = self._marks_of(number), self.calls.shards[number]
            if marks.count:
                begun = marks.when_begun(np.arange(calls.count, dtype=np.int64)) >= 0
                functions.update(np.unique(calls.start("function")[begun]).tolist())
            told.update((shard.functions[id].module, shard.functions[id].name) for id in functions)
        return told

    def _said(self, rows: Rows) -> Iterator[tuple[Marks, Rows | slice, Rows]]:
        """Shard by shard: its marks, which of these changes have a step that was said, and by which mark."""
        for shard, inside in self.table.by_shard(rows):
            marks = self._marks_of(shard)
            if marks.count:
                found = marks.before(rows[inside] - self.table.offsets[shard])
                there = found >= 0
                if bool(there.all()):
                    yield marks, inside, found
                else:
                    yield marks, np.arange(len(rows))[inside][there], found[there]

    def _marks_of(self, shard: int) -> Marks:
        if shard not in self._marks:
            self._marks[shard] = Marks(self.table, self.calls.shards[shard])
        return self._marks[shard]


class Marks:
    """Where the steps of one shard are said: rows of step sites, and calls told their step when they began.

    Sorted by call and row, each mark has two keys that a binary search can use: (call, row) and (call, time).
    """

    def __init__(self, table: Table, calls: ShardCalls) -> None:
        self.table = table
        self.calls = calls
        self.shard = calls.shard
        self.changes = table.changes[self.shard]
        said = self._said()
        told = np.flatnonzero(calls.step_given())
        self.row = np.concatenate([-1 - told, said])  # told when it began: before its first row; and where that stands
        self.count = len(self.row)
        #: One call after the other, each from its first row to its last: as a single loop writes them.
        self.in_turn = len(told) == 0 and self.changes.is_sorted("call") and self.changes.is_sorted("time")
        if not self.in_turn:
            self._sort()

    def _sort(self) -> None:
        call, time, row = self._of_each("call"), self._of_each("time"), self.row
        if not _in_order(call, time, row):
            order = np.lexsort((row, time, call))
            call, time, row = call[order], time[order], row[order]
        self.call, self.time, self.row = call, time, row

    @cached_property
    def call(self) -> Column:
        """The call in which each mark was made."""
        return self._of_each("call")

    @cached_property
    def time(self) -> Column:
        return self._of_each("time")

    def _of_each(self, name: str) -> Column:
        """What the starts of calls, or else the changes, say of each mark."""
        told = self.row < 0
        given = self.calls.start(name)[-1 - self.row[told]]
        return np.concatenate([given, self.changes.gather(name, self.row[~told])])

    @cached_property
    def _known(self) -> Column:
        """Calls that have marks."""
        call = self.call
        return call[np.flatnonzero(np.append(True, call[1:] != call[:-1]))] if self.count else call

    @cached_property
    def _told(self) -> tuple[Column, Rows]:
        """The calls that were told their step, sorted, and their marks."""
        marks = np.flatnonzero(self.row < 0).astype(np.int64)
        return self.call[marks], marks

    @cached_property
    def _row_keys(self) -> Rows:
        return self._row_key(self.call, self.row)  # only searched where rows are in order of time

    @cached_property
    def _times(self) -> Column:
        return np.unique(self.time)

    @cached_property
    def _time_keys(self) -> Rows:
        return self._time_key(self.call, self.time)

    def _said(self) -> Rows:
        rows = self.table.rows_that_are(self.shard, STEP)
        kinds = self.changes.gather("kind", rows)
        held: Rows = rows[(kinds != Kind.NONE) & (kinds != Kind.DELETED)]
        return held

    def values(self, marks: Rows) -> npt.NDArray[np.object_]:
        """The steps these marks say."""
        wanted, back = np.unique(marks, return_inverse=True)
        rows = self.row[wanted]
        values = np.empty(len(wanted), dtype=object)
        values[rows < 0] = self.calls.start("step")[-1 - rows[rows < 0]]
        said = np.flatnonzero(rows >= 0)
        read = self.table.values(rows[said] + self.table.offsets[self.shard])
        for place, value in zip(said.tolist(), read, strict=True):
            values[place] = plain_step(value)
        return values[back]

    def numbers(self, marks: Rows) -> npt.NDArray[np.float64] | None:
        """The steps these marks say, if all of them are finite numbers."""
        return _finite(self.values(marks)) if self._numbers is None else self._numbers[marks]

    @cached_property
    def _numbers(self) -> npt.NDArray[np.float64] | None:
        """The step of every mark, if all of them are finite numbers in the rows themselves."""
        told = self.row < 0
        said = self.row[~told] if bool(told.any()) else self.row
        kinds = self.changes.gather("kind", said)
        if not bool(((kinds == Kind.INT) | (kinds == Kind.FLOAT)).all()):
            return None
        steps = self.changes.gather("number", said)
        if len(said) < self.count:
            steps, numbers = np.empty(self.count), steps
            steps[told] = self.calls.start("step")[-1 - self.row[told]]
            steps[~told] = numbers
        return steps if bool(np.isfinite(steps).all()) else None

    def _row_key(self, call: Column, row: Column) -> Rows:
        ranks = np.searchsorted(self._known, call).astype(np.int64)
        return ranks * (self.table.lengths[self.shard] + 2) + np.maximum(row, -1) + 1

    def _time_key(self, call: Column, time: Column) -> Rows:
        ranks = np.searchsorted(self._known, call).astype(np.int64)
        return ranks * (len(self._times) + 2) + np.searchsorted(self._times, time, side="right")

    def _last(self, keys: Rows, wanted: Rows, call: Column) -> Rows:
        """The last mark at or before each wanted key, if it is of the same call; else -1."""
        at = np.searchsorted(keys, wanted, side="right") - 1
        width = self._width(keys)
        rank = np.searchsorted(self._known, call)
        known = self._known[np.minimum(rank, len(self._known) - 1)] == call
        same = (at >= 0) & known & (keys[np.maximum(at, 0)] // width == rank)
        return np.where(same, at, -1)

    def _width(self, keys: Rows) -> int:
        return self.table.lengths[self.shard] + 2 if keys is self._row_keys else len(self._times) + 2

    def before(self, rows: Rows) -> Rows:
        """For each row of the shard the mark that holds there, -1 for none."""
        if self.in_turn and self.changes.is_constant("call"):
            return self._by_row[rows].astype(np.int64)
        call = self.changes.gather("call", rows)
        if self.in_turn:
            found = self._by_row[rows].astype(np.int64)
            found[self.call[np.maximum(found, 0)] != call] = -1
        elif self.calls.in_order:
            found = self._last(self._row_keys, self._row_key(call, rows), call)
        else:
            found = self._last_by_time(call, self.table.column(self.shard, "time")[rows], rows)
        open_ = np.flatnonzero(found < 0)
        if len(open_):
            ids, back = np.unique(call[open_], return_inverse=True)
            found[open_] = self.when_begun(self.calls.places(ids))[back]
        return found

    @cached_property
    def _by_row(self) -> npt.NDArray[np.int32]:
        """For each row of the shard the last mark at or before it; where calls come one after the other."""
        said = np.zeros(self.table.lengths[self.shard], dtype=np.bool_)
        said[self.row] = True
        last = np.cumsum(said, dtype=np.int32)
        last -= 1  # in place: a column of ten million rows more would cost as much as the sum
        return last

    def _last_by_time(self, call: Column, time: Column, rows: Rows) -> Rows:
        """As `_last`, where rows are out of order: marks and questions sorted together, the last mark carried on."""
        calls, times, marks = (
            np.concatenate(pair) for pair in zip((self.call, self.time, self.row), (call, time, rows), strict=True)
        )
        order = np.lexsort((marks, times, calls))
        carried = np.maximum.accumulate(np.where(order < self.count, np.arange(len(order)), -1))
        mark = np.where(carried >= 0, order[np.maximum(carried, 0)], -1)
        found = np.empty(len(order), dtype=np.int64)
        found[order] = np.where((mark >= 0) & (calls[np.maximum(mark, 0)] == calls[order]), mark, -1)
        return found[self.count :]

    def when_begun(self, places: Rows) -> Rows:
        """For each call the mark that held when it began, -1 for none: asked upwards, all calls at once."""
        found = np.full(len(places), -1, dtype=np.int64)
        asking = np.flatnonzero(places >= 0)
        ids, starts = self.calls.start("call"), self.calls.start("time")
        here = places[asking]
        found[asking] = find_sorted(*self._told, ids[here])
        while True:
            left = found[asking] < 0
            asking, here = asking[left], here[left]
            up = self.calls.parents[here]
            asking, here, up = asking[up >= 0], here[up >= 0], up[up >= 0]
            if len(asking) == 0:
                break
            call = ids[up]
            found[asking] = self._last(self._time_keys, self._time_key(call, starts[here]), call)
            here = up
        return found


def _in_order(call: Column, time: Column, row: Column) -> bool:
    """Whether they are sorted by call, then time, then row."""
    later = row[1:] >= row[:-1]
    later = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & later)
    return bool(np.all((call[1:] > call[:-1]) | ((call[1:] == call[:-1]) & later)))


def _finite(steps: npt.NDArray[np.object_]) -> npt.NDArray[np.float64] | None:
    plain = all(type(step) in (int, float) and abs(step) < float("inf") for step in steps.tolist())
    return steps.astype(np.float64) if plain else None


def plain_step(value: Any) -> Any:
    """A step as a plain number where it is one: a NumPy or torch scalar counts as its number."""
    if type(value) in (int, float, str, bool):
        return value
    if getattr(value, "shape", None) == () or type(value).__module__ == "numpy":
        try:
            return value.item()
        except (AttributeError, ValueError, TypeError):
            return value
    return value

"""Determines which step a change belongs to.

It is the last step recorded before the change in the same call; else the step the call received when it began; else
the step that held in the parent call at that moment, and so on upwards. If none of these exists, a change in a function
that has steps came before the first one and has no step. In functions without steps, the step is the number of earlier
changes of that name.

A mark is a place where a step is set: a row that records one, or the start of a call that received one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.reading.calls import CallTable, ShardCalls, find_places
from clew.reading.table import STEP, Column, Table
from clew.records import Kind

if TYPE_CHECKING:
    from clew.reading.lazy import Rows


class Steps:
    """The steps of changes and calls, computed a shard at a time."""

    def __init__(self, table: Table, calls: CallTable) -> None:
        self.table = table
        self.calls = calls
        self._marks: dict[int, Marks] = {}

    def at(self, rows: Rows) -> list[Any]:
        """The step of each of these changes."""
        steps = np.empty(len(rows), dtype=object)
        has_no_mark = np.ones(len(rows), dtype=np.bool_)
        for marks, indices, mark_of_row in self._rows_with_marks(rows):
            steps[indices] = marks.values(mark_of_row)
            has_no_mark[indices] = False
        counted = has_no_mark & ~self._before_first_step(rows, has_no_mark)
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
            mark_of_call = marks.at_starts(places)
            steps[mark_of_call >= 0] = marks.values(mark_of_call[mark_of_call >= 0])
        result: list[Any] = steps.tolist()
        return result

    def numbers(self, rows: Rows) -> npt.NDArray[np.float64] | None:
        """The step of each of these changes as an array, NaN where there is none; None if a step is not a number."""
        steps = np.full(len(rows), np.nan)
        has_no_mark = np.ones(len(rows), dtype=np.bool_)
        for marks, indices, mark_of_row in self._rows_with_marks(rows):
            numbers = marks.numbers(mark_of_row)
            if numbers is None or len(numbers) == len(rows):
                return numbers
            steps[indices] = numbers
            has_no_mark[indices] = False
        counted = has_no_mark & ~self._before_first_step(rows, has_no_mark)
        if counted.any():
            steps[counted] = self.table.ordinals(rows[counted])
        return steps

    def _before_first_step(self, rows: Rows, has_no_mark: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of the changes without a mark happened in functions that have steps."""
        before = np.zeros(len(rows), dtype=np.bool_)
        if has_no_mark.any() and self._stepped_functions:
            before[has_no_mark] = self.table.happened_in(rows[has_no_mark], self._stepped_functions)
        return before

    @cached_property
    def _stepped_functions(self) -> set[tuple[str, str]]:
        """Functions (module and name) that recorded a step in one of their calls, or were called while one held."""
        stepped_functions: set[tuple[str, str]] = set()
        for shard_number, shard in enumerate(self.table.shards):
            functions = {site.function for site in shard.sites.values() if site.role == "step"}
            marks, calls = self._marks_of(shard_number), self.calls.shards[shard_number]
            if marks.count:
                has_step = marks.at_starts(np.arange(calls.count, dtype=np.int64)) >= 0
                functions.update(np.unique(calls.start("function")[has_step]).tolist())
            stepped_functions.update((shard.functions[id].module, shard.functions[id].name) for id in functions)
        return stepped_functions

    def _rows_with_marks(self, rows: Rows) -> Iterator[tuple[Marks, Rows | slice, Rows]]:
        """For each shard: its marks, which of these changes have a mark, and which mark that is."""
        for shard, indices in self.table.by_shard(rows):
            marks = self._marks_of(shard)
            if marks.count:
                mark_of_row = marks.at_rows(rows[indices] - self.table.offsets[shard])
                has_mark = mark_of_row >= 0
                if bool(has_mark.all()):
                    yield marks, indices, mark_of_row
                else:
                    yield marks, np.arange(len(rows))[indices][has_mark], mark_of_row[has_mark]

    def _marks_of(self, shard: int) -> Marks:
        if shard not in self._marks:
            self._marks[shard] = Marks(self.table, self.calls.shards[shard])
        return self._marks[shard]


class Marks:
    """The marks of one shard: rows that record a step, and starts of calls that received one.

    Sorted by call and row, each mark has two keys for binary search: (call, row) and (call, time).
    """

    def __init__(self, table: Table, calls: ShardCalls) -> None:
        self.table = table
        self.calls = calls
        self.shard = calls.shard
        self.changes = table.changes[self.shard]
        step_rows = self._step_rows()
        starts = np.flatnonzero(calls.has_step())
        self.row = np.concatenate([-1 - starts, step_rows])  # negative: the start -1 - row, which precedes all rows
        self.count = len(self.row)
        #: Whether calls follow one another, each with contiguous rows, as a single loop writes them.
        self.in_turn = len(starts) == 0 and self.changes.is_sorted("call") and self.changes.is_sorted("time")
        if not self.in_turn:
            self._sort()

    def _sort(self) -> None:
        call, time, row = self._column_of_marks("call"), self._column_of_marks("time"), self.row
        if not _in_order(call, time, row):
            order = np.lexsort((row, time, call))
            call, time, row = call[order], time[order], row[order]
        self.call, self.time, self.row = call, time, row

    @cached_property
    def call(self) -> Column:
        """The call in which each mark was made."""
        return self._column_of_marks("call")

    @cached_property
    def time(self) -> Column:
        return self._column_of_marks("time")

    def _column_of_marks(self, name: str) -> Column:
        """A column for all marks, read from the starts of calls or from the changes."""
        is_start = self.row < 0
        of_starts = self.calls.start(name)[-1 - self.row[is_start]]
        return np.concatenate([of_starts, self.changes.gather(name, self.row[~is_start])])

    @cached_property
    def _marked_calls(self) -> Column:
        """The calls that have marks, sorted."""
        call = self.call
        return call[np.flatnonzero(np.append(True, call[1:] != call[:-1]))] if self.count else call

    @cached_property
    def _marks_of_starts(self) -> tuple[Column, Rows]:
        """The calls that received a step when they began, sorted, and their marks."""
        marks = np.flatnonzero(self.row < 0).astype(np.int64)
        return self.call[marks], marks

    @cached_property
    def _row_keys(self) -> Rows:
        return self._row_key(self.call, self.row)  # only used if rows are in order of time

    @cached_property
    def _times(self) -> Column:
        return np.unique(self.time)

    @cached_property
    def _time_keys(self) -> Rows:
        return self._time_key(self.call, self.time)

    def _step_rows(self) -> Rows:
        rows = self.table.hidden_rows(self.shard, STEP)
        kinds = self.changes.gather("kind", rows)
        step_rows: Rows = rows[(kinds != Kind.NONE) & (kinds != Kind.DELETED)]
        return step_rows

    def values(self, marks: Rows) -> npt.NDArray[np.object_]:
        """The steps of these marks."""
        distinct_marks, inverse = np.unique(marks, return_inverse=True)
        rows = self.row[distinct_marks]
        values = np.empty(len(distinct_marks), dtype=object)
        values[rows < 0] = self.calls.start("step")[-1 - rows[rows < 0]]
        from_rows = np.flatnonzero(rows >= 0)
        decoded = self.table.values(rows[from_rows] + self.table.offsets[self.shard])
        for place, value in zip(from_rows.tolist(), decoded, strict=True):
            values[place] = plain_step(value)
        return values[inverse]

    def numbers(self, marks: Rows) -> npt.NDArray[np.float64] | None:
        """The steps of these marks, or None if one of them is not a finite number."""
        return _finite_numbers(self.values(marks)) if self._numbers is None else self._numbers[marks]

    @cached_property
    def _numbers(self) -> npt.NDArray[np.float64] | None:
        """The step of every mark, or None if one of them is not a finite number stored in the row itself."""
        is_start = self.row < 0
        rows = self.row[~is_start] if bool(is_start.any()) else self.row
        kinds = self.changes.gather("kind", rows)
        if not bool(((kinds == Kind.INT) | (kinds == Kind.FLOAT)).all()):
            return None
        steps = self.changes.gather("number", rows)
        if len(rows) < self.count:
            steps, numbers = np.empty(self.count), steps
            steps[is_start] = self.calls.start("step")[-1 - self.row[is_start]]
            steps[~is_start] = numbers
        return steps if bool(np.isfinite(steps).all()) else None

    def _row_key(self, call: Column, row: Column) -> Rows:
        ranks = np.searchsorted(self._marked_calls, call).astype(np.int64)
        return ranks * (self.table.lengths[self.shard] + 2) + np.maximum(row, -1) + 1

    def _time_key(self, call: Column, time: Column) -> Rows:
        ranks = np.searchsorted(self._marked_calls, call).astype(np.int64)
        return ranks * (len(self._times) + 2) + np.searchsorted(self._times, time, side="right")

    def _last_mark(self, keys: Rows, searched_keys: Rows, call: Column) -> Rows:
        """The last mark at or before each key, if it is in the same call; else -1."""
        marks = np.searchsorted(keys, searched_keys, side="right") - 1
        width = self._width(keys)
        ranks = np.searchsorted(self._marked_calls, call)
        is_marked = self._marked_calls[np.minimum(ranks, len(self._marked_calls) - 1)] == call
        is_same_call = (marks >= 0) & is_marked & (keys[np.maximum(marks, 0)] // width == ranks)
        return np.where(is_same_call, marks, -1)

    def _width(self, keys: Rows) -> int:
        return self.table.lengths[self.shard] + 2 if keys is self._row_keys else len(self._times) + 2

    def at_rows(self, rows: Rows) -> Rows:
        """The mark that holds at each of these rows of the shard, -1 for none."""
        if self.in_turn and self.changes.is_constant("call"):
            return self._last_mark_by_row[rows].astype(np.int64)
        call = self.changes.gather("call", rows)
        if self.in_turn:
            marks = self._last_mark_by_row[rows].astype(np.int64)
            marks[self.call[np.maximum(marks, 0)] != call] = -1
        elif self.calls.in_order:
            marks = self._last_mark(self._row_keys, self._row_key(call, rows), call)
        else:
            marks = self._last_mark_by_time(call, self.table.column(self.shard, "time")[rows], rows)
        unmarked = np.flatnonzero(marks < 0)
        if len(unmarked):
            ids, inverse = np.unique(call[unmarked], return_inverse=True)
            marks[unmarked] = self.at_starts(self.calls.places(ids))[inverse]
        return marks

    @cached_property
    def _last_mark_by_row(self) -> npt.NDArray[np.int32]:
        """For each row of the shard, the last mark at or before it; valid only if `in_turn`."""
        is_mark = np.zeros(self.table.lengths[self.shard], dtype=np.bool_)
        is_mark[self.row] = True
        last_mark = np.cumsum(is_mark, dtype=np.int32)
        last_mark -= 1  # in place: another column of ten million rows would cost as much as the sum
        return last_mark

    def _last_mark_by_time(self, call: Column, time: Column, rows: Rows) -> Rows:
        """Like `_last_mark`, for rows out of order: sort marks and rows together, then carry the last mark forward."""
        calls, times, marks = (
            np.concatenate(pair) for pair in zip((self.call, self.time, self.row), (call, time, rows), strict=True)
        )
        order = np.lexsort((marks, times, calls))
        carried = np.maximum.accumulate(np.where(order < self.count, np.arange(len(order)), -1))
        mark = np.where(carried >= 0, order[np.maximum(carried, 0)], -1)
        result = np.empty(len(order), dtype=np.int64)
        result[order] = np.where((mark >= 0) & (calls[np.maximum(mark, 0)] == calls[order]), mark, -1)
        return result[self.count :]

    def at_starts(self, places: Rows) -> Rows:
        """The mark that held when each call began, -1 for none; searches the parents of all calls at once."""
        marks = np.full(len(places), -1, dtype=np.int64)
        pending = np.flatnonzero(places >= 0)
        ids, starts = self.calls.start("call"), self.calls.start("time")
        pending_places = places[pending]
        marks[pending] = find_places(*self._marks_of_starts, ids[pending_places])
        while True:
            is_open = marks[pending] < 0
            pending, pending_places = pending[is_open], pending_places[is_open]
            parents = self.calls.parents[pending_places]
            has_parent = parents >= 0
            pending, pending_places, parents = pending[has_parent], pending_places[has_parent], parents[has_parent]
            if len(pending) == 0:
                break
            parent_ids = ids[parents]
            marks[pending] = self._last_mark(
                self._time_keys, self._time_key(parent_ids, starts[pending_places]), parent_ids
            )
            pending_places = parents
        return marks


def _in_order(call: Column, time: Column, row: Column) -> bool:
    """Whether the marks are sorted by call, then time, then row."""
    is_not_earlier = row[1:] >= row[:-1]
    is_not_earlier = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & is_not_earlier)
    return bool(np.all((call[1:] > call[:-1]) | ((call[1:] == call[:-1]) & is_not_earlier)))


def _finite_numbers(steps: npt.NDArray[np.object_]) -> npt.NDArray[np.float64] | None:
    plain = all(type(step) in (int, float) and abs(step) < float("inf") for step in steps.tolist())
    return steps.astype(np.float64) if plain else None


def plain_step(value: Any) -> Any:
    """A step as a plain number if it is a NumPy or torch scalar, else unchanged."""
    if type(value) in (int, float, str, bool):
        return value
    if getattr(value, "shape", None) == () or type(value).__module__ == "numpy":
        try:
            return value.item()
        except (AttributeError, ValueError, TypeError):
            return value
    return value

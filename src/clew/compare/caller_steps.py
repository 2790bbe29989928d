"""Finds the step at which a call was made: the steps of a loop also apply to the calls made in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clew.store.format import NO_STEP

if TYPE_CHECKING:
    from clew.compare.side import Ints, Side


def call_marks(side: Side) -> Ints:
    """By call: the index of the mark that applied in its callers when it began; -1 for none."""
    marks = np.full(len(side), -1, np.int64)
    if len(side.marks[0]) == 0:
        return marks
    marks[1:] = _marks_of_callers(side)
    order = np.argsort(side.depth, kind="stable")
    cuts = np.flatnonzero(np.diff(side.depth[order])) + 1
    for calls in np.split(order, cuts)[1:]:  # a caller without a step of its own has that of its callers
        without_mark = calls[marks[calls] < 0]
        callers = side.parent[without_mark]
        marks[without_mark] = np.where(side.own_step[callers] == NO_STEP, marks[callers], -1)
    return marks


def _marks_of_callers(side: Side) -> Ints:
    """By call, without the run itself: the last mark in its caller when it began; -1 for none."""
    marks = side.marks[0]
    callers, starts = side.parent[1:], side.starts[1:]
    calls = np.concatenate([side.call_of(marks), callers])
    by_row = np.argsort(marks, kind="stable")
    mark_times = np.empty(len(marks), np.int64)
    mark_times[by_row] = side.cells("time", marks[by_row])
    order = np.lexsort((np.arange(len(calls)), np.concatenate([mark_times, starts]), calls))  # ties: marks first
    numbers = np.where(order < len(marks), order, -1)
    last = np.maximum.accumulate(numbers)  # marks ascend by call and row
    has_mark = (last >= 0) & (calls[np.maximum(last, 0)] == calls[order])
    last_marks = np.full(len(calls), -1, np.int64)
    last_marks[order] = np.where(has_mark, last, -1)
    return last_marks[len(marks) :]

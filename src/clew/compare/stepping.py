"""At which step of the calls around it a call was made: a loop that counts steps says so of what it calls, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clew.store.format import NO_STEP

if TYPE_CHECKING:
    from clew.compare.side import Ints, Side


def call_marks(side: Side) -> Ints:
    """By call: which of the side's marks held around it when it began; -1 for none."""
    found = np.full(len(side), -1, np.int64)
    if len(side.marks[0]) == 0:
        return found
    found[1:] = _marks_of_callers(side)
    order = np.argsort(side.depth, kind="stable")
    cuts = np.flatnonzero(np.diff(side.depth[order])) + 1
    for level in np.split(order, cuts)[1:]:  # what the caller does not say itself, it has from those around it
        lacking = level[found[level] < 0]
        above = side.parent[lacking]
        found[lacking] = np.where(side.own_step[above] == NO_STEP, found[above], -1)
    return found


def _marks_of_callers(side: Side) -> Ints:
    """Of every call but the run itself: the last step its caller had said when it began; -1 if it had said none."""
    marks = side.marks[0]
    callers, begun = side.parent[1:], side.starts[1:]
    calls = np.concatenate([side.call_of(marks), callers])
    by_row = np.argsort(marks, kind="stable")
    said = np.empty(len(marks), np.int64)
    said[by_row] = side.cells("time", marks[by_row])
    order = np.lexsort((np.arange(len(calls)), np.concatenate([said, begun]), calls))  # marks come first among equals
    numbers = np.where(order < len(marks), order, -1)
    last = np.maximum.accumulate(numbers)  # marks ascend by call and row
    good = (last >= 0) & (calls[np.maximum(last, 0)] == calls[order])
    found = np.full(len(calls), -1, np.int64)
    found[order] = np.where(good, last, -1)
    return found[len(marks) :]

"""Who called whom, found in a log of calls without a loop.

A log is a flat list of objects. The first item of each event is its plan's own mark, which is nowhere else: so events
are found by looking for the addresses of marks among the addresses of the items. How deep each call is follows from
counting beginnings and ends; and among the events of one depth, in order of time, each end stands behind its beginning.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .call_log import ENTER, LIVE
from .event_marks import MarkFinder
from .plan import KINDS_OF_EVENTS, Plan, plan_number, plans

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_DEEPEST: Final = 1 << 15


_marks = MarkFinder(plans, lambda plan: plan.marks)


class Events:
    """The events of a log: where each begins, its plan and its kind."""

    def __init__(self, items: list[Any], following: Any) -> None:
        self.objects = np.empty(len(items), np.object_)
        self.objects[:] = items
        self.at, codes = _marks.find(self.objects)
        self.kinds = codes & (KINDS_OF_EVENTS - 1)
        self.numbers = codes >> 2
        self.lines = np.zeros(len(self.at), np.int64)
        begins = np.flatnonzero(self.kinds == ENTER)
        self.lines[begins] = self.objects[self.at[begins] + 2]
        called = np.flatnonzero(np.bincount(self.numbers)).tolist()
        self.plans: dict[int, Plan] = {number: plan_number(number) for number in called}
        hidden = [number for number, plan in self.plans.items() if not following.takes(plan)]
        special = self.kinds == LIVE
        if hidden:
            special |= np.isin(self.numbers, hidden)
        self._special = np.flatnonzero(special)

    def __len__(self) -> int:
        return len(self.at)

    def plain_until(self, begin: int) -> int:
        """From this event on there are only calls in scope that begin and end, up to here."""
        place = int(np.searchsorted(self._special, begin))
        return int(self._special[place]) if place < len(self._special) else len(self)

    def of_plans(self, ask: Any, numbers: Ints) -> Ints:
        """What is asked of the plan of each event."""
        table = np.zeros(max(self.plans, default=0) + 1, np.int64)
        for number, plan in self.plans.items():
            table[number] = ask(plan)
        return table[numbers]


class Nest(NamedTuple):
    """Events one after the other, and what they have to do with each other."""

    enters: Mask  # by event: a call begins
    calls: Ints  # by event: the call that begins, or ends
    parents: Ints  # by beginning
    is_root: Mask  # by beginning: nothing is open then
    stack: list[int]  # the calls that are open after them
    plans: list[int]  # theirs


def nest(
    kinds: Ints, numbers: Ints, outermost: Mask, stack: list[int], plans: list[int], base: int, first: int
) -> Nest | int:
    """The nest of these events, where calls `stack` under `plans` are open, inside the call `base`; the first call that
    begins here gets the number `first`. If an end fits no beginning, or an outermost call is inside another because the
    end of that was lost: how many events are before it.
    """
    enters = kinds == ENTER
    after = len(stack) + np.cumsum(np.where(enters, 1, -1))
    level = np.where(enters, after, after + 1)  # of the call that begins or ends
    bad = (level < 1) | (level > _DEEPEST) | (outermost & (level > 1))
    if bad.any():
        return int(bad.argmax())
    new = first + np.cumsum(enters) - 1
    open_calls, open_plans = np.array([base, *stack], np.int64), np.array([-1, *plans], np.int64) >> 2
    order = np.argsort(level.astype(np.uint16), kind="stable")
    before = _before(order, level)
    calls = np.where(enters, new, open_calls[np.minimum(level, len(stack))])
    begun = np.where(enters, numbers, open_plans[np.minimum(level, len(stack))])
    ends = np.flatnonzero(~enters & (before >= 0))
    calls[ends], begun[ends] = new[before[ends]], numbers[before[ends]]
    wrong = begun != numbers
    if wrong.any():
        return int(wrong.argmax())
    at = np.flatnonzero(enters)
    parents = _parents(enters, level, order, new, open_calls)[at]
    left = np.flatnonzero(_still_open(enters, before, len(kinds)))
    kept = min(len(stack), int(after.min(initial=len(stack))))
    return Nest(
        enters,
        calls,
        parents,
        level[at] == 1,
        [*stack[:kept], *new[left].tolist()],
        [*plans[:kept], *(numbers[left] * KINDS_OF_EVENTS).tolist()],
    )


def _before(order: Ints, level: Ints) -> Ints:
    """For each event the one before it on its level, -1 for the first there."""
    before = np.full(len(order), -1, np.int64)
    same = level[order[1:]] == level[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def _parents(enters: Mask, level: Ints, order: Ints, new: Ints, open_calls: Ints) -> Ints:
    """By event, for beginnings: the call it is in. Right behind a beginning that is the one that began; behind an end
    it is the same as for the call before it on its level; and where there is none, it was open already."""
    known = np.full(len(level), -1, np.int64)
    behind = np.flatnonzero(enters[1:] & enters[:-1]) + 1
    known[behind] = new[behind - 1]
    sorted_known, sorted_level = known[order], level[order]
    fresh = sorted_known >= 0
    place = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), -1))
    usable = (place >= 0) & (sorted_level[np.maximum(place, 0)] == sorted_level)
    from_outside = open_calls[np.minimum(sorted_level - 1, len(open_calls) - 1)]
    parents = np.empty(len(level), np.int64)
    parents[order] = np.where(usable, sorted_known[np.maximum(place, 0)], from_outside)
    return parents


def _still_open(enters: Mask, before: Ints, count: int) -> Mask:
    ended = np.zeros(count, np.bool_)
    ends = np.flatnonzero(~enters & (before >= 0))
    ended[before[ends]] = True
    return enters & ~ended

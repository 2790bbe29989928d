"""Folds repeated events: the rounds of a loop are shown as the first, a count, and the last.

Every event in a call has a *shape*: for a change its name, line and kind of value; for a call its function, the kinds
of its inputs and result, and the shapes of all events in it. Consecutive equal shapes fold, also in rounds
(f, g, f, g); events that differ stand on their own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.text.values import Look

LONGEST_ROUND = 12  # events in one round of a loop
FEWEST = 3  # rounds needed to fold: the first, the last, and one between
LOOKED_AT = 3_000  # calls read to find shapes, per picture
ONE_CHANGE = 0.1  # the cost of reading a change, relative to a call
LARGEST = 300  # calls in one shape, including all it called; a larger call stands on its own and folds inside


@dataclass(frozen=True, slots=True)
class Group:
    """`count` equal rounds of `period` events each, beginning at `start`."""

    start: int
    period: int = 1
    count: int = 1

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def groups(shapes: Sequence[Hashable]) -> Iterator[Group]:
    """The events in order, in groups of equal rounds; an event that does not repeat often enough is its own group."""
    at = 0
    while at < len(shapes):
        group = _best_group(shapes, at)
        yield group
        at = group.end


def _best_group(shapes: Sequence[Hashable], at: int) -> Group:
    """The group that begins here and covers the most events; among equals, the one with the shortest round."""
    best = Group(at)
    for period in range(1, min(LONGEST_ROUND, (len(shapes) - at) // FEWEST) + 1):
        count = _count_rounds(shapes, at, period)
        if count >= FEWEST and count * period > best.period * best.count:
            best = Group(at, period, count)
    return best


def _count_rounds(shapes: Sequence[Hashable], at: int, period: int) -> int:
    end = at + period
    while end < len(shapes) and shapes[end] == shapes[end - period]:
        end += 1
    return (end - at) // period


def is_call(event: Any) -> bool:
    """Whether an event is a call rather than a change."""
    return hasattr(event, "duration")


def fresh(change: Any) -> Any:
    """A copy to read the value from: a change caches what it read, which would keep thousands of arrays in memory."""
    return copy.copy(change)


class Shapes:
    """The shapes of events, each computed once and numbered, so that comparing is cheap."""

    def __init__(self, events: Callable[[Any], Sequence[Any]], budget: float = LOOKED_AT) -> None:
        self._events = events
        self._budget = budget
        self._numbers: dict[Hashable, int] = {}
        self._shape_of_call: dict[Any, Hashable] = {}

    @property
    def exhausted(self) -> bool:
        """Whether the budget of one picture is used up."""
        return self._budget <= 0

    def of(self, event: Any) -> Hashable:
        """The shape of a change or call; a unique object for a call that raised or exceeds the budget.

        Not recursive, because recorded recursion may exceed the limit of this process.
        """
        open_calls: list[tuple[Any, Iterator[Any], list[Hashable], float]] = []
        least_budget = self._budget - LARGEST
        shape = self._shape_or_open(event, open_calls)
        while open_calls:
            if self._budget < max(least_budget, 0):
                return self._give_up(open_calls)
            call, events, shapes, _ = open_calls[-1]
            if shape is not None:
                shapes.append(shape)
            following = next(events, None)
            if following is not None:
                shape = self._shape_or_open(following, open_calls)
            else:
                open_calls.pop()
                shape = self._shape_of_call[call] = self._shape_of_closed(call, shapes)
        return shape

    def _shape_or_open(self, event: Any, open_calls: list[Any]) -> Hashable | None:
        """The shape if it is available at once; None for a call, which is opened instead."""
        if not is_call(event):
            self._budget -= ONE_CHANGE
            return self._number(("change", event.name, event.line, Look(fresh(event).value).shape()))
        if event in self._shape_of_call:
            return self._shape_of_call[event]
        self._budget -= 1
        if event.message is not None:
            return self._number(("message", tuple(event.callers[:1]) or event.message))
        open_calls.append((event, iter(self._events(event)), [], self._budget))
        return None

    def _give_up(self, open_calls: list[Any]) -> Hashable:
        """Mark the outermost call, and calls inside that used much of the budget, as too large to compare."""
        for call, _, _, budget_before in open_calls:
            if budget_before - self._budget > LARGEST // 2:
                self._shape_of_call[call] = object()
        return object()

    def _shape_of_closed(self, call: Any, shapes: list[Hashable]) -> Hashable:
        if call.error is not None:
            return object()
        inputs = tuple((name, Look(value).shape()) for name, value in call.args.items())
        place = call.function, call.file, call.line
        return self._number(("call", place, inputs, Look(call.result).shape(), call.returned, tuple(shapes)))

    def _number(self, shape: Hashable) -> int:
        return self._numbers.setdefault(shape, len(self._numbers))

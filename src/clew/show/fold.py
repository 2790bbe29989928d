"""Folding: what a loop does a thousand times is shown once, counted, and shown once more at its end.

Everything that happens in a call has a *shape*: of a change its name, line and kind of value; of a call its function,
the kinds of its inputs and result, and the shapes of all that happened in it. Equal shapes in a row fold, also in
rounds (f, g, f, g); whatever differs stands on its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.show.values import Look

LONGEST_ROUND = 12  # events of one time round a loop
FEWEST = 3  # rounds that are folded: the first, the last, and one between
LOOKED_AT = 3_000  # calls that are read to find shapes, for one picture
ONE_CHANGE = 0.1  # of a call, in these counts: what reading a change costs
LARGEST = 300  # calls of one shape, with all it called; a larger one stands on its own, and folds inside


@dataclass(frozen=True, slots=True)
class Group:
    """`count` rounds of `period` events each, alike, from `start` on."""

    start: int
    period: int = 1
    count: int = 1

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def groups(shapes: Sequence[Hashable]) -> Iterator[Group]:
    """The events in order, in groups of equal rounds; what does not repeat often enough is a group of one."""
    at = 0
    while at < len(shapes):
        found = _best(shapes, at)
        yield found
        at = found.end


def _best(shapes: Sequence[Hashable], at: int) -> Group:
    """The group that begins here and covers most; of equals the one with the shortest round."""
    best = Group(at)
    for period in range(1, min(LONGEST_ROUND, (len(shapes) - at) // FEWEST) + 1):
        count = _rounds(shapes, at, period)
        if count >= FEWEST and count * period > best.period * best.count:
            best = Group(at, period, count)
    return best


def _rounds(shapes: Sequence[Hashable], at: int, period: int) -> int:
    same = at + period
    while same < len(shapes) and shapes[same] == shapes[same - period]:
        same += 1
    return (same - at) // period


def is_call(event: Any) -> bool:
    """Whether an event is a call; else it is a change."""
    return hasattr(event, "duration")


def fresh(change: Any) -> Any:
    """A copy to read the value from: a change keeps what it read, and thousands of arrays would stay in memory."""
    return copy.copy(change)


class Shapes:
    """The shapes of events, each found once; as small numbers, so that comparing is cheap."""

    def __init__(self, events: Callable[[Any], Sequence[Any]], budget: float = LOOKED_AT) -> None:
        self._events = events
        self._left = budget
        self._numbers: dict[Hashable, int] = {}
        self._found: dict[Any, Hashable] = {}

    @property
    def exhausted(self) -> bool:
        """Whether as many calls were read as one picture is worth."""
        return self._left <= 0

    def of(self, event: Any) -> Hashable:
        """The shape of a change or a call; equal to no other for a call that raised, or beyond the budget.

        Without recursion: recorded recursion may be deeper than ours may go.
        """
        open_: list[tuple[Any, Iterator[Any], list[Hashable], float]] = []
        enough = self._left - LARGEST
        shape = self._begun(event, open_)
        while open_:
            if self._left < max(enough, 0):
                return self._given_up(open_)
            call, events, inside, _ = open_[-1]
            if shape is not None:
                inside.append(shape)
            following = next(events, None)
            if following is not None:
                shape = self._begun(following, open_)
            else:
                open_.pop()
                shape = self._found[call] = self._closed(call, inside)
        return shape

    def _begun(self, event: Any, open_: list[Any]) -> Hashable | None:
        """Its shape if that is known at once; None for a call that was opened to look inside."""
        if not is_call(event):
            self._left -= ONE_CHANGE
            return self._number(("change", event.name, event.line, Look(fresh(event).value).shape()))
        if event in self._found:
            return self._found[event]
        self._left -= 1
        if event.message is not None:
            return self._number(("message", tuple(event.callers[:1]) or event.message))
        open_.append((event, iter(self._events(event)), [], self._left))
        return None

    def _given_up(self, open_: list[Any]) -> Hashable:
        """The outermost is too large to be compared, and so are those inside that had a large part in it."""
        for call, _, _, left in open_:
            if left - self._left > LARGEST // 2:
                self._found[call] = object()
        return object()

    def _closed(self, call: Any, inside: list[Hashable]) -> Hashable:
        if call.error is not None:
            return object()
        inputs = tuple((name, Look(value).shape()) for name, value in call.args.items())
        place = call.function, call.file, call.line
        return self._number(("call", place, inputs, Look(call.result).shape(), call.returned, tuple(inside)))

    def _number(self, shape: Hashable) -> int:
        return self._numbers.setdefault(shape, len(self._numbers))

"""Marks: how the events in a flat log are found again.

An event is some items in a list, the first of which is its plan's own mark. No value of the user's is ever the same
object as a mark, so that events are found by the addresses of the items, all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

from clew.values import SCALARS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .plan import Plan

    Ints = npt.NDArray[np.int64]

_BLOCK: Final = 1 << 16  # items
PIECE_BYTES: Final = 4 << 20  # of long texts and the like that are written at once
_WINDOW: Final = 24  # neighbouring items that are measured
SHORT_LOG: Final = 3 * _WINDOW  # items of a log that is measured as a whole
_SIEVE: Final = 1 << 16  # cells of the table that sorts out most addresses
_LOW_BITS: Final = 4  # of an address, always the same


class Mark(int):
    """The first item of an event: a number that says which plan it is of, and which kind of event."""

    __slots__ = ()


def mean_size(log: list[Any]) -> int:
    """About how many bytes an item of this log has. Windows of neighbours, because fields of events repeat."""
    if len(log) <= SHORT_LOG:
        sample = log[:]  # the program may be appending to the log itself
    else:
        sample = [*log[:_WINDOW], *log[len(log) // 2 : len(log) // 2 + _WINDOW], *log[-_WINDOW:]]
    sizes = [getsizeof(item) for item in sample if type(item) in SCALARS]
    return sum(sizes) // max(len(sizes), 1)


def items_at_once(log: list[Any], most: int) -> int:
    """How many items of a log are written at once: so many, or fewer if they are large."""
    return max(min(most, PIECE_BYTES // max(mean_size(log), 1)), 1)


def blocks(items: list[Any]) -> Iterator[list[Any]]:
    """Whole events in pieces that a processor's cache can hold, or memory if values are large."""
    if len(items) <= SHORT_LOG:
        yield items
        return
    begin, length = 0, items_at_once(items, _BLOCK)
    while begin < len(items):
        end = begin + length
        while end < len(items) and type(items[end]) is not Mark:
            end += 1
        yield items[begin:end]
        begin = end


class MarkFinder:
    """The addresses of marks: a sieve for the many items that are none, and a sorted list for the rest."""

    def __init__(self, plans: Callable[[], list[Plan]], marks_of: Callable[[Plan], Iterable[Mark]]) -> None:
        import numpy as np

        self._plans = plans
        self._marks_of = marks_of
        self._count = 0
        self._sieve = np.zeros(_SIEVE, np.bool_)
        self._addresses = np.zeros(0, np.uint64)
        self._codes = np.zeros(0, np.int64)

    def _learn(self) -> None:
        import numpy as np

        plans = self._plans()
        if len(plans) == self._count:
            return
        marks = [mark for plan in plans for mark in self._marks_of(plan)]
        addresses = np.array([id(mark) for mark in marks], np.uint64)
        order = np.argsort(addresses)
        self._addresses, self._codes = addresses[order], np.array(marks, np.int64)[order]
        self._sieve[_cells(addresses)] = True
        self._count = len(plans)

    def find(self, objects: npt.NDArray[np.object_]) -> tuple[Ints, Ints]:
        """Where the marks are among these objects, and their numbers."""
        import numpy as np

        self._learn()
        addresses = np.frombuffer(objects, np.uint64)
        maybe = np.flatnonzero(self._sieve[_cells(addresses)])
        wanted = addresses[maybe]
        at = np.minimum(np.searchsorted(self._addresses, wanted), len(self._addresses) - 1)
        right = self._addresses[at] == wanted
        return maybe[right], self._codes[at[right]]


def _cells(addresses: Any) -> Any:
    import numpy as np

    return (addresses >> np.uint64(_LOW_BITS)) & np.uint64(_SIEVE - 1)

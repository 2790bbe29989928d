"""How much waits to be written, how fast that grows, and so when the program must wait.

The recorder measures both sides: how many bytes a second the logs grow by, and how long a flush takes for each byte.
The program is stopped before the two together exceed the memory that it may use.
"""

from __future__ import annotations

import time
from typing import Any

from .event_marks import SHORT_LOG, mean_size
from .waiting_helpers import is_ending

MEMORY = 512 * 2**20
INTERVAL = 0.4  # seconds between flushes: what `kill -9` can cost at most is this and the writing itself
PATIENCE = 0.15  # seconds that a flush may be late before the program waits for it
_CHILD_INTERVAL = 0.02  # seconds between flushes in a child of multiprocessing, which a pool ends without a word
_FLUSH_SHARE = 0.1  # of a child's time that may be spent on waiting for flushes
_ITEM_BYTES = 250  # an item of a log: its place, about what a number takes, and the columns it becomes
_COPIES = 5  # of a long text, while it is written
_SHORTEST_WAIT = 0.002  # seconds that a thread waits for something at least
_WORTH_MEASURING = 1 << 20  # bytes
_MEASURED_SHORT_LOGS = 64  # stand for the others when there are more
_TEXT_PACE = 2e-9  # seconds that a flush of long texts takes for each byte: they take the longest


class Backlog:
    """What is known of the logs of one recorder as a whole."""

    def __init__(self, memory: int) -> None:
        self.most_bytes = min(memory, MEMORY)  # in logs while the program goes on
        self.in_child = False  # of multiprocessing
        self._interval = INTERVAL * min(1.0, memory / MEMORY)
        self._flush_seconds = 0.0  # that the last flush took; none yet: a child's first call waits for the first flush
        self._growth = 0.0  # bytes a second
        self._pace = _TEXT_PACE  # seconds a byte
        self.rest()

    @property
    def interval(self) -> float:
        """Seconds between flushes."""
        return _CHILD_INTERVAL if self.in_child else self._interval

    @staticmethod
    def bytes_in(logs: list[list[Any]]) -> int:
        """About how much memory logs need until they are written. Samples tell long texts and large integers."""
        short_logs = [log for log in logs if 0 < len(log) <= SHORT_LOG]
        long_logs = [log for log in logs if len(log) > SHORT_LOG]
        # Each followed call that no other one surrounds has a log of its own: there can be thousands of short ones.
        every = len(short_logs) // _MEASURED_SHORT_LOGS + 1
        return sum(map(_bytes_of, long_logs)) + every * sum(map(_bytes_of, short_logs[::every]))

    def rest(self) -> None:
        """Logs grow from nothing from now on."""
        self._rested = time.monotonic()

    def note_growth(self, waiting: int) -> None:
        """So many bytes have come since the last flush. A quiet time between two bursts does not make it forgotten."""
        seconds = max(time.monotonic() - self._rested, _SHORTEST_WAIT)
        self._growth = max(waiting / seconds, self._growth / 2)

    def note_flush(self, written: int, begun: float) -> None:
        """A flush of so many bytes, begun then by the monotonic clock, is over."""
        self.rest()
        self._flush_seconds = self._rested - begun
        if written > _WORTH_MEASURING:
            self._pace = self._flush_seconds / written

    def outgrows_memory(self, waiting: int) -> bool:
        """Whether too much would wait by the time these bytes are written, if the program went on meanwhile."""
        return waiting + self._growth * self._pace * waiting > self.most_bytes // 2

    def seconds_to_fill(self) -> float:
        """Until logs that grow as they did before hold half of what they may; not less than a thread can wait for."""
        return max(self.most_bytes / 2 / max(self._growth, 1.0), _SHORTEST_WAIT)

    def next_due(self, begun: int) -> int:
        """When the program waits for what comes after a flush that began then, in ns since 1970."""
        if is_ending():
            return 0  # what is recorded now is written at once
        longest = self._flush_seconds / _FLUSH_SHARE if self.in_child else self._interval + PATIENCE
        return begun + int(min(longest, 2 * self.seconds_to_fill()) * 1e9)


def _bytes_of(log: list[Any]) -> int:
    return len(log) * max(_ITEM_BYTES, _COPIES * mean_size(log))

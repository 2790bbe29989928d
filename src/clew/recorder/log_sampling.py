"""When changes happened: a thread looks at the lengths of logs, and the program pays nothing for it.

A change has no time of its own, because reading the clock costs more than appending to a log. What is known is that
it happened between the last look at which the log did not hold it yet and the first look at which it did.

There is no lock: a thread that the interpreter stops at its end would keep it for ever. Who takes pairs out of a log
makes `call.takes` odd meanwhile, and a look that sees it odd, or changed, counts for nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from clew import trouble

if TYPE_CHECKING:
    from .live_call import LiveCall

_INTERVAL: Final = 0.004  # seconds between looks. Beside a busy thread a look waits 5 ms longer for the interpreter
_IDLE_INTERVAL: Final = 0.01  # while no call is open
_SHARE: Final = 0.02  # of the time that looking may take where very many calls are open
_AT_ONCE: Final = 100_000  # nanoseconds between two readings of the clock that pass for one
_TRIES: Final = 5


class Sampler:
    """Looks at the logs of open calls, less often where that takes long."""

    def __init__(self, open_calls: Callable[[], list[LiveCall]]) -> None:
        self._open_calls = open_calls
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clew-sampler", daemon=True)
        with suppress(RuntimeError):  # none can be started: times are known less exactly
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1)

    def _run(self) -> None:
        try:
            interval = _INTERVAL
            while not self._stopped.wait(interval):
                interval = self._look()
        except Exception as error:
            trouble.failed(error, "looking at when values change")

    def _look(self) -> float:
        """Look at all logs; gives how long to wait until the next time."""
        begun, calls = time.monotonic(), self._open_calls()
        for call in calls:
            if call.sampled and not call.clocked:
                _note_length(call)
        return max(_INTERVAL, (time.monotonic() - begun) / _SHARE) if calls else _IDLE_INTERVAL


def _note_length(call: LiveCall) -> None:
    """Note how many pairs there have been in a log until now. Of equal counts the first and the last time suffice."""
    takes = call.takes
    begun = time.time_ns()
    pairs = call.taken_pairs + (len(call.log) >> 1)
    now = time.time_ns()
    if takes & 1 or takes != call.takes or now - begun > _AT_ONCE:  # else other threads ran between
        return
    samples = call.samples
    if samples is None:
        call.samples = [[pairs, now, now]]
    elif samples and samples[-1][0] == pairs:
        samples[-1][2] = now
    else:
        samples.append([pairs, now, now])


def pairs_now(call: LiveCall, clock: Callable[[], int]) -> tuple[int, int]:
    """How many pairs there are in a log, and when that was: if other threads ran between, it is done again."""
    for _ in range(_TRIES):
        begun, pairs, now = clock(), len(call.log) >> 1, clock()
        if now - begun <= _AT_ONCE:
            break
    return pairs, now


def looked_at(call: LiveCall, wanted: int, most: int) -> tuple[int, int]:
    """About as many pairs as wanted, of which it is known when there were no more; and when. 0 if there are none."""
    looks = [(pairs - call.taken_pairs, until) for pairs, _, until in list(call.samples or ())]
    fewer = [look for look in looks if 0 < look[0] <= wanted]
    more = [look for look in looks if wanted < look[0] <= most]
    before = max([until for pairs, until in looks if pairs == 0], default=call.drained_at)
    return max(fewer) if fewer else min(more, default=(0, before))


def take_pairs(call: LiveCall, count: int) -> tuple[list[object], list[int], list[tuple[int, int]]]:
    """Take so many values and sites out of a call's log; gives also how many of them there were when."""
    log, before = call.log, call.taken_pairs
    call.takes += 1
    values, sites = log[0 : 2 * count : 2], log[1 : 2 * count : 2]
    del log[: 2 * count]
    call.taken_pairs = until = before + count
    call.takes += 1
    samples = call.samples
    if samples is None:
        return values, sites, []
    call.samples = [sample for sample in samples if sample[0] > until or sample is samples[-1]]
    known = [(pairs - before, moment) for pairs, *times in samples if before <= pairs <= until for moment in times]
    return values, sites, known

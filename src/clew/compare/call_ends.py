"""How calls ended: an exception that only one run raised is a difference like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.compare.side import ERROR, OUT, Ints, Side

if TYPE_CHECKING:
    from clew.compare.call_pairs import CallPairs

NEVER = -1  # instead of an end time


def add_missing_error_rows(a: Side, b: Side, pairs: CallPairs) -> None:
    """Where only one of two paired calls raised, give the other a row that says it raised nothing.

    Iterations of a model are left out: exceptions do not pass through them.
    """
    called = ~a.is_tracer[a.function[pairs.a]]
    raised_a, raised_b = calls_that_raised(a)[pairs.a], calls_that_raised(b)[pairs.b]
    _add_rows_without_error(a, pairs.a[called & raised_b & ~raised_a])
    _add_rows_without_error(b, pairs.b[called & raised_a & ~raised_b])


def calls_that_raised(side: Side) -> npt.NDArray[np.bool_]:
    """By call: whether it ended with an exception."""
    raised = np.zeros(len(side), np.bool_)
    for shard, offset in zip(side.view.calls.shards, side.view.calls.offsets.tolist(), strict=False):
        places = shard.places(shard.finished.call[np.flatnonzero(shard.raised())])
        raised[side.pre[places[places >= 0] + offset]] = True
    return raised


def _end_times(side: Side, calls: Ints) -> Ints:
    """When these calls ended; NEVER for a call that still runs, or whose end was lost."""
    times = np.full(len(side), NEVER, np.int64)
    for shard, offset in zip(side.view.calls.shards, side.view.calls.offsets.tolist(), strict=False):
        places = shard.places(shard.finished.call)
        exists = places >= 0
        times[side.pre[places[exists] + offset]] = shard.finished.time[exists]
    return times[calls]


def _add_rows_without_error(side: Side, calls: Ints) -> None:
    if len(calls) == 0:
        return
    times = _end_times(side, calls)
    tokens = np.array([_error_token(side, call) for call in calls.tolist()], np.int64)
    compared = (times != NEVER) & (tokens != OUT)
    side.add_rows_without_error(calls[compared], tokens[compared], times[compared])


def _error_token(side: Side, number: int) -> int:
    call = side.call_object(number)
    if call is None or not side.is_selected(ERROR, call.module, call.function):
        return OUT
    return side.vocabularies.tokens.number(("output", ERROR))


class EndTimes:
    """When paired calls ended in both runs, by their caller in the second run."""

    def __init__(self, a: Side, b: Side, pairs: CallPairs) -> None:
        callers, end_b, end_a = b.parent[pairs.b], _end_times(b, pairs.b), _end_times(a, pairs.a)
        order = np.lexsort((end_b, callers))
        order = order[(end_b[order] != NEVER) & (end_a[order] != NEVER)]
        self._callers, self._end_b, self._end_a = callers[order], end_b[order], end_a[order]

    def last_end_before(self, caller: int, time: int) -> int:
        """Take the last call that `caller` of the second run had ended by `time`: when it ended in the first run."""
        begin, end = np.searchsorted(self._callers, [caller, caller + 1]).tolist()
        at = begin + int(np.searchsorted(self._end_b[begin:end], time, side="right"))
        return int(self._end_a[at - 1]) if at > begin else NEVER

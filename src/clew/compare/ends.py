"""How calls ended: where one run raised an exception and the other did not, that is a difference like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.compare.side import ERROR, OUT, Ints, Side

if TYPE_CHECKING:
    from clew.compare.calls import CallPairs

NEVER = -1  # in place of the time a call ended at


def even_out(a: Side, b: Side, pairs: CallPairs) -> None:
    """Where only one of two calls raised, the other gets a row that says it did not.

    Iterations of a model are left alone: an exception goes past them and not through them.
    """
    called = ~a.is_tracer[a.function[pairs.a]]
    raised = raising(a)[pairs.a], raising(b)[pairs.b]
    _add_quiet(a, pairs.a[called & raised[1] & ~raised[0]])
    _add_quiet(b, pairs.b[called & raised[0] & ~raised[1]])


def raising(side: Side) -> npt.NDArray[np.bool_]:
    """By call: whether it ended with an exception."""
    out = np.zeros(len(side), np.bool_)
    for shard, offset in zip(side.view.calls.shards, side.view.calls.offsets.tolist(), strict=False):
        places = shard.places(shard.finished.call[np.flatnonzero(shard.raised())])
        out[side.pre[places[places >= 0] + offset]] = True
    return out


def ended(side: Side, calls: Ints) -> Ints:
    """When these calls ended; NEVER for one that still goes on, or whose end was lost."""
    times = np.full(len(side), NEVER, np.int64)
    for shard, offset in zip(side.view.calls.shards, side.view.calls.offsets.tolist(), strict=False):
        places = shard.places(shard.finished.call)
        good = places >= 0
        times[side.pre[places[good] + offset]] = shard.finished.time[good]
    return times[calls]


def _add_quiet(side: Side, calls: Ints) -> None:
    if len(calls) == 0:
        return
    times = ended(side, calls)
    tokens = np.array([_token(side, call) for call in calls.tolist()], np.int64)
    good = (times != NEVER) & (tokens != OUT)
    side.add_errors(calls[good], tokens[good], times[good])


def _token(side: Side, call: int) -> int:
    found = side.call_object(call)
    if found is None or not side.wants(ERROR, found.module, found.function):
        return OUT
    return side.words.tokens.number(("output", ERROR))


class Calls:
    """When the calls that belong together ended, by the call around them in the second run."""

    def __init__(self, a: Side, b: Side, pairs: CallPairs) -> None:
        around, end_b, end_a = b.parent[pairs.b], ended(b, pairs.b), ended(a, pairs.a)
        order = np.lexsort((end_b, around))
        order = order[(end_b[order] != NEVER) & (end_a[order] != NEVER)]
        self._around, self._end_b, self._end_a = around[order], end_b[order], end_a[order]

    def over(self, call: int, time: int) -> int:
        """When the last call was over in the first run that `call` of the second had behind it at that time."""
        begin, end = np.searchsorted(self._around, [call, call + 1]).tolist()
        at = begin + int(np.searchsorted(self._end_b[begin:end], time, side="right"))
        return int(self._end_a[at - 1]) if at > begin else NEVER

"""From logs to columns: turns drained pairs (value, site) into the rows of one flush.

Two lanes. Numbers, the usual case, go through NumPy at some 40 ns a change; anything else through a plain loop.
Both drop what is no change: a name bound again to an equal value, judged exactly.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.records import DELETED, Kind, Value
from clew.store.flush import ChangeColumns
from clew.values import same_scalar

if TYPE_CHECKING:
    from clew.recorder.live import LiveCall
    from clew.recorder.plan import Plan, Thinning

UNSET: Any = object()  # no value yet
_EXACT_INT = 2**53
_KIND_OF = {float: Kind.FLOAT, int: Kind.INT, bool: Kind.BOOL, type(None): Kind.NONE, type(DELETED): Kind.DELETED}
_NUMBER_TYPES = frozenset([float, int, bool])
_LANE_MINIMUM = 64  # below this many rows the plain loop is quicker

Ints = npt.NDArray[np.int64]


class Chunk:
    """What was taken from one call's log at one moment."""

    __slots__ = ("call", "sites", "until", "values")

    def __init__(self, call: LiveCall, values: list[Any], sites: list[int], until: int) -> None:
        self.call = call
        self.values = values
        self.sites = sites
        self.until = until  # the moment of taking: the rows lie between the call's last drain and this

    def times(self) -> Ints:
        start = self.call.drained_at
        count = len(self.sites)
        step = max(self.until - start, 0) / count
        return start + ((np.arange(1, count + 1)) * step).astype(np.int64)


def take(call: LiveCall, now: int) -> Chunk | None:
    """Empty a call's log, whole pairs only. Another thread may be appending."""
    log = call.log
    count = len(log) & ~1
    if not count:
        return None
    pairs = log[:count]
    del log[:count]
    return Chunk(call, pairs[0::2], pairs[1::2], call.ended or now)


class Rows:
    """The rows of a flush, gathered chunk by chunk."""

    def __init__(self) -> None:
        self.blocks: list[tuple[Any, ...]] = []  # columns: call, site, time, kind, number, value id
        self.values: list[tuple[int, Any, Plan, int]] = []  # id, Value or scalar without a column, plan, index
        self.sites: set[int] = set()

    def add(self, chunk: Chunk, next_value_id: Iterator[int]) -> None:
        call = chunk.call
        if call.last is None:
            call.last = [UNSET] * call.plan.width
        block = None
        if len(chunk.sites) >= _LANE_MINIMUM and call.plan.dedupe:
            block = _number_lane(chunk)
        if block is None:
            block = self._plain_lane(chunk, next_value_id)
        call.drained_at = chunk.until
        if len(block[0]):
            self.sites.update(np.unique(block[1]).tolist())
            self.blocks.append(block)

    def _plain_lane(self, chunk: Chunk, next_value_id: Iterator[int]) -> tuple[Any, ...]:
        call, plan = chunk.call, chunk.call.plan
        last = call.last
        assert last is not None
        rows: list[tuple[int, int, int, float, int]] = []
        times = chunk.times().tolist()
        for value, site, time in zip(chunk.values, chunk.sites, times, strict=True):
            index = (site - plan.base) % plan.width
            if plan.dedupe and _same(last[index], value):
                continue
            last[index] = value
            if plan.ignored[(site - plan.base) // plan.width]:
                continue
            row = (site, time, *self._cell(value, plan, index, next_value_id))
            thinning = plan.watched[index].thinning
            if thinning is None or _passes(call, index, thinning, row):
                rows.append(row)
        return _block(call.id, rows)

    def _cell(self, value: Any, plan: Plan, index: int, next_value_id: Iterator[int]) -> tuple[int, float, int]:
        kind = _KIND_OF.get(type(value), Kind.VALUE)
        if kind is Kind.INT and not -_EXACT_INT <= value <= _EXACT_INT:
            kind = Kind.VALUE
        if kind is not Kind.VALUE:
            return kind, float(value) if type(value) in _NUMBER_TYPES else 0.0, -1
        number = next(next_value_id)
        self.values.append((number, value, plan, index))
        return kind, 0.0, number

    def release_held(self, call: LiveCall) -> None:
        """The call is over: write the last n changes of the names that wanted only those."""
        if call.held:
            rows = sorted((row for queue in call.held.values() for row in queue), key=lambda row: row[1])
            block = _block(call.id, rows)
            self.sites.update(np.unique(block[1]).tolist())
            self.blocks.append(block)
            call.held = None

    def columns(self) -> ChangeColumns | None:
        """All rows as one set of columns; None if there is none."""
        if not self.blocks:
            return None
        if len(self.blocks) == 1:
            return ChangeColumns(*self.blocks[0])
        return ChangeColumns(*(np.concatenate([block[i] for block in self.blocks]) for i in range(6)))


def _same(before: Any, now: Any) -> bool:
    """Exactly equal, for what can stand in a log."""
    if type(before) is not type(now):
        return False
    if type(now) is Value:
        return bool(before.digest) and before.digest == now.digest
    return before is now or same_scalar(before, now)


def _block(call_id: int, rows: list[tuple[int, int, int, float, int]]) -> tuple[Any, ...]:
    count = len(rows)
    sites, times, kinds, numbers, ids = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return (
        np.full(count, call_id, np.int64),
        np.array(sites, np.int32),
        np.array(times, np.int64),
        np.array(kinds, np.uint8),
        np.array(numbers, np.float64),
        np.array(ids, np.int64),
    )


def _passes(call: LiveCall, index: int, thinning: Thinning, row: tuple[Any, ...]) -> bool:
    """Whether a change is among those asked for; the last n wait in the call until it ends."""
    counts = call.kept_counts = call.kept_counts or {}
    number = counts.get(index, 0)
    counts[index] = number + 1
    if number % thinning.every:
        return False
    place = number // thinning.every
    if thinning.first is not None and place < thinning.first:
        return True
    if thinning.last is not None:
        held = call.held = call.held or {}
        held.setdefault(index, deque(maxlen=thinning.last)).append(row)
        return False
    return thinning.first is None


# ---- the number lane -------------------------------------------------------------------------------------------------


def _number_lane(chunk: Chunk) -> tuple[Any, ...] | None:
    """The rows of a chunk that holds numbers only, by NumPy; None if it holds anything else."""
    call, plan = chunk.call, chunk.call.plan
    if any(w.thinning is not None for w in plan.watched):
        return None
    converted = _numbers(chunk.values)
    if converted is None:
        return None
    kinds, numbers = converted
    sites = np.frombuffer(array("i", chunk.sites), np.int32)
    keep = _changed(chunk, sites, kinds, numbers)
    if True in plan.ignored:
        keep &= ~np.array(plan.ignored)[(sites - plan.base) // plan.width]
    columns = (sites, chunk.times(), kinds, numbers)
    if not keep.all():
        columns = tuple(column[keep] for column in columns)
    count = len(columns[0])
    return (np.full(count, call.id, np.int64), *columns, np.full(count, -1, np.int64))


def _numbers(values: list[Any]) -> tuple[Any, Any] | None:
    """Kinds and numbers, or None when something does not fit into a float64 exactly."""
    types = set(map(type, values))
    if not types <= _NUMBER_TYPES:
        return None
    try:
        numbers = np.frombuffer(array("d", values), np.float64)
    except OverflowError:
        return None
    only = types.pop() if len(types) == 1 else None
    if only is not None:
        kinds = np.full(len(values), _KIND_OF[only], np.uint8)
    else:
        kinds = np.frombuffer(bytes(map(_KIND_OF.__getitem__, map(type, values))), np.uint8)
    whole = numbers if only is int else numbers[kinds == Kind.INT] if only is None else numbers[:0]
    if len(whole) and np.abs(whole).max() >= _EXACT_INT:
        return None
    return kinds, numbers


def _changed(chunk: Chunk, sites: Any, kinds: Any, numbers: Any) -> npt.NDArray[np.bool_]:
    """Which rows differ from the row before of the same name, bit for bit, all NaN being one value."""
    plan, last = chunk.call.plan, chunk.call.last
    assert last is not None
    bits = numbers.view(np.int64)
    nan = np.isnan(numbers)
    if nan.any():
        bits = bits.copy()
        bits[nan] = 0x7FF8000000000000
    one_kind = bool((kinds == kinds[0]).all())
    keep = np.empty(len(sites), np.bool_)
    which = (sites - plan.base) % plan.width if plan.width > 1 else None
    for index in range(plan.width):
        rows = slice(None) if which is None else np.flatnonzero(which == index)
        own = bits[rows]
        if not len(own):
            continue
        differs = np.empty(len(own), np.bool_)
        np.not_equal(own[1:], own[:-1], out=differs[1:])
        if not one_kind:
            own_kinds = kinds[rows]
            differs[1:] |= own_kinds[1:] != own_kinds[:-1]
        first, final = (0, len(own) - 1) if which is None else (int(rows[0]), int(rows[-1]))
        differs[0] = not _same(last[index], chunk.values[first])
        last[index] = chunk.values[final]
        keep[rows] = differs
    return keep

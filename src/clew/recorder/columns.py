"""From logs to columns: turns drained pairs (value, site) into the rows of one flush.

Two lanes. Numbers, the usual case, go through NumPy at some 30 ns a change; anything else through a plain loop.
Both drop what is no change: a name bound again to an equal value, judged exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.records import DELETED, Kind, Value
from clew.store.flush import ChangeColumns
from clew.values import same_scalar

from . import numbers

if TYPE_CHECKING:
    from clew.recorder.live import LiveCall
    from clew.recorder.plan import Plan, Thinning

UNSET: Any = object()  # no value yet
_EXACT_INT = 2**53
_KIND_OF = {float: Kind.FLOAT, int: Kind.INT, bool: Kind.BOOL, type(None): Kind.NONE, type(DELETED): Kind.DELETED}
_NUMBER_TYPES = frozenset([float, int, bool])
_TYPE_OF = {Kind.FLOAT: float, Kind.INT: int, Kind.BOOL: bool, Kind.NONE: lambda number: None}
_FEW_NAMES = 8  # up to this many names, looking for each one's rows is quicker than sorting
_PACKED_FROM = 64  # below this many rows the plain loop is quicker

Ints = npt.NDArray[np.int64]


class Chunk:
    """What was taken from one call's log at one moment: packed if it is all numbers, as far as one can see."""

    __slots__ = ("call", "packed", "sites", "until", "values")

    def __init__(self, call: LiveCall, values: list[Any], sites: list[int], until: int) -> None:
        self.call = call
        self.until = until  # the moment of taking: the rows lie between the call's last drain and this
        self.sites = sites
        self.values = values
        self.packed: tuple[bytes, bytes] | None = None
        if len(sites) >= _PACKED_FROM and _is_number(values[0]) and _is_number(values[-1]) and _may_pack(call.plan):
            self._pack()

    def _pack(self) -> None:
        """The objects go at once, so that the program gets their memory back while it is still in the cache."""
        packed = numbers.pack(self.values)
        if packed is not None:
            self.packed = packed, numbers.pack(self.sites) or b""
            self.sites = self.values = []

    def unpack(self) -> None:
        if self.packed is not None:
            self.values, self.sites = map(numbers.unpack, self.packed)

    def times(self, count: int) -> Ints:
        start = self.call.drained_at
        step = max(self.until - start, 0) / count
        return start + (np.arange(1, count + 1) * step).astype(np.int64)


def _is_number(value: Any) -> bool:
    return value is None or type(value) in _NUMBER_TYPES


def _may_pack(plan: Plan) -> bool:
    return plan.dedupe and all(watched.thinning is None for watched in plan.watched)


def take(call: LiveCall, now: int) -> Chunk | None:
    """Empty a call's log, whole pairs only. Another thread may be appending."""
    log = call.log
    count = len(log) & ~1
    if not count:
        return None
    values, sites = log[0:count:2], log[1:count:2]
    del log[:count]
    return Chunk(call, values, sites, call.ended or now)


class Rows:
    """The rows of a flush, gathered chunk by chunk."""

    def __init__(self) -> None:
        self.blocks: list[tuple[Any, ...]] = []  # columns: call, site, time, kind, number, value id
        self.values: list[tuple[int, Any, Plan, int]] = []  # id, Value or scalar without a column, plan, index
        self.sites: set[int] = set()
        self.count = 0

    def add(self, chunk: Chunk, next_value_id: Iterator[int]) -> None:
        call = chunk.call
        if call.last is None:
            call.last = [UNSET] * call.plan.width
        block = _number_lane(chunk)
        if block is None:
            chunk.unpack()
            block = self._plain_lane(chunk, next_value_id)
        call.drained_at = chunk.until
        self._keep(block)

    def _keep(self, block: tuple[Any, ...]) -> None:
        sites = block[1]
        if len(sites):
            first = int(sites.min())
            self.sites.update((np.flatnonzero(np.bincount(sites - first)) + first).tolist())
            self.blocks.append(block)
            self.count += len(sites)

    def _plain_lane(self, chunk: Chunk, next_value_id: Iterator[int]) -> tuple[Any, ...]:
        call, plan = chunk.call, chunk.call.plan
        last = call.last
        assert last is not None
        rows: list[tuple[int, int, int, float, int]] = []
        times = chunk.times(len(chunk.sites)).tolist()
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
            self._keep(_block(call.id, rows))
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
    """The rows of a packed chunk, by NumPy; None if it is not packed, or does not hold numbers only."""
    if chunk.packed is None:
        return None
    call, plan = chunk.call, chunk.call.plan
    sites = numbers.sites_of(chunk.packed[1])
    converted = numbers.columns_of(chunk.packed[0], sites)
    if converted is None:
        return None
    kinds, values = converted
    keep = _changed(call, sites, kinds, values)
    if True in plan.ignored:
        keep &= ~np.array(plan.ignored)[(sites - plan.base) // plan.width]
    columns: tuple[Any, ...] = (sites, chunk.times(len(sites)), kinds, values)
    if not keep.all():
        columns = tuple(column[keep] for column in columns)
    count = len(columns[0])
    return (np.full(count, call.id, np.int64), *columns, np.full(count, -1, np.int64))


def _changed(call: LiveCall, sites: Any, kinds: Any, values: Any) -> npt.NDArray[np.bool_]:
    """Which rows differ from the row before of the same name, bit for bit, all NaN being one value."""
    plan = call.plan
    bits = values.view(np.int64)
    nan = np.isnan(values)
    if nan.any():
        bits = np.where(nan, np.float64("nan").view(np.int64), bits)
    keep = np.empty(len(sites), np.bool_)
    for index, rows in _rows_by_name((sites - plan.base) % plan.width, plan.width):
        own, own_kinds = bits[rows], kinds[rows]
        differs = np.empty(len(own), np.bool_)
        np.not_equal(own[1:], own[:-1], out=differs[1:])
        differs[1:] |= own_kinds[1:] != own_kinds[:-1]
        differs[0] = not _same(call.last[index], _object(own_kinds[0], values[rows][0]))  # type: ignore[index]
        call.last[index] = _object(own_kinds[-1], values[rows][-1])  # type: ignore[index]
        keep[rows] = differs
    return keep


def _rows_by_name(index: Any, width: int) -> Iterator[tuple[int, Any]]:
    """For each name that has rows: which they are, in order."""
    if width == 1:
        yield 0, slice(None)
    elif width <= _FEW_NAMES:
        for name in range(width):
            rows = np.flatnonzero(index == name)
            if len(rows):
                yield name, rows
    else:
        order = np.argsort(index.astype(np.uint16) if width < 2**16 else index, kind="stable")
        counts = np.bincount(index, minlength=width)
        ends = np.cumsum(counts)
        for name in np.flatnonzero(counts).tolist():
            yield name, order[ends[name] - counts[name] : ends[name]]


def _object(kind: int, number: float) -> Any:
    """The object a cell of the number lane was."""
    return _TYPE_OF[kind](number)

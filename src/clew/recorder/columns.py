"""From logs to columns: turns drained pairs (value, site) into the rows of one flush.

Two lanes. Numbers, the usual case, go through NumPy at some 30 ns a change; anything else through a plain loop.
Both drop what is no change: a name bound again to an equal value, judged exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.records import DELETED, Kind, Value
from clew.store.flush import ChangeColumns
from clew.store.format import NO_ID
from clew.values import same_scalar

from . import numbers

if TYPE_CHECKING:
    from clew.recorder.live import LiveCall
    from clew.recorder.plan import Plan, Thinning

UNSET: Any = object()  # no value yet
_EXACT_INT = 2**53
_SHORT_TEXT = 4096
# plain integers: looking at an enumeration's members is slow, and these are looked at for every row
_VALUE, _INT = int(Kind.VALUE), int(Kind.INT)
_NUMBERS = frozenset(map(int, (Kind.FLOAT, Kind.INT, Kind.BOOL)))
_KIND_OF = {
    float: int(Kind.FLOAT),
    int: int(Kind.INT),
    bool: int(Kind.BOOL),
    type(None): int(Kind.NONE),
    type(DELETED): int(Kind.DELETED),
}
_NUMBER_TYPES = frozenset([float, int, bool])
_OBJECT_OF: dict[int, Callable[[float], Any]] = {
    Kind.FLOAT: float, Kind.INT: int, Kind.BOOL: bool, Kind.NONE: lambda number: None,
}  # fmt: skip
_FEW_NAMES = 8  # up to this many names, looking for each one's rows is quicker than sorting
_PACKED_FROM = 64  # below this many rows the plain loop is quicker

Ints = npt.NDArray[np.int64]


class Chunk:
    """What was taken from one call's log, in one go or several: packed if it is all numbers, as far as one can see."""

    __slots__ = ("call", "marks", "packed", "sites", "values")

    def __init__(self, call: LiveCall, values: list[Any], sites: list[int], until: int) -> None:
        self.call = call
        self.marks = [
            (len(sites), until)
        ]  # how many rows were taken when: they lie between this mark and the one before
        self.sites = sites
        self.values = values
        self.packed: list[tuple[numbers.Packed, npt.NDArray[Any]]] = []
        if len(sites) >= _PACKED_FROM and _is_number(values[0]) and _is_number(values[-1]) and _may_pack(call.plan):
            self._pack()

    def _pack(self) -> None:
        """The objects go at once, so that the program gets their memory back while it is still in the cache."""
        packed = numbers.pack(self.values)
        if packed is not None:
            self.packed = [(packed, numbers.pack_sites(self.sites))]
            self.sites = self.values = []

    def join(self, later: Chunk) -> bool:
        """Take up what was taken later, if both are packed: a hundred small steps of NumPy cost more than one large."""
        if later.call is not self.call or not (self.packed and later.packed):
            return False
        self.packed += later.packed
        self.marks += later.marks
        return True

    def columns(self) -> tuple[numbers.Packed, Any]:
        """What is packed, in one piece, and the column of sites."""
        if len(self.packed) > 1:
            values, sites = zip(*self.packed, strict=True)
            self.packed = [(memoryview(b"".join(values)), np.concatenate(sites))]
        return self.packed[0][0], self.packed[0][1].astype(np.int32)

    def unpack(self) -> None:
        for values, sites in self.packed:
            self.values = [*self.values, *numbers.unpack(values, len(sites))]
            self.sites = [*self.sites, *sites.tolist()]

    def times(self) -> Ints:
        """When each row may have been: evenly spread between the moments of taking."""
        start, pieces = self.call.drained_at, []
        for count, until in self.marks:
            step = max(until - start, 0) // count
            pieces.append(np.arange(start + step, start + step * count + 1, step) if step else np.full(count, start))
            start = max(start, until)
        return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]


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


def joined(chunks: Iterable[Chunk]) -> list[Chunk]:
    """As few chunks as there can be; those of one call stay in order."""
    result: list[Chunk] = []
    latest: dict[int, Chunk] = {}
    for chunk in chunks:
        before = latest.get(chunk.call.id)
        if before is None or not before.join(chunk):
            latest[chunk.call.id] = chunk
            result.append(chunk)
    return result


class Rows:
    """The rows of a flush, gathered chunk by chunk."""

    def __init__(self, value_ids: Iterator[int]) -> None:
        self.blocks: list[tuple[Any, ...]] = []  # columns: call, site, time, kind, number, value id
        self.values: list[tuple[int, Any, Plan, int]] = []  # id, Value or scalar without a column, plan, index
        self.texts: list[str] = []  # short ones, beside `values`
        self.text_ids: list[int] = []
        self.sites: set[int] = set()
        self.count = 0
        self._value_ids = value_ids

    def add(self, chunk: Chunk) -> None:
        call = chunk.call
        if call.last is None:
            call.last = [UNSET] * call.plan.width
        block = _number_lane(chunk)
        if block is None:
            chunk.unpack()
            block = self._plain_lane(chunk)
        call.drained_at = chunk.marks[-1][1]
        self._keep(block)

    def _keep(self, block: tuple[Any, ...]) -> None:
        sites = block[1]
        if len(sites):
            first = int(sites.min())
            seen = np.zeros(int(sites.max()) - first + 1, np.bool_)
            seen[sites - first] = True
            self.sites.update((np.flatnonzero(seen) + first).tolist())
            self.blocks.append(block)
            self.count += len(sites)

    def _plain_lane(self, chunk: Chunk) -> tuple[Any, ...]:
        call, plan = chunk.call, chunk.call.plan
        sites = np.array(chunk.sites, np.int32)
        times = chunk.times()
        rows = _changed_rows(call, chunk.values, ((sites - plan.base) % plan.width).tolist())
        if True in plan.ignored:
            rows = rows[~np.array(plan.ignored)[(sites[rows] - plan.base) // plan.width]]
        if any(watched.thinning is not None for watched in plan.watched):
            rows = _thinned(call, rows, sites, times, chunk.values)
        return self._block(call, sites[rows], times[rows], [chunk.values[row] for row in rows.tolist()])

    def release_held(self, call: LiveCall) -> None:
        """The call is over: write the last n changes of the names that wanted only those."""
        if call.held:
            held = sorted((row for queue in call.held.values() for row in queue), key=lambda row: row[1])
            sites, times, values = zip(*held, strict=True)
            self._keep(self._block(call, np.array(sites, np.int32), np.array(times, np.int64), values))
            call.held = None

    def _block(self, call: LiveCall, sites: Any, times: Ints, values: Sequence[Any]) -> tuple[Any, ...]:
        """The columns of these changes; what has no place in a number goes to the values or texts."""
        plan, next_id = call.plan, self._value_ids.__next__
        kinds, cells, ids = bytearray(), [], []
        for site, value in zip(sites.tolist(), values, strict=True):
            kind = _KIND_OF.get(type(value), _VALUE)
            number, id = 0.0, NO_ID
            if kind in _NUMBERS and (kind != _INT or -_EXACT_INT <= value <= _EXACT_INT):
                number = float(value)
            elif kind in (_VALUE, _INT):
                kind, id = _VALUE, next_id()
                if type(value) is str and len(value) < _SHORT_TEXT and value.isascii():
                    self.texts.append(value)
                    self.text_ids.append(id)
                else:
                    self.values.append((id, value, plan, (site - plan.base) % plan.width))
            kinds.append(kind)
            cells.append(number)
            ids.append(id)
        return (
            np.full(len(ids), call.id, np.int64),
            sites,
            times,
            np.frombuffer(kinds, np.uint8),
            np.array(cells, np.float64),
            np.array(ids, np.int64),
        )

    def columns(self) -> ChangeColumns | None:
        """All rows as one set of columns; None if there is none."""
        if not self.blocks:
            return None
        if len(self.blocks) == 1:
            return ChangeColumns(*self.blocks[0])
        return ChangeColumns(*(np.concatenate([block[i] for block in self.blocks]) for i in range(6)))


def _changed_rows(call: LiveCall, values: list[Any], names: list[int]) -> Ints:
    """Which rows differ from the row before of the same name."""
    last, dedupe = call.last, call.plan.dedupe
    assert last is not None
    rows = []
    for row, (value, name) in enumerate(zip(values, names, strict=True)):
        if dedupe and _same(last[name], value):
            continue
        last[name] = value
        rows.append(row)
    return np.array(rows, np.int64)


def _same(before: Any, now: Any) -> bool:
    """Exactly equal, for what can stand in a log."""
    if before is now:
        return True
    kind = type(now)
    if type(before) is not kind:
        return False
    if kind is Value:
        return bool(before.digest) and bool(before.digest == now.digest)
    if kind is int or kind is str or (kind is float and now):  # of zeros there are two
        return bool(before == now) or (now != now and before != before)
    return same_scalar(before, now)


def _thinned(call: LiveCall, rows: Ints, sites: Any, times: Ints, values: list[Any]) -> Ints:
    """The rows of those that are among the changes asked for; the last n wait in the call until it ends."""
    plan = call.plan
    passed = []
    for row in rows.tolist():
        site = int(sites[row])
        index = (site - plan.base) % plan.width
        thinning = plan.watched[index].thinning
        if thinning is None or _passes(call, index, thinning, (site, int(times[row]), values[row])):
            passed.append(row)
    return np.array(passed, np.int64)


def _passes(call: LiveCall, index: int, thinning: Thinning, change: tuple[int, int, Any]) -> bool:
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
        held.setdefault(index, deque(maxlen=thinning.last)).append(change)
        return False
    return thinning.first is None


# ---- the number lane -------------------------------------------------------------------------------------------------


def _number_lane(chunk: Chunk) -> tuple[Any, ...] | None:
    """The rows of a packed chunk, by NumPy; None if it is not packed, or does not hold numbers only."""
    if not chunk.packed:
        return None
    call, plan = chunk.call, chunk.call.plan
    packed, sites = chunk.columns()
    converted = numbers.columns_of(packed, sites)
    if converted is None:
        return None
    kinds, values = converted
    keep = _changed(call, sites, kinds, values)
    if True in plan.ignored:
        keep &= ~np.array(plan.ignored)[(sites - plan.base) // plan.width]
    columns: tuple[Any, ...] = (sites, chunk.times(), kinds, values)
    if not keep.all():
        columns = tuple(column[keep] for column in columns)
    count = len(columns[0])
    return (np.full(count, call.id, np.int64), *columns, np.full(count, NO_ID, np.int64))


def _changed(call: LiveCall, sites: Any, kinds: Any, values: Any) -> npt.NDArray[np.bool_]:
    """Which rows differ from the row before of the same name, bit for bit, all NaN being one value."""
    plan, last = call.plan, call.last
    assert last is not None
    bits = values.view(np.int64)
    nan = np.isnan(values)
    if nan.any():
        bits = np.where(nan, np.float64("nan").view(np.int64), bits)
    keep = np.empty(len(sites), np.bool_)
    one_kind = bool((kinds == kinds[0]).all())
    for index, rows in _rows_by_name(sites, plan):
        own = bits[rows]
        differs = np.empty(len(own), np.bool_)
        np.not_equal(own[1:], own[:-1], out=differs[1:])
        if not one_kind:
            differs[1:] |= kinds[rows[1:]] != kinds[rows[:-1]]
        first, final = rows[0], rows[-1]
        differs[0] = not _same(last[index], _object(kinds[first], values[first]))
        last[index] = _object(kinds[final], values[final])
        keep[rows] = differs
    return keep


def _rows_by_name(sites: Any, plan: Plan) -> Iterator[tuple[int, Ints]]:
    """For each name that has rows: which they are, in order."""
    width = plan.width
    if width == 1:
        yield 0, np.arange(len(sites))
        return
    index = (sites - plan.base) % width
    if width <= _FEW_NAMES:
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
    return _OBJECT_OF[int(kind)](number)

"""From logs to columns: turns drained pairs (value, site) into the rows of one flush.

Two lanes. Numbers, the usual case, go through NumPy (number_logs.py); anything else through a plain loop. Both drop
what is no change: a name bound again to an equal value, judged exactly.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from time import time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.store.flush import ChangeColumns, Span
from clew.values import Unlooked

from . import packed_numbers
from .event_marks import items_at_once
from .live_call import MOMENT
from .log_sampling import looked_at, pairs_now, take_pairs
from .number_logs import UNSET, Block, Ints, distinct, number_lane, same
from .value_cells import VALUE, Kinds, Numbers, cells_of

if TYPE_CHECKING:
    from clew.recorder.live_call import LiveCall
    from clew.recorder.plan import Thinning

_SHORT_TEXT = 4096
_LARGE_SCALARS = frozenset([str, bytes, int])
_NUMBER_TYPES = frozenset([float, int, bool])
Marks = list[tuple[int, int]]
_LONGER_PIECE = 4  # times as long may a piece be, to end where it is known when that was
_PACKED_FROM = 64  # below this many rows the plain loop is quicker


class Chunk:
    """What was taken from one call's log, in one go or several: packed if it is all numbers, as far as one can see."""

    __slots__ = ("call", "marks", "packed", "sites", "values")

    def __init__(self, call: LiveCall, values: list[Any], sites: list[int], marks: Marks) -> None:
        self.call = call
        self.marks = marks  # so many rows lie between the time of this mark and that of the one before
        self.sites = sites
        self.values = values
        self.packed: list[tuple[packed_numbers.Packed, packed_numbers.PackedSites]] = []
        if len(sites) >= _PACKED_FROM and _is_number(values[0]) and _is_number(values[-1]) and _may_pack(call):
            self._pack()

    def __len__(self) -> int:
        return sum(count for count, _ in self.marks)

    def _pack(self) -> None:
        """The objects go at once, so that the program gets their memory back while it is still in the cache."""
        packed = packed_numbers.pack(self.values)
        if packed is not None:
            self.packed = [(packed, packed_numbers.pack_sites(self.sites))]
            self.sites = self.values = []

    def join(self, later: Chunk) -> bool:
        """Take up what was taken later, if both are packed: a hundred small steps of NumPy cost more than one large."""
        if later.call is not self.call or not (self.packed and later.packed):
            return False
        self.packed += later.packed
        self.marks += later.marks
        return True

    def unpack(self) -> None:
        for values, sites in self.packed:
            column = sites.column()
            self.values = [*self.values, *packed_numbers.unpack(values, len(column))]
            self.sites = [*self.sites, *column.tolist()]

    def times(self) -> Ints:
        """When each row may have been: evenly spread between the moments of taking."""
        start, pieces = self.call.drained_at, []
        for count, until in self.marks:
            step = max(until - start, 0) // max(count, 1)
            if count:
                ends = start + step * count + 1
                pieces.append(np.arange(start + step, ends, step) if step else np.full(count, start))
            start = max(start, until)
        return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]

    def spans(self, rows: Ints | None = None) -> list[Span]:
        """Whose the changes are and when they were; of these rows alone, if not of all."""
        start, begin, spans = self.call.drained_at, 0, []
        ends = None if rows is None else np.searchsorted(rows, np.cumsum([count for count, _ in self.marks])).tolist()
        for place, (count, until) in enumerate(self.marks):
            stop = max(start, until)
            if ends is not None:
                count, begin = ends[place] - begin, ends[place]
            if count:
                spans.append(Span(count, self.call.id, start, stop))
            start = stop
        return spans


def _is_number(value: Any) -> bool:
    return value is None or type(value) in _NUMBER_TYPES


def _may_pack(call: LiveCall) -> bool:
    plan = call.plan
    return plan.dedupe and not call.clocked and all(watched.thinning is None for watched in plan.watched)


def pieces(call: LiveCall, clock: Callable[[], int] = time_ns) -> Iterator[Chunk]:
    """Take what is in a call's log now, in pieces that memory allows: mostly it is one.

    Another thread may be appending. What it appends is left for the next flush, which would never end otherwise.
    """
    left, now = pairs_now(call, clock)
    now = call.ended or now
    while left:
        count, until = min(left, items_at_once(call.log, sys.maxsize) // 2 or 1), now
        if count < left:  # a piece ends where it is known when the next one begins
            known, moment = looked_at(call, count, min(left, _LONGER_PIECE * count))
            if known:
                count, until = known, moment
            elif left <= _LONGER_PIECE * count:
                count = left
            else:
                until = _between(call, moment, now, count, left)
        left -= count
        yield _take(call, count, until)


def take(call: LiveCall, clock: Callable[[], int] = time_ns) -> Chunk | None:
    """The first of these pieces."""
    return next(pieces(call, clock), None)


def _between(call: LiveCall, before: int, now: int, count: int, left: int) -> int:
    """When there may have been so many pairs of those that are left: no look says it, because they are large."""
    before = max(before, call.taken_until)
    return before + (now - before) * count // left


def _take(call: LiveCall, count: int, until: int) -> Chunk:
    """Take so many pairs of a value and a site out of a call's log, which were there by then."""
    values, sites, known = take_pairs(call, count)
    if call.timed:
        values, sites, known = _without_moments(values, sites, known)
    if not call.sampled:  # what has happened by now may come later, with the time at which it happened
        until = known[-1][1] if known else call.drained_at
    marks = _marks(len(sites), known, until)
    call.taken_until = marks[-1][1]
    return Chunk(call, values, sites, marks)


def _without_moments(values: list[Any], sites: list[int], known: Marks) -> tuple[list[Any], list[int], Marks]:
    """The rows, and how many of them there were at each moment that stood between them and at those known otherwise."""
    is_moment = np.array(sites) == MOMENT
    at = np.flatnonzero(is_moment)
    times = [values[place] for place in at.tolist()]
    counts = (at - np.arange(len(at))).tolist()
    moments_before = np.searchsorted(at, [pairs for pairs, _ in known]).tolist()
    sampled = [(pairs - moments, time) for (pairs, time), moments in zip(known, moments_before, strict=True)]
    is_row = ~is_moment
    known = sorted([*zip(counts, times, strict=True), *sampled])
    return list(compress(values, is_row)), list(compress(sites, is_row)), known


def _marks(rows: int, known: Marks, until: int) -> Marks:
    """How many rows there were between one known time and the next."""
    marks: Marks = []
    before = 0
    for count, time in known:
        _mark(marks, count - before, min(time, until))
        before = count
    _mark(marks, rows - before, until)
    return marks


def _mark(marks: Marks, count: int, until: int) -> None:
    if count == 0 and marks and marks[-1][0] == 0:
        marks.pop()  # of moments with nothing between them the last says it all
    marks.append((count, until))


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

    def __init__(self, value_ids: Iterator[int], marker_ids: dict[str, int] | None = None) -> None:
        self.blocks: list[Block] = []
        self.spans: list[Span] = []
        self.values: list[tuple[int, Any, int]] = []  # id, Value or scalar without a column, site
        self.texts: list[str] = []  # short ones, beside `values`
        self.text_ids: list[int] = []
        self.sites: set[int] = set()
        self.count = 0
        self.large_bytes = 0  # of long texts and large integers among `values`
        self._value_ids = value_ids
        self._marker_ids = {} if marker_ids is None else marker_ids  # by type: see values/type_markers.py
        self._more_spans: list[tuple[npt.NDArray[np.int64], ...]] = []

    def add(self, chunk: Chunk) -> None:
        call = chunk.call
        if not len(chunk):
            call.drained_at = max(call.drained_at, chunk.marks[-1][1])
            return
        if call.last is None:
            call.last = [UNSET] * call.plan.width
        found = number_lane(call, chunk.packed) if chunk.packed else None
        if found is None:
            chunk.unpack()
            self._plain_lane(chunk)
        else:
            self._keep(found.block, chunk.spans(found.rows), found.sites)
        call.drained_at = max(call.drained_at, chunk.marks[-1][1])

    def keep_call(self, call: LiveCall, sites: list[int], values: Sequence[Any], time: int) -> None:
        """Arguments or the result of a call."""
        self._keep_objects(np.array(sites, np.int32), values, [Span(len(sites), call.id, time, time)])

    def keep_many(
        self,
        sites: npt.NDArray[np.int32],
        values: list[Any],
        spans: tuple[npt.NDArray[np.int64], ...],
        cells: tuple[Kinds, Numbers] | None = None,
    ) -> None:
        """Rows of many calls, with their spans as columns. After all others of a flush."""
        self._keep_objects(sites, values, [], cells)
        self._more_spans.append(spans)

    def _keep(self, block: Block, spans: list[Span], sites: Iterable[int]) -> None:
        if len(block.sites):
            self.sites.update(sites)
            self.blocks.append(block)
            self.spans += spans
            self.count += len(block.sites)

    def _plain_lane(self, chunk: Chunk) -> None:
        call, plan = chunk.call, chunk.call.plan
        if call.clocked:
            self._timed_lane(chunk)
            return
        sites = np.array(chunk.sites, np.int32)
        rows = _changed_rows(call, chunk.values, ((sites - plan.base) % plan.width).tolist())
        if True in plan.ignored:
            rows = rows[~np.array(plan.ignored)[(sites[rows] - plan.base) // plan.width]]
        if any(watched.thinning is not None for watched in plan.watched):
            times = chunk.times()
            rows = _thinned(call, rows, sites, times, chunk.values)
            spans = _moments(call, times[rows].tolist())  # exact, because some that are held back come between them
        else:
            spans = chunk.spans(rows)
        self._keep_objects(sites[rows], [chunk.values[row] for row in rows.tolist()], spans)

    def _timed_lane(self, chunk: Chunk) -> None:
        """Changes of a followed call: each was judged already, and before it stands when it was."""
        call, plan = chunk.call, chunk.call.plan
        clock_site, time = plan.site(0, plan.clock_index), call.clock
        sites, values, times = [], [], []
        for site, value in zip(chunk.sites, chunk.values, strict=True):
            if site == clock_site:
                time = value
            elif not plan.ignored[(site - plan.base) // plan.width]:
                sites.append(site)
                values.append(value)
                times.append(time)
        call.clock = time
        self._keep_objects(np.array(sites, np.int32), values, _moments(call, times))

    def release_held(self, call: LiveCall) -> None:
        """The call is over: write the last n changes of the names that wanted only those."""
        if call.held:
            held = sorted((row for queue in call.held.values() for row in queue), key=lambda row: row[1])
            sites, times, values = zip(*held, strict=True)
            self._keep_objects(np.array(sites, np.int32), values, _moments(call, times))
            call.held = None

    def _keep_objects(
        self, sites: Any, values: Sequence[Any], spans: list[Span], cells: tuple[Kinds, Numbers] | None = None
    ) -> None:
        """Keep these changes; what has no place in a number goes to the values or texts."""
        kinds, numbers = cells_of(sites, values) if cells is None else cells
        for row in np.flatnonzero(kinds == VALUE).tolist():
            numbers[row] = self._id_of(values[row], int(sites[row]))
        self._keep(Block(sites, kinds, numbers), spans, distinct(sites))

    def _id_of(self, value: Any, site: int) -> int:
        """The number of a value. What stands for a value of some type is written once a shard."""
        if type(value) is Unlooked:
            id = self._marker_ids.get(value.type)
            if id is not None:
                return id
            id = self._marker_ids[value.type] = next(self._value_ids)
        else:
            id = next(self._value_ids)
        if type(value) is str and len(value) < _SHORT_TEXT and value.isascii():
            self.texts.append(value)
            self.text_ids.append(id)
        else:
            self.values.append((id, value, site))
            self.large_bytes += sys.getsizeof(value) if type(value) in _LARGE_SCALARS else 0
        return id

    def columns(self) -> ChangeColumns | None:
        """All rows as one set of columns; None if there is none."""
        if not self.blocks:
            return None
        sites, kinds, numbers = (
            self.blocks[0] if len(self.blocks) == 1 else map(np.concatenate, zip(*self.blocks, strict=True))
        )
        more = tuple(map(np.concatenate, zip(*self._more_spans, strict=True))) if self._more_spans else None
        return ChangeColumns(sites, kinds, numbers, self.spans, more)


def _moments(call: LiveCall, times: Iterable[int]) -> list[Span]:
    """A span for each change, of which the moment is known."""
    return [Span(1, call.id, time, time) for time in times]


def _changed_rows(call: LiveCall, values: list[Any], names: list[int]) -> Ints:
    """Which rows differ from the row before of the same name."""
    last, dedupe = call.last, call.plan.dedupe
    assert last is not None
    rows = []
    for row, (value, name) in enumerate(zip(values, names, strict=True)):
        if dedupe:
            if same(last[name], value):
                continue
            last[name] = value
        rows.append(row)
    return np.array(rows, np.int64)


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

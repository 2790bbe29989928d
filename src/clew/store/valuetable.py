"""The value table of a shard: where each value is, and its written form."""

from __future__ import annotations

from bisect import bisect_right
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from clew.records import Kept, Summary, Value
from clew.store.arrays import numbers, view
from clew.store.blobs import DamagedBlobError, Part, read_blob
from clew.store.singles import single_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from clew.store.columns import Array

_STATISTICS = ("min", "max", "mean", "std", "nan", "inf", "norm", "zeros")
_SUMMARY_FIELDS = ("shape", "dtype", "device", "length", "size", *_STATISTICS)  # in the order of `Summary`
_HEAD_FIELDS = ("type", "kept", "why", "digest", *_SUMMARY_FIELDS)


class _Segment(NamedTuple):
    """Ids in ascending order and the rows they are at; of equal ids the later row comes last."""

    ids: Array
    rows: Array


class Outline(NamedTuple):
    """What is known of a value without reading it: everything but its body and its bytes, and how many those are."""

    value: Value
    stored: int


class ValueTable:
    """Finds values by id. The index is made when first asked for, and grows with the table at little cost."""

    def __init__(self, blobs: Path, say: Callable[[str], None]) -> None:
        self._blobs = blobs
        self._say = say
        self._batches: list[pa.StructArray] = []
        self._starts: list[int] = []  # the first row of each batch
        self._count = 0
        self._new: list[Array] = []  # ids not yet in a segment
        self._segments: list[_Segment] = []  # oldest first, each more than twice as long as the next

    def __len__(self) -> int:
        return self._count

    def add(self, batch: pa.StructArray) -> None:
        self._batches.append(batch)
        self._starts.append(self._count)
        self._new.append(view(batch.field("id")))
        self._count += len(batch)

    def one(self, id: int) -> Value:
        """The value of this id. One that is not there says so."""
        row = int(self._locate(np.array([id], np.int64))[0])
        if row < 0:
            return _lost()
        batch = bisect_right(self._starts, row) - 1
        return next(self._read(self._batches[batch].slice(row - self._starts[batch], 1)))

    def many(self, ids: Iterable[int]) -> list[Value]:
        """The values of these ids, in their order."""
        wanted = np.fromiter(ids, np.int64)
        found = [_lost() for _ in wanted]
        for places, batch in self._by_batch(wanted):
            for place, value in zip(places, self._read(batch), strict=True):
                found[place] = value
        return found

    def outlines(self, ids: Iterable[int]) -> list[Outline]:
        """The outlines of these values, in their order: nothing of the blob file is read."""
        wanted = np.fromiter(ids, np.int64)
        found = [Outline(_lost(), 0) for _ in wanted]
        for places, batch in self._by_batch(wanted):
            for place, outline in zip(places, _outlined(batch), strict=True):
                found[place] = outline
        return found

    def stored_bytes(self, ids: Array) -> Array:
        """How many bytes the body and the parts of each value have."""
        sizes = np.zeros(len(ids), np.int64)
        for places, batch in self._by_batch(ids):
            sizes[places] = _stored_bytes(batch)
        return sizes

    def single_numbers(self, ids: Iterable[int]) -> tuple[Array, Array]:
        """The number in each array or scalar of one element, at the speed of columns, and which have one."""
        wanted = np.fromiter(ids, np.int64)
        found, there = np.full(len(wanted), np.nan), np.zeros(len(wanted), bool)
        for places, batch in self._by_batch(wanted):
            found[places], there[places] = single_numbers(batch)
        return found, there

    def _by_batch(self, wanted: Array) -> Iterator[tuple[list[int], pa.StructArray]]:
        """The places among the wanted ids whose values are in one batch, and their rows of it, batch by batch."""
        rows = self._locate(wanted)
        starts = np.array(self._starts, np.int64)
        there = np.flatnonzero(rows >= 0)
        batches = np.searchsorted(starts, rows[there], side="right") - 1
        for number in np.unique(batches).tolist():
            places = there[batches == number]
            yield places.tolist(), self._batches[number].take(numbers(rows[places] - starts[number], pa.int64()))

    def check_blobs(self) -> None:
        """Read every blob once and say which are damaged."""
        seen: set[tuple[int, int]] = set()
        for batch in self._batches:
            for fields in batch.field("parts").flatten().to_pylist():
                part = _part(fields)
                if part.inline is None and (part.offset, part.length) not in seen:
                    seen.add((part.offset, part.length))
                    self._bytes_of(part)

    def _locate(self, wanted: Array) -> Array:
        """The row of each id; -1 where there is none."""
        self._index_new()
        rows = np.full(len(wanted), -1, np.int64)
        for ids, places in self._segments:  # oldest first, so that later rows win
            at = np.searchsorted(ids, wanted, side="right") - 1
            hit = (at >= 0) & (ids[at] == wanted)
            rows[hit] = places[at[hit]]
        return rows

    def _index_new(self) -> None:
        if not self._new:
            return
        ids = np.concatenate(self._new)
        self._new = []
        if not len(ids):
            return
        self._segments.append(_sorted(ids, np.arange(self._count - len(ids), self._count)))
        while len(self._segments) > 1 and len(self._segments[-2].ids) <= 2 * len(self._segments[-1].ids):
            later, earlier = self._segments.pop(), self._segments.pop()
            self._segments.append(_sorted(*map(np.concatenate, zip(earlier, later, strict=True))))

    def _read(self, batch: pa.StructArray) -> Iterator[Value]:
        bodies, parts = _listed(batch, "body"), _listed(batch, "parts")
        for value, body, found in zip(_heads(batch), bodies, parts, strict=False):
            value.body = body
            yield self._value(value, found or ())

    def _value(self, value: Value, parts: Iterable[dict[str, Any]]) -> Value:
        try:
            value.kept = Kept(value.kept)
            value.parts = [self._bytes_of(_part(fields)) for fields in parts]
        except ValueError:
            return _without_content(value, f"kept as {value.kept}, which this version of clew does not know")
        if None in value.parts:
            return _without_content(value, "damaged on disk: its bytes are missing or not those that were written")
        return value

    def _bytes_of(self, part: Part) -> memoryview | None:
        if part.inline is not None:
            return memoryview(bytearray(part.inline))
        try:
            return read_blob(self._blobs, part)
        except DamagedBlobError as damage:
            self._say(f"{damage}; the values that need them are given without")
            return None


def _heads(batch: pa.StructArray) -> Iterator[Value]:
    """The values of a batch, without their bodies and parts."""
    columns = {name: _listed(batch, name) for name in _HEAD_FIELDS}
    summaries = zip(*(columns[name] for name in _SUMMARY_FIELDS), strict=False)
    own = zip(*(columns[name] for name in ("type", "kept", "why", "digest")), strict=False)
    for (type, kept, why, digest), (shape, *rest) in zip(own, summaries, strict=False):
        summary = Summary(None if shape is None else tuple(shape), *rest)
        yield Value(type, None, [], kept, why, summary, digest)


def _stored_bytes(batch: pa.StructArray) -> Array:
    """Of each value of a batch, how many bytes its body and its parts have."""
    bodies, parts = batch.field("body"), batch.field("parts")
    sizes = np.diff(np.frombuffer(bodies.buffers()[1], np.int64, len(bodies) + 1, 8 * bodies.offset))
    offsets = np.frombuffer(parts.buffers()[1], np.int32, len(parts) + 1, 4 * parts.offset)
    # as floats: what a damaged file says may be more than integers can add
    lengths = np.concatenate([[0.0], np.cumsum(view(parts.values.field("length")), dtype=np.float64)])
    of_parts = np.minimum(lengths[offsets[1:]] - lengths[offsets[:-1]], 1 << 60)
    stored: Array = sizes + of_parts.astype(np.int64)
    return stored


def _outlined(batch: pa.StructArray) -> Iterator[Outline]:
    for value, size in zip(_heads(batch), _stored_bytes(batch).tolist(), strict=False):
        try:
            value.kept = Kept(value.kept)
        except ValueError:
            value = _without_content(value, f"kept as {value.kept}, which this version of clew does not know")
        yield Outline(value, size)


def _part(fields: dict[str, Any]) -> Part:
    return Part(fields["offset"], fields["length"], fields.get("inline"), fields.get("digest"))


def _sorted(ids: Array, rows: Array) -> _Segment:
    order = np.argsort(ids, kind="stable")  # nearly linear: ids mostly ascend already
    return _Segment(ids[order], rows[order])


def _listed(batch: pa.StructArray, name: str) -> Iterable[Any]:
    """The Python values of one field; a field that an older file lacks is null."""
    if batch.type.get_field_index(name) < 0:
        return repeat(None, len(batch))
    field = batch.field(name)
    if field.null_count == len(field):
        return repeat(None, len(batch))
    items: list[Any] = field.to_pylist()
    return items


def _lost() -> Value:
    return Value("unknown", None, kept=Kept.OPAQUE, why="lost: the batch that held it is damaged or missing")


def _without_content(value: Value, why: str) -> Value:
    value.body, value.parts, value.why = None, [], why
    value.kept = Kept.OPAQUE if value.summary.shape is None else Kept.SUMMARY
    return value

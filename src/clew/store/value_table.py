"""The value table of a shard: finds values by id and reads them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from clew.records import Kept, Summary, Value
from clew.store.arrow_arrays import numbers, view
from clew.store.blobs import DamagedBlobError, Part, read_blob
from clew.store.single_numbers import single_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from clew.store.shard_columns import Array

_STATISTICS = ("min", "max", "mean", "std", "nan", "inf", "norm", "zeros")
SUMMARY_FIELDS = ("shape", "dtype", "device", "length", "size", *_STATISTICS)  # in the order of `Summary`
_HEAD_FIELDS = ("type", "kept", "why", "digest", *SUMMARY_FIELDS)


class _Segment(NamedTuple):
    """Ids in ascending order and their rows; of equal ids the later row comes last."""

    ids: Array
    rows: Array


class Outline(NamedTuple):
    """A value without its body and bytes, and how many bytes these have."""

    value: Value
    stored: int


class ValueTable:
    """Finds values by id. The index is made on first use, and grows with the table at little cost."""

    def __init__(self, blobs: Path, report: Callable[[str], None]) -> None:
        self._blobs = blobs
        self._report = report
        self.batches: list[pa.StructArray] = []
        self._starts: list[int] = []  # the first row of each batch
        self._count = 0
        self._new: list[Array] = []  # ids not yet in a segment
        self._segments: list[_Segment] = []  # oldest first, each more than twice as long as the next

    def __len__(self) -> int:
        return self._count

    def add(self, batch: pa.StructArray) -> None:
        self.batches.append(batch)
        self._starts.append(self._count)
        self._new.append(view(batch.field("id")))
        self._count += len(batch)

    def read_one(self, id: int) -> Value:
        """The value with this id. If it was lost, `why` tells so."""
        row = int(self.rows_of(np.array([id], np.int64))[0])
        if row < 0:
            return _lost_value()
        batch = bisect_right(self._starts, row) - 1
        return next(self._read_values(self.batches[batch].slice(row - self._starts[batch], 1)))

    def read_many(self, ids: Iterable[int]) -> list[Value]:
        """The values with these ids, in the same order."""
        id_array = np.fromiter(ids, np.int64)
        values = [_lost_value() for _ in id_array]
        for places, batch in self.rows_by_batch(id_array):
            for place, value in zip(places, self._read_values(batch), strict=True):
                values[place] = value
        return values

    def outlines(self, ids: Iterable[int]) -> list[Outline]:
        """The outlines of these values, in the same order; the blob file is not read."""
        id_array = np.fromiter(ids, np.int64)
        outlines = [Outline(_lost_value(), 0) for _ in id_array]
        for places, batch in self.rows_by_batch(id_array):
            for place, outline in zip(places, _read_outlines(batch), strict=True):
                outlines[place] = outline
        return outlines

    def stored_bytes(self, ids: Array) -> Array:
        """By value: how many bytes its body and its parts have."""
        sizes = np.zeros(len(ids), np.int64)
        for places, batch in self.rows_by_batch(ids):
            sizes[places] = _batch_stored_bytes(batch)
        return sizes

    def single_numbers(self, ids: Iterable[int]) -> tuple[Array, Array]:
        """The number in each array or scalar of one element (else NaN), and which values have one."""
        id_array = np.fromiter(ids, np.int64)
        floats, exists = np.full(len(id_array), np.nan), np.zeros(len(id_array), bool)
        for places, batch in self.rows_by_batch(id_array):
            floats[places], exists[places] = single_numbers(batch)
        return floats, exists

    def rows_by_batch(self, ids: Array) -> Iterator[tuple[list[int], pa.StructArray]]:
        """By batch: the places among the ids whose values are in it, and their rows of it."""
        rows = self.rows_of(ids)
        starts = np.array(self._starts, np.int64)
        existing = np.flatnonzero(rows >= 0)
        batches = np.searchsorted(starts, rows[existing], side="right") - 1
        for number in np.unique(batches).tolist():
            places = existing[batches == number]
            yield places.tolist(), self.batches[number].take(numbers(rows[places] - starts[number], pa.int64()))

    def check_blobs(self) -> None:
        """Read every blob once, and report damaged ones."""
        checked: set[tuple[int, int]] = set()
        for batch in self.batches:
            for fields in batch.field("parts").flatten().to_pylist():
                part = read_part(fields)
                if part.inline is None and (part.offset, part.length) not in checked:
                    checked.add((part.offset, part.length))
                    self._read_part_bytes(part)

    def rows_of(self, ids: Array) -> Array:
        """The row of each id; -1 if there is none."""
        self._index_new()
        rows = np.full(len(ids), -1, np.int64)
        for segment_ids, segment_rows in self._segments:  # oldest first, so that later rows win
            at = np.searchsorted(segment_ids, ids, side="right") - 1
            exists = (at >= 0) & (segment_ids[at] == ids)
            rows[exists] = segment_rows[at[exists]]
        return rows

    def _index_new(self) -> None:
        if not self._new:
            return
        ids = np.concatenate(self._new)
        self._new = []
        if not len(ids):
            return
        self._segments.append(_sort_segment(ids, np.arange(self._count - len(ids), self._count)))
        while len(self._segments) > 1 and len(self._segments[-2].ids) <= 2 * len(self._segments[-1].ids):
            later, earlier = self._segments.pop(), self._segments.pop()
            self._segments.append(_sort_segment(*map(np.concatenate, zip(earlier, later, strict=True))))

    def _read_values(self, batch: pa.StructArray) -> Iterator[Value]:
        bodies, parts = python_cells(batch, "body"), python_cells(batch, "parts")
        for value, body, part_fields in zip(_read_heads(batch), bodies, parts, strict=False):
            value.body = body
            yield self._complete_value(value, part_fields or ())

    def _complete_value(self, value: Value, parts: Iterable[dict[str, Any]]) -> Value:
        try:
            value.kept = Kept(value.kept)
            value.parts = [self._read_part_bytes(read_part(fields)) for fields in parts]
        except ValueError:
            return _without_content(value, _unknown_kept(value))
        if None in value.parts:
            return _without_content(value, "damaged on disk: its bytes are missing or not those that were written")
        return value

    def _read_part_bytes(self, part: Part) -> memoryview | None:
        if part.inline is not None:
            return memoryview(bytearray(part.inline))
        try:
            return read_blob(self._blobs, part)
        except DamagedBlobError as damage:
            self._report(f"{damage}; the values that need them are read without them")
            return None


def _read_heads(batch: pa.StructArray) -> Iterator[Value]:
    """The values of a batch, without their bodies and parts."""
    columns = {name: python_cells(batch, name) for name in _HEAD_FIELDS}
    summaries = zip(*(columns[name] for name in SUMMARY_FIELDS), strict=False)
    others = zip(*(columns[name] for name in ("type", "kept", "why", "digest")), strict=False)
    for (type, kept, why, digest), (shape, *rest) in zip(others, summaries, strict=False):
        summary = Summary(None if shape is None else tuple(shape), *rest)
        yield Value(type, None, [], kept, why, summary, digest)


def _batch_stored_bytes(batch: pa.StructArray) -> Array:
    """By value of a batch: how many bytes its body and its parts have."""
    bodies, parts = batch.field("body"), batch.field("parts")
    sizes = np.diff(np.frombuffer(bodies.buffers()[1], np.int64, len(bodies) + 1, 8 * bodies.offset))
    offsets = np.frombuffer(parts.buffers()[1], np.int32, len(parts) + 1, 4 * parts.offset)
    # as floats: the sum of lengths in a damaged file may be too large for an integer
    ends = np.concatenate([[0.0], np.cumsum(view(parts.values.field("length")), dtype=np.float64)])
    part_sizes = np.minimum(ends[offsets[1:]] - ends[offsets[:-1]], 1 << 60)
    total_sizes: Array = sizes + part_sizes.astype(np.int64)
    return total_sizes


def _read_outlines(batch: pa.StructArray) -> Iterator[Outline]:
    for value, size in zip(_read_heads(batch), _batch_stored_bytes(batch).tolist(), strict=False):
        try:
            value.kept = Kept(value.kept)
        except ValueError:
            value = _without_content(value, _unknown_kept(value))
        yield Outline(value, size)


def _unknown_kept(value: Value) -> str:
    return f"kept as {value.kept}, which this version of clew does not know"


def read_part(fields: dict[str, Any]) -> Part:
    return Part(fields["offset"], fields["length"], fields.get("inline"), fields.get("digest"))


def _sort_segment(ids: Array, rows: Array) -> _Segment:
    order = np.argsort(ids, kind="stable")  # nearly linear: ids mostly ascend already
    return _Segment(ids[order], rows[order])


def python_cells(batch: pa.StructArray, name: str) -> Iterable[Any]:
    """The cells of a field as Python values; None if an older file lacks the field."""
    if batch.type.get_field_index(name) < 0:
        return repeat(None, len(batch))
    field = batch.field(name)
    if field.null_count == len(field):
        return repeat(None, len(batch))
    items: list[Any] = field.to_pylist()
    return items


def _lost_value() -> Value:
    return Value("unknown", None, kept=Kept.OPAQUE, why="lost: the batch that held it is damaged or missing")


def _without_content(value: Value, why: str) -> Value:
    value.body, value.parts, value.why = None, [], why
    value.kept = Kept.OPAQUE if value.summary.shape is None else Kept.SUMMARY
    return value

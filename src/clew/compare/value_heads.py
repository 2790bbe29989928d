"""Reads stored values without their bytes: digests, summaries, and where the bytes are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from clew.records import Kept, Summary, Value
from clew.store.blobs import Part
from clew.store.format import BLOBS_NAME
from clew.values.dtypes import array_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

    from clew.compare.side import Ints, Side
    from clew.store.shard import ShardReader

Digests = npt.NDArray[np.uint64]
_DIGEST_BYTES: Final = 16
_HOLDS: Final = "it holds a "  # how the reason begins if a value holds something that was not looked into


@dataclass(slots=True)
class Head:
    """A stored value: everything but its bytes."""

    type: str
    body: str | None
    kept: Kept
    why: str
    digest: bytes
    summary: Summary
    parts: list[Part]
    blobs: Path
    shard: ShardReader
    id: int

    @property
    def outline(self) -> Outline | None:
        """Where the bytes are and what they mean, if it is one array of numbers, kept in full; else None."""
        array = array_in(self.body) if self.kept == Kept.FULL and self.body is not None else None
        if array is None or array.part >= len(self.parts):
            return None
        return Outline(self.parts[array.part], array.code, array.shape, array.library, self.summary.dtype)

    @property
    def hollow(self) -> bool:
        """Whether it holds something that was not looked into and that its digest therefore does not cover."""
        return self.kept == Kept.PART and self.why.startswith(_HOLDS)

    def read(self) -> Value:
        """The value with its bytes; only bytes in the blob file need to be looked up."""
        if self.id < 0 or any(part.inline is None for part in self.parts):
            return self.shard.value(self.id)
        inline = [memoryview(bytearray(part.inline or b"")) for part in self.parts]
        return Value(self.type, self.body, inline, self.kept, self.why, self.summary, self.digest)


@dataclass(slots=True)
class Outline:
    """An array: where its bytes are and what they mean."""

    part: Part
    code: str  # the dtype as stored: "<f4", "bfloat16"
    shape: tuple[int, ...]
    library: str
    dtype: str | None  # the dtype as people write it


class ShardValues:
    """The value table of a shard, without the bytes of its values."""

    def __init__(self, shard: ShardReader) -> None:
        self.shard = shard
        self._table = shard.value_table

    @cached_property
    def _digests(self) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
        """By row of the table: the two halves of the digest, and whether there is a digest."""
        parts = [_digest_columns(batch.field("digest")) for batch in self._table.batches]
        low = np.concatenate([np.empty(0, np.uint64), *(part[0] for part in parts)])
        high = np.concatenate([np.empty(0, np.uint64), *(part[1] for part in parts)])
        exists = np.concatenate([np.empty(0, np.bool_), *(part[2] for part in parts)])
        return low, high, exists

    @cached_property
    def _kept(self) -> npt.NDArray[np.uint8]:
        """By row of the table: how much of the value was kept."""
        from clew.store.arrow_arrays import view

        return np.concatenate([np.empty(0, np.uint8), *(view(b.field("kept")) for b in self._table.batches)])

    @cached_property
    def _hollow(self) -> npt.NDArray[np.bool_]:
        """By row of the table: whether it holds something that was not looked into."""
        import pyarrow as pa

        from clew.store.arrow_arrays import numbers, view
        from clew.store.value_table import python_cells

        parts = [np.empty(0, np.bool_)]
        for batch in self._table.batches:
            hollow = view(batch.field("kept")) == Kept.PART
            rows = np.flatnonzero(hollow)
            if len(rows):
                reasons = python_cells(batch.take(numbers(rows, pa.int64())), "why")
                hollow[rows] = [str(why or "").startswith(_HOLDS) for why in reasons]
            parts.append(hollow)
        return np.concatenate(parts)

    def hollow(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """By id: whether the value holds something that was not looked into."""
        rows = self._table.rows_of(np.asarray(ids, np.int64))
        return (rows >= 0) & self._hollow[rows] if len(self._hollow) else np.zeros(len(ids), np.bool_)

    def digests(self, ids: Ints) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
        """The two halves of the digests, and which are usable: those of opaque values only tell their address."""
        rows = self._table.rows_of(np.asarray(ids, np.int64))
        low, high, exists = self._digests
        if len(low) == 0:
            return np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.bool_)
        usable = (rows >= 0) & exists[rows] & (self._kept[rows] != Kept.OPAQUE)
        return low[rows], high[rows], usable

    def in_full(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """By id: whether the value was kept in full."""
        rows = self._table.rows_of(np.asarray(ids, np.int64))
        if len(self._kept) == 0:
            return np.zeros(len(ids), np.bool_)
        return np.asarray((rows >= 0) & (self._kept[rows] == Kept.FULL), np.bool_)

    def heads(self, ids: Iterable[int]) -> list[Head]:
        id_array = np.fromiter(ids, np.int64)
        heads: list[Head] = [_lost_head(self.shard, id) for id in id_array.tolist()]
        for places, batch in self._table.rows_by_batch(id_array):
            for place, head in zip(places, self._batch_heads(batch), strict=True):
                head.id = int(id_array[place])
                heads[place] = head
        return heads

    def _batch_heads(self, batch: pa.StructArray) -> list[Head]:
        from clew.store.value_table import SUMMARY_FIELDS, python_cells, read_part

        columns = [python_cells(batch, name) for name in ("type", "body", "kept", "why", "digest", "parts")]
        summaries = zip(*(python_cells(batch, name) for name in SUMMARY_FIELDS), strict=False)
        blobs = self.shard.folder / BLOBS_NAME
        heads = []
        for (type, body, kept, why, digest, parts), (shape, *rest) in zip(
            zip(*columns, strict=False), summaries, strict=False
        ):
            summary = Summary(None if shape is None else tuple(shape), *rest)
            head_parts = [read_part(fields) for fields in parts or ()]
            heads.append(
                Head(type, body, _read_kept(kept), why or "", digest, summary, head_parts, blobs, self.shard, -1)
            )
        return heads


def digests(side: Side, rows: Ints) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
    """The digests of the values of these rows, in two halves, and which are usable."""
    ids, shards = side.cells("value", rows), side.shard_of(rows)
    low, high = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
    usable = np.zeros(len(rows), np.bool_)
    for shard in np.unique(shards).tolist():
        mask = shards == shard
        low[mask], high[mask], usable[mask] = side.values(shard).digests(ids[mask])
    return low, high, usable


def hollow(side: Side, rows: Ints) -> npt.NDArray[np.bool_]:
    """By row: whether its value holds something that was not looked into."""
    ids, shards = side.cells("value", rows), side.shard_of(rows)
    flags = np.zeros(len(rows), np.bool_)
    for shard in np.unique(shards).tolist():
        mask = shards == shard
        flags[mask] = side.values(shard).hollow(ids[mask])
    return flags


def heads(side: Side, rows: Ints) -> list[Head]:
    """The heads of the values of these rows, in the same order."""
    ids, shards = side.cells("value", rows), side.shard_of(rows)
    heads_by_place: dict[int, Head] = {}
    for shard in np.unique(shards).tolist():
        places = np.flatnonzero(shards == shard)
        heads_by_place.update(zip(places.tolist(), side.values(shard).heads(ids[places].tolist()), strict=True))
    return [heads_by_place[place] for place in range(len(rows))]


def _digest_columns(column: Any) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
    count = len(column)
    offsets = np.frombuffer(column.buffers()[1], np.int32, count + 1, column.offset * 4) if count else np.zeros(1, int)
    lengths = np.diff(offsets)
    exists = lengths == _DIGEST_BYTES
    if not exists.any():
        return np.zeros(count, np.uint64), np.zeros(count, np.uint64), exists
    data = np.frombuffer(column.buffers()[2], np.uint8)
    starts = np.where(exists, offsets[:-1], int(offsets[:-1][exists][0]))
    halves = np.ascontiguousarray(data[starts[:, None] + np.arange(_DIGEST_BYTES)]).view(np.uint64).reshape(count, 2)
    return halves[:, 0].copy(), halves[:, 1].copy(), exists


def _read_kept(kept: int) -> Kept:
    try:
        return Kept(kept)
    except ValueError:
        return Kept.OPAQUE


def _lost_head(shard: ShardReader, id: int) -> Head:
    why = "lost: the batch that held it is damaged or missing"
    return Head("unknown", None, Kept.OPAQUE, why, b"", Summary(), [], shard.folder / BLOBS_NAME, shard, id)

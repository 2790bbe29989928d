"""What is known of stored values without reading their bytes: digests, outlines, and where the bytes are."""

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

    from clew.compare.side import Ints, Side
    from clew.store.shard import ShardReader

Digests = npt.NDArray[np.uint64]
_LENGTH: Final = 16
_HOLDS: Final = "it holds a "  # how values say that they hold something that was not looked into
_SUMMARY: Final = [
    "shape",
    "dtype",
    "device",
    "length",
    "size",
    "min",
    "max",
    "mean",
    "std",
    "nan",
    "inf",
    "norm",
    "zeros",
]  # in the order of `Summary`


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
        """If it is one array or tensor of numbers, kept in full: which part, and what its bytes mean."""
        array = array_in(self.body) if self.kept == Kept.FULL and self.body is not None else None
        if array is None or array.part >= len(self.parts):
            return None
        return Outline(self.parts[array.part], array.code, array.shape, array.library, self.summary.dtype)

    @property
    def hollow(self) -> bool:
        """Whether it holds something nobody looked into, of which its digest says nothing."""
        return self.kept == Kept.PART and self.why.startswith(_HOLDS)

    def read(self) -> Value:
        """With its bytes; only those in the blob file need to be looked up."""
        if self.id < 0 or any(part.inline is None for part in self.parts):
            return self.shard.value(self.id)
        inline = [memoryview(bytearray(part.inline or b"")) for part in self.parts]
        return Value(self.type, self.body, inline, self.kept, self.why, self.summary, self.digest)


@dataclass(slots=True)
class Outline:
    """An array: where its bytes are and what they mean."""

    part: Part
    code: str  # as it is written: "<f4", "bfloat16"
    shape: tuple[int, ...]
    library: str
    dtype: str | None  # as people write it


class ShardValues:
    """The value table of a shard, seen without its bytes."""

    def __init__(self, shard: ShardReader) -> None:
        self.shard = shard
        self._table = shard._values

    @cached_property
    def _digests(self) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
        """By row of the table: the two halves of the digest, and whether there is one."""
        parts = [_digest_columns(batch.field("digest")) for batch in self._table._batches]
        low = np.concatenate([np.empty(0, np.uint64), *(part[0] for part in parts)])
        high = np.concatenate([np.empty(0, np.uint64), *(part[1] for part in parts)])
        there = np.concatenate([np.empty(0, np.bool_), *(part[2] for part in parts)])
        return low, high, there

    @cached_property
    def _whole(self) -> npt.NDArray[np.uint8]:
        from clew.store.arrays import view

        return np.concatenate([np.empty(0, np.uint8), *(view(b.field("kept")) for b in self._table._batches)])

    @cached_property
    def _hollow(self) -> npt.NDArray[np.bool_]:
        """By row of the table: containers that hold something nobody looked into; a digest says nothing of that."""
        import pyarrow as pa

        from clew.store.arrays import numbers, view
        from clew.store.valuetable import _listed

        parts = [np.empty(0, np.bool_)]
        for batch in self._table._batches:
            hollow = view(batch.field("kept")) == Kept.PART
            rows = np.flatnonzero(hollow)
            if len(rows):
                reasons = _listed(batch.take(numbers(rows, pa.int64())), "why")
                hollow[rows] = [str(why or "").startswith(_HOLDS) for why in reasons]
            parts.append(hollow)
        return np.concatenate(parts)

    def hollow(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """Which of these hold something nobody looked into."""
        rows = self._table._locate(np.asarray(ids, np.int64))
        return (rows >= 0) & self._hollow[rows] if len(self._hollow) else np.zeros(len(ids), np.bool_)

    def digests(self, ids: Ints) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
        """Halves of the digests, and where one says all: opaque things are told apart by their address only."""
        rows = self._table._locate(np.asarray(ids, np.int64))
        low, high, there = self._digests
        if len(low) == 0:
            return np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.bool_)
        good = (rows >= 0) & there[rows] & (self._whole[rows] != Kept.OPAQUE)
        return low[rows], high[rows], good

    def in_full(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """Which of these values were kept whole."""
        rows = self._table._locate(np.asarray(ids, np.int64))
        if len(self._whole) == 0:
            return np.zeros(len(ids), np.bool_)
        return np.asarray((rows >= 0) & (self._whole[rows] == Kept.FULL), np.bool_)

    def heads(self, ids: Iterable[int]) -> list[Head]:
        wanted = np.fromiter(ids, np.int64)
        rows = self._table._locate(wanted)
        starts = np.array(self._table._starts, np.int64)
        found: list[Head] = [_lost(self.shard, id) for id in wanted.tolist()]
        there = np.flatnonzero(rows >= 0)
        batches = np.searchsorted(starts, rows[there], side="right") - 1
        for number in np.unique(batches).tolist():
            places = there[batches == number]
            for place, head in zip(places.tolist(), self._heads(number, rows[places] - starts[number]), strict=True):
                head.id = int(wanted[place])
                found[place] = head
        return found

    def _heads(self, batch: int, rows: Ints) -> list[Head]:
        import pyarrow as pa

        from clew.store.arrays import numbers
        from clew.store.valuetable import _listed, _part

        taken = self._table._batches[batch].take(numbers(rows, pa.int64()))
        columns = [_listed(taken, name) for name in ("type", "body", "kept", "why", "digest", "parts")]
        summaries = zip(*(_listed(taken, name) for name in _SUMMARY), strict=False)
        blobs = self.shard.folder / BLOBS_NAME
        out = []
        for (type, body, kept, why, digest, parts), (shape, *rest) in zip(
            zip(*columns, strict=False), summaries, strict=False
        ):
            summary = Summary(None if shape is None else tuple(shape), *rest)
            held = [_part(fields) for fields in parts or ()]
            out.append(Head(type, body, _kept(kept), why or "", digest, summary, held, blobs, self.shard, -1))
        return out


def digests(side: Side, rows: Ints) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
    """Of the values these rows point to: halves of their digests, and which have one."""
    ids, where = side.cells("value", rows), side.shard_of(rows)
    low, high = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
    there = np.zeros(len(rows), np.bool_)
    for shard in np.unique(where).tolist():
        mask = where == shard
        low[mask], high[mask], there[mask] = side.values(shard).digests(ids[mask])
    return low, high, there


def hollow(side: Side, rows: Ints) -> npt.NDArray[np.bool_]:
    """Which of the values these rows point to hold something nobody looked into."""
    ids, where = side.cells("value", rows), side.shard_of(rows)
    found = np.zeros(len(rows), np.bool_)
    for shard in np.unique(where).tolist():
        mask = where == shard
        found[mask] = side.values(shard).hollow(ids[mask])
    return found


def heads(side: Side, rows: Ints) -> list[Head]:
    """Of the values these rows point to, in their order."""
    ids, where = side.cells("value", rows), side.shard_of(rows)
    found: dict[int, Head] = {}
    for shard in np.unique(where).tolist():
        places = np.flatnonzero(where == shard)
        found.update(zip(places.tolist(), side.values(shard).heads(ids[places].tolist()), strict=True))
    return [found[place] for place in range(len(rows))]


def _digest_columns(column: Any) -> tuple[Digests, Digests, npt.NDArray[np.bool_]]:
    count = len(column)
    offsets = np.frombuffer(column.buffers()[1], np.int32, count + 1, column.offset * 4) if count else np.zeros(1, int)
    lengths = np.diff(offsets)
    there = lengths == _LENGTH
    if not there.any():
        return np.zeros(count, np.uint64), np.zeros(count, np.uint64), there
    data = np.frombuffer(column.buffers()[2], np.uint8)
    starts = np.where(there, offsets[:-1], int(offsets[:-1][there][0]))
    both = np.ascontiguousarray(data[starts[:, None] + np.arange(_LENGTH)]).view(np.uint64).reshape(count, 2)
    return both[:, 0].copy(), both[:, 1].copy(), there


def _kept(kept: int) -> Kept:
    try:
        return Kept(kept)
    except ValueError:
        return Kept.OPAQUE


def _lost(shard: ShardReader, id: int) -> Head:
    why = "lost: the batch that held it is damaged or missing"
    return Head("unknown", None, Kept.OPAQUE, why, b"", Summary(), [], shard.folder / BLOBS_NAME, shard, id)

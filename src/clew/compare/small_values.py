"""Compares small values, many at a time: arrays whose bytes are inline, NumPy scalars, texts.

One by one, each would cost some fifty microseconds; together, values of one shape and type cost what numbers cost.
"""

from __future__ import annotations

import json
import math
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.arrays import distances, element_size, same_numbers, ulps
from clew.values.dtypes import array_in, numbers_from, read_dtype

if TYPE_CHECKING:
    from clew.compare.judge import BlockResult, Judge
    from clew.compare.side import Ints, Side
    from clew.store.shard import ShardReader

Flags = npt.NDArray[np.bool_]
_FEWEST: Final = 8  # fewer are not worth grouping
_SCALAR: Final = '{"$":"numpy.scalar","is":["'
_TEXT: Final = "text"
_DIGITS: Final = 15  # of an integer that a float holds exactly


class Kind(NamedTuple):
    """What the bytes of a small value mean."""

    code: str  # the dtype as stored: "<f4", "bfloat16"; "text" for a text
    shape: tuple[int, ...]
    dtype: str
    size: int  # bytes; 0: any number
    is_python: bool = False  # a plain Python number


Small = tuple[Kind, bytes] | None
_FLOAT: Final = Kind("<f8", (), "float64", 8, is_python=True)
_INT: Final = Kind("<i8", (), "int64", 8, is_python=True)
_BOOL: Final = Kind("|b1", (), "bool", 1, is_python=True)


def compare_small(
    judge: Judge, indices: Ints, offsets: Ints, unequal: Ints, allowed: Any, result: BlockResult
) -> Flags:
    """Judge those of the unequal pairs that can be judged in groups; returns which were."""
    judged = np.zeros(len(unequal), np.bool_)
    if len(unequal) < _FEWEST:
        return judged
    pairs = indices[offsets[unequal]]
    values_a = small_values(judge.a, judge.rows.a[pairs].astype(np.int64))
    values_b = small_values(judge.b, judge.rows.b[pairs].astype(np.int64))
    groups: dict[tuple[Kind, Kind], list[int]] = {}
    for number, (a, b) in enumerate(zip(values_a, values_b, strict=True)):
        if a is not None and b is not None and a[0].shape == b[0].shape and len(a[1]) and len(b[1]):
            groups.setdefault((a[0], b[0]), []).append(number)
    for (kind_a, kind_b), members in groups.items():
        at = offsets[unequal[members]]
        allowed_at = None if allowed is None else allowed[at]
        raw_a = b"".join(values_a[n][1] for n in members)  # type: ignore[index]
        raw_b = b"".join(values_b[n][1] for n in members)  # type: ignore[index]
        columns = _judge_group(judge, (kind_a, kind_b), (raw_a, raw_b), len(members), allowed_at)
        if columns is not None:
            result.differ[at], result.size[at], result.exact[at] = columns
            judged[members] = True
            if kind_a.dtype != kind_b.dtype and not (kind_a.is_python or kind_b.is_python):
                judge.verdict.dtypes[kind_a.dtype, kind_b.dtype] += len(members)
    return judged


def _judge_group(judge: Judge, kinds: tuple[Kind, Kind], raw: tuple[bytes, bytes], count: int, allowed: Any) -> Any:
    """Which values of one kind differ from those of another, by how much, and which are the same bit for bit."""
    if _TEXT in (kinds[0].code, kinds[1].code):
        if kinds[0] != kinds[1]:
            return None
        differ = _without_infinite_noise(np.ones(count, np.bool_), allowed)
        return differ, np.full(count, np.inf), np.zeros(count, np.bool_)
    x, y = (numbers_from(data, kind.code) for data, kind in zip(raw, kinds, strict=True))
    if x is None or y is None or len(x) != len(y) or x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        return None
    if x.dtype == np.float16 or y.dtype == np.float16:
        x, y = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(all="ignore"):
        same = same_numbers(x, y)
        distance = np.where(same, 0, distances(x, y)).astype(np.float64)
        nonfinite = ~np.isfinite(distance)
        differ = (~same & _too_far(judge, kinds, x, y, distance, count, allowed)) | nonfinite
    shape = count, -1
    size = np.where(nonfinite, np.inf, distance).reshape(shape).max(axis=1)
    return _without_infinite_noise(differ.reshape(shape).any(axis=1), allowed), size, _identical(kinds, raw, count)


def _too_far(judge: Judge, kinds: tuple[Kind, Kind], x: Any, y: Any, distance: Any, count: int, allowed: Any) -> Any:
    dtypes = kinds[0].dtype, kinds[1].dtype
    tolerance = judge.settings.tolerance(*dtypes)
    magnitude = np.where(np.isfinite(x), np.abs(x), 0).astype(np.float64)
    limit = tolerance.atol + tolerance.rtol * magnitude
    if allowed is not None:
        allowed = np.repeat(allowed, len(x) // count)
        unmeasured = judge.settings.tolerance_without_noise(*dtypes)
        limit = np.where(np.isnan(allowed), unmeasured.atol + unmeasured.rtol * magnitude, np.fmax(limit, allowed))
    too_far = ~(distance <= limit)
    if tolerance.ulp:
        too_far &= ~(ulps(x, y, *dtypes) <= tolerance.ulp)
    return too_far


def _identical(kinds: tuple[Kind, Kind], raw: tuple[bytes, bytes], count: int) -> Flags:
    if kinds[0].code != kinds[1].code:
        return np.zeros(count, np.bool_)
    bytes_a, bytes_b = (np.frombuffer(data, np.uint8).reshape(count, -1) for data in raw)
    return np.asarray((bytes_a == bytes_b).all(axis=1), np.bool_)


def _without_infinite_noise(differ: Flags, allowed: Any) -> Flags:
    """A value that is never the same in the reference either does not count as different."""
    return differ if allowed is None else differ & ~np.isinf(allowed)


# ---- reading


def small_values(side: Side, rows: Ints) -> list[Small]:
    """The stored value of each row if it is small and was kept in full; else None."""
    ids, shards = side.cells("value", rows), side.shard_of(rows)
    values: list[Small] = [None] * len(rows)
    for shard in np.unique(shards).tolist():
        places = np.flatnonzero(shards == shard)
        places = places[side.values(shard).in_full(ids[places])]
        shard_values = _read_small_values(side.table.shards[shard], ids[places])
        for place, value in zip(places.tolist(), shard_values, strict=True):
            values[place] = value
    return values


def _read_small_values(shard: ShardReader, ids: Ints) -> list[Small]:
    values: list[Small] = [None] * len(ids)
    for places, batch in shard.value_table.rows_by_batch(np.asarray(ids, np.int64)):
        bodies, parts = batch.field("body").to_pylist(), _inline_parts(batch.field("parts"))
        for place, body, raw in zip(places, bodies, parts, strict=True):
            values[place] = _small_value(body, raw)
    return values


def _inline_parts(parts: Any) -> list[bytes | None]:
    """The bytes of each value that has exactly one part and has it inline."""
    count = len(parts)
    offsets = np.frombuffer(parts.buffers()[1], np.int32, count + 1, parts.offset * 4)
    lengths = np.diff(offsets)
    flat = parts.flatten().field("inline").to_pylist()
    begins = (np.cumsum(lengths) - lengths).tolist()
    return [flat[begin] if length == 1 else None for begin, length in zip(begins, lengths.tolist(), strict=True)]


def _small_value(body: str | None, raw: bytes | None) -> Small:
    if body is None:
        return None
    if raw is not None:
        kind = _array_kind(body)
        return None if kind is None or len(raw) != kind.size else (kind, raw)
    if body.startswith(_SCALAR):
        return _numpy_scalar(body)
    if body.startswith('"'):
        return Kind(_TEXT, (), "str", 0), body.encode()
    return _plain_number(body)


def _numpy_scalar(body: str) -> Small:
    try:
        code, digits = json.loads(body)["is"]
        kind = _scalar_kind(code)
        return (kind, bytes.fromhex(digits)) if len(digits) == 2 * kind.size else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _plain_number(body: str) -> Small:
    """A number in JSON; None if it is not one, or too large for a float to hold exactly."""
    if body in ("true", "false"):
        return _BOOL, struct.pack("<?", body == "true")
    if not (body[:1].isdigit() or body[:1] == "-"):
        return None
    if body.lstrip("-").isdigit():
        return (_INT, struct.pack("<q", int(body))) if len(body) <= _DIGITS else None
    return _FLOAT, struct.pack("<d", float(body))


@lru_cache(1024)
def _array_kind(body: str) -> Kind | None:
    array = array_in(body)
    size = 0 if array is None else math.prod(array.shape) * element_size(array.code)
    if array is None or array.part != 0 or not size:
        return None
    name = array.code if array.library == "torch" else read_dtype(array.code).name
    return Kind(array.code, array.shape, name, size)


@lru_cache(64)
def _scalar_kind(code: str) -> Kind:
    return Kind(code, (), read_dtype(code).name, element_size(code))

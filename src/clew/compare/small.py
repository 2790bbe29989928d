"""Small values, many at a time: arrays whose bytes ride in the records, NumPy's scalars, texts.

One by one each would cost some fifty microseconds; together, those of one shape and type cost what numbers cost.
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
    from clew.compare.judge import Judge
    from clew.compare.side import Ints, Side
    from clew.store.shard import ShardReader

Flags = npt.NDArray[np.bool_]
_FEW: Final = 8  # fewer are not worth it
_SCALAR: Final = '{"$":"numpy.scalar","is":["'
_TEXT: Final = "text"
_DIGITS: Final = 15  # of a whole number that a float can say exactly


class Kind(NamedTuple):
    """What the bytes of a small value mean."""

    code: str  # as it is written: "<f4", "bfloat16"; "text" for a text
    shape: tuple[int, ...]
    dtype: str
    size: int  # bytes; 0: any number
    own: bool = False  # one of Python's own numbers


Small = tuple[Kind, bytes] | None
_FLOAT: Final = Kind("<f8", (), "float64", 8, own=True)
_INT: Final = Kind("<i8", (), "int64", 8, own=True)
_BOOL: Final = Kind("|b1", (), "bool", 1, own=True)


def compare_small(judge: Judge, chosen: Ints, places: Ints, left: Ints, allowed: Any, out: Any) -> Flags:
    """Judge those of `left` that can be judged together; gives which these were."""
    done = np.zeros(len(left), np.bool_)
    if len(left) < _FEW:
        return done
    indices = chosen[places[left]]
    ours = small_values(judge.a, judge.rows.a[indices].astype(np.int64))
    theirs = small_values(judge.b, judge.rows.b[indices].astype(np.int64))
    groups: dict[tuple[Kind, Kind], list[int]] = {}
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a is not None and b is not None and a[0].shape == b[0].shape and len(a[1]) and len(b[1]):
            groups.setdefault((a[0], b[0]), []).append(number)
    differ, size, exact, _ = out
    for (kind_a, kind_b), members in groups.items():
        at = places[left[members]]
        room = None if allowed is None else allowed[at]
        raw = b"".join(ours[n][1] for n in members), b"".join(theirs[n][1] for n in members)  # type: ignore[index]
        found = _judged(judge, (kind_a, kind_b), raw, len(members), room)
        if found is not None:
            differ[at], size[at], exact[at] = found
            done[members] = True
            if kind_a.dtype != kind_b.dtype and not (kind_a.own or kind_b.own):
                judge.verdict.dtypes[kind_a.dtype, kind_b.dtype] += len(members)
    return done


def _judged(judge: Judge, kinds: tuple[Kind, Kind], raw: tuple[bytes, bytes], count: int, allowed: Any) -> Any:
    """Of values of one kind against values of one kind: which differ, by how much, which are the same bit for bit."""
    if _TEXT in (kinds[0].code, kinds[1].code):
        if kinds[0] != kinds[1]:
            return None
        return _unless_endless(np.ones(count, np.bool_), allowed), np.full(count, np.inf), np.zeros(count, np.bool_)
    x, y = (numbers_from(bytes_, kind.code) for bytes_, kind in zip(raw, kinds, strict=True))
    if x is None or y is None or len(x) != len(y) or x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        return None
    if x.dtype == np.float16 or y.dtype == np.float16:
        x, y = x.astype(np.float32), y.astype(np.float32)
    with np.errstate(all="ignore"):
        same = same_numbers(x, y)
        distance = np.where(same, 0, distances(x, y)).astype(np.float64)
        odd = ~np.isfinite(distance)
        far = (~same & _beyond(judge, kinds, x, y, distance, count, allowed)) | odd
    shape = count, -1
    differ = far.reshape(shape).any(axis=1)
    size = np.where(odd, np.inf, distance).reshape(shape).max(axis=1)
    return _unless_endless(differ, allowed), size, _identical(kinds, raw, count)


def _beyond(judge: Judge, kinds: tuple[Kind, Kind], x: Any, y: Any, distance: Any, count: int, allowed: Any) -> Any:
    dtypes = kinds[0].dtype, kinds[1].dtype
    tolerance = judge.settings.tolerance(*dtypes)
    magnitude = np.where(np.isfinite(x), np.abs(x), 0).astype(np.float64)
    limit = tolerance.atol + tolerance.rtol * magnitude
    if allowed is not None:
        room = np.repeat(allowed, len(x) // count)
        other = judge.settings.unmeasured(*dtypes)
        limit = np.where(np.isnan(room), other.atol + other.rtol * magnitude, np.fmax(limit, room))
    far = ~(distance <= limit)
    if tolerance.ulp:
        far &= ~(ulps(x, y, *dtypes) <= tolerance.ulp)
    return far


def _identical(kinds: tuple[Kind, Kind], raw: tuple[bytes, bytes], count: int) -> Flags:
    if kinds[0].code != kinds[1].code:
        return np.zeros(count, np.bool_)
    first, second = (np.frombuffer(bytes_, np.uint8).reshape(count, -1) for bytes_ in raw)
    return np.asarray((first == second).all(axis=1), np.bool_)


def _unless_endless(differ: Flags, allowed: Any) -> Flags:
    """What is never the same in the reference either says nothing."""
    return differ if allowed is None else differ & ~np.isinf(allowed)


# ---- reading them


def small_values(side: Side, rows: Ints) -> list[Small]:
    """What each row points to, if it is small and kept in full; else None."""
    ids, where = side.cells("value", rows), side.shard_of(rows)
    found: list[Small] = [None] * len(rows)
    for shard in np.unique(where).tolist():
        places = np.flatnonzero(where == shard)
        whole = side.values(shard).in_full(ids[places])
        places = places[whole]
        for place, value in zip(places.tolist(), _of_shard(side.table.shards[shard], ids[places]), strict=True):
            found[place] = value
    return found


def _of_shard(shard: ShardReader, ids: Ints) -> list[Small]:
    import pyarrow as pa

    from clew.store.arrays import numbers

    table = shard._values
    rows = table._locate(np.asarray(ids, np.int64))
    starts = np.array(table._starts, np.int64)
    batches = np.searchsorted(starts, rows, side="right") - 1
    found: list[Small] = [None] * len(ids)
    for number in np.unique(batches).tolist():
        places = np.flatnonzero(batches == number)
        taken = table._batches[number].take(numbers(rows[places] - starts[number], pa.int64()))
        bodies, parts = taken.field("body").to_pylist(), _inline(taken.field("parts"))
        for place, body, raw in zip(places.tolist(), bodies, parts, strict=True):
            found[place] = _small(body, raw)
    return found


def _inline(parts: Any) -> list[bytes | None]:
    """The bytes of each value that has one part, and has it in the record."""
    count = len(parts)
    offsets = np.frombuffer(parts.buffers()[1], np.int32, count + 1, parts.offset * 4)
    lengths = np.diff(offsets)
    flat = parts.flatten().field("inline").to_pylist()
    begins = (np.cumsum(lengths) - lengths).tolist()
    return [flat[begin] if length == 1 else None for begin, length in zip(begins, lengths.tolist(), strict=True)]


def _small(body: str | None, raw: bytes | None) -> Small:
    if body is None:
        return None
    if raw is not None:
        kind = _array_kind(body)
        return None if kind is None or len(raw) != kind.size else (kind, raw)
    if body.startswith(_SCALAR):
        return _scalar(body)
    if body.startswith('"'):
        return Kind(_TEXT, (), "str", 0), body.encode()
    return _plain_number(body)


def _scalar(body: str) -> Small:
    try:
        code, digits = json.loads(body)["is"]
        kind = _scalar_kind(code)
        return (kind, bytes.fromhex(digits)) if len(digits) == 2 * kind.size else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _plain_number(body: str) -> Small:
    """A number as JSON writes it; None of what is none, or too large to be told exactly."""
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

"""Two arrays of numbers beside each other, piece by piece: bytes come from disk in pieces and are never all in memory.

`scan` finds out whether they differ, as fast as they can be read; `measure` finds out how, for those people look at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import xxhash

from clew.compare.settings import Tolerance
from clew.store.blobs import DamagedBlobError
from clew.store.files import open_regular
from clew.values.dtypes import numbers_from

if TYPE_CHECKING:
    from pathlib import Path

    from clew.store.blobs import Part

Numbers = npt.NDArray[Any]
PIECE: Final = 1 << 17  # elements at a time: two pieces and their difference stay in the processor's cache
_PROBE: Final = 1024  # bytes that mostly tell already that two arrays are not the same
# explicit bits of the mantissa, and the exponent of the smallest normal number
_MANTISSA: Final = {
    "float64": (52, -1022),
    "float32": (23, -126),
    "float16": (10, -14),
    "bfloat16": (7, -126),
    "float8_e4m3fn": (3, -6),
    "float8_e5m2": (2, -14),
    "float8_e4m3fnuz": (3, -7),
    "float8_e5m2fnuz": (2, -15),
}


class Source:
    """An array whose elements are given out piece by piece, in C order."""

    def __init__(self, dtype: str, shape: tuple[int, ...], code: str, size: int) -> None:
        self.dtype = dtype
        self.shape = shape
        self.code = code  # as it is written: "<f4", "bfloat16"
        self.width = max(size, 1)  # bytes of an element
        self.unit: str | None = None  # of times: what they are told in, if that is not their own

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def raw(self, elements: int) -> Iterator[memoryview]:
        """The bytes of so many elements at a time. Each is good until the next is asked for."""
        raise NotImplementedError

    def numbers(self, raw: memoryview) -> Numbers | None:
        found = numbers_from(raw, self.code)
        return _narrow(found if found is None or self.unit is None else found.astype(self.unit))


class Stored(Source):
    """In a run: inline, or in its blob file. The bytes are checked as they are read."""

    def __init__(self, blobs: Path, part: Part, code: str, shape: tuple[int, ...], dtype: str | None) -> None:
        count, width = math.prod(shape), element_size(code)
        if (width or 1) * count > part.length or (width and width * count != part.length):
            raise DamagedBlobError("the bytes are not as many as the shape says")
        super().__init__(dtype or code, shape, code, width or (part.length // count if count else 1))
        self.blobs = blobs
        self.part = part

    def raw(self, elements: int) -> Iterator[memoryview]:
        size = elements * self.width
        if self.part.inline is not None:
            whole = memoryview(self.part.inline)
            for begin in range(0, len(whole), size):
                yield whole[begin : begin + size]
            return
        yield from _from_file(self.blobs, self.part, size)


def _from_file(path: Path, part: Part, size: int) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(min(size, max(part.length, 1))))
    digest = xxhash.xxh3_128()
    try:
        with open_regular(path) as file:
            file.seek(part.offset)
            left = part.length
            while left:
                piece = buffer[: min(len(buffer), left)]
                _fill(file, piece, path)
                digest.update(piece)
                left -= len(piece)
                yield piece
    except OSError as error:
        raise DamagedBlobError(f"{path.name} cannot be read: {error}") from error
    if digest.digest() != part.digest:
        raise DamagedBlobError(f"the bytes at {part.offset} of {path.name} are not those that were written")


def _fill(file: Any, piece: memoryview, path: Path) -> None:
    done = 0
    while done < len(piece):
        got = file.readinto(piece[done:])
        if not got:
            raise DamagedBlobError(f"{path.name} ends before what was written")
        done += got


@lru_cache(256)
def element_size(code: str) -> int:
    """Bytes of a number of a type as it is written; 0 for what is no number."""
    numbers = numbers_from(bytes(16), code)
    return 0 if numbers is None or not len(numbers) else 16 // len(numbers)


class InMemory(Source):
    """An array that was read back, as part of a container."""

    def __init__(self, array: Numbers, dtype: str) -> None:
        self._array = np.ascontiguousarray(array).reshape(-1)
        super().__init__(dtype, tuple(array.shape), array.dtype.str, array.dtype.itemsize)

    def raw(self, elements: int) -> Iterator[memoryview]:
        for begin in range(0, self._array.size, elements):
            yield memoryview(self._array[begin : begin + elements].view(np.uint8).data)


def _narrow(numbers: Numbers | None) -> Numbers | None:
    """Half floats as floats: NumPy has no arithmetic of its own for them."""
    if numbers is None:
        return None
    if numbers.dtype.kind == "f" and numbers.dtype.itemsize == 2:
        return numbers.astype(np.float32)
    if numbers.dtype.kind in "mM":
        return numbers.astype(np.int64)
    return numbers if numbers.dtype.kind in "biufc" else None


# ---- do they differ?


@dataclass(slots=True)
class Scan:
    """What a first look says."""

    differ: bool = False
    identical: bool = True
    magnitude: float = 0.0  # the largest absolute difference; Inf where there is no such number


def scan(a: Source, b: Source, tolerance: Tolerance, allowed: float = 0.0) -> Scan:
    """Of two arrays of one shape: whether they differ by more than the tolerance, or than is allowed anywhere."""
    alike = a.code == b.code
    _tell_in_one_unit(a, b)
    found = Scan(identical=alike)
    for raw_a, raw_b in _pieces(a, b):
        if alike and _same_bytes(raw_a, raw_b):
            continue
        found.identical = False
        x, y = a.numbers(raw_a), b.numbers(raw_b)
        if x is None or y is None:
            found.differ, found.magnitude = True, math.inf
        else:
            _look(x, y, tolerance, allowed, found)
    return found


def _tell_in_one_unit(a: Source, b: Source) -> None:
    """Times of two units, such as days and seconds, in the finer of both."""
    if a.code != b.code and a.code[1:2] in "mM" and a.code[1:2] == b.code[1:2]:
        a.unit = b.unit = np.promote_types(a.code, b.code).str


def _pieces(a: Source, b: Source) -> Iterator[tuple[memoryview, memoryview]]:
    """Both to their ends, where their bytes are found to be those that were written."""
    try:
        yield from zip(a.raw(PIECE), b.raw(PIECE), strict=True)
    except ValueError as error:
        raise DamagedBlobError("the bytes are not as many as the shape says") from error


def _same_bytes(a: memoryview, b: memoryview) -> bool:
    if len(a) != len(b) or a[:_PROBE].tobytes() != b[:_PROBE].tobytes():
        return False
    words = len(a) // 8 * 8
    first, second = np.frombuffer(a[:words], np.uint64), np.frombuffer(b[:words], np.uint64)
    return bool(np.array_equal(first, second)) and a[words:].tobytes() == b[words:].tobytes()


def _look(x: Numbers, y: Numbers, tolerance: Tolerance, allowed: float, found: Scan) -> None:
    with np.errstate(all="ignore"):
        distance = distances(x, y)
        largest = float(distance.max(initial=0))
        if not math.isfinite(largest):
            same = same_numbers(x, y)
            if not np.isfinite(distance[~same]).all():
                found.differ, found.magnitude = True, math.inf
                return
            distance = np.where(same, 0, distance)
            largest = float(distance.max(initial=0))
        found.magnitude = max(found.magnitude, largest)
        if not found.differ and largest > max(allowed, tolerance.atol):
            found.differ = _beyond(x, y, distance, largest, tolerance, allowed)


def _beyond(x: Numbers, y: Numbers, distance: Numbers, largest: float, tolerance: Tolerance, allowed: float) -> bool:
    if tolerance.exact:
        return True
    if not tolerance.ulp:
        size = np.abs(x)
        finite = float(np.max(size, initial=0, where=np.isfinite(size)))
        if largest > max(allowed, tolerance.atol + tolerance.rtol * finite):
            return True
    return bool(too_far(x, y, distance, tolerance, allowed).any())


def distances(x: Numbers, y: Numbers) -> Numbers:
    """|x - y|, exact for whole numbers."""
    if x.dtype.kind in "biu" and y.dtype.kind in "biu":
        return _whole_distances(x, y)
    if x.dtype.itemsize < y.dtype.itemsize and x.dtype.kind == "f":
        x = x.astype(y.dtype)
    difference = np.subtract(
        x, y, dtype=None if "c" in (x.dtype.kind + y.dtype.kind) else np.result_type(x, y, np.float32)
    )
    return np.asarray(np.abs(difference, out=difference if difference.dtype.kind == "f" else None))


def _whole_distances(x: Numbers, y: Numbers) -> Numbers:
    if x.dtype == np.uint64 or y.dtype == np.uint64:
        wide_x, wide_y = x.astype(np.longdouble), y.astype(np.longdouble)
        return np.asarray(np.abs(wide_x - wide_y))
    wide_x, wide_y = x.astype(np.int64), y.astype(np.int64)
    first, second = wide_x.view(np.uint64), wide_y.view(np.uint64)
    return np.where(wide_x > wide_y, first - second, second - first)


def same_numbers(x: Numbers, y: Numbers) -> npt.NDArray[np.bool_]:
    """Equal, or both NaN."""
    return np.asarray((x == y) | ((x != x) & (y != y)), np.bool_)


def too_far(
    x: Numbers, y: Numbers, distance: Numbers, tolerance: Tolerance, allowed: float, dtype: str = ""
) -> npt.NDArray[np.bool_]:
    """Where the tolerance does not reach."""
    size = np.abs(x)
    limit = np.maximum(tolerance.atol + tolerance.rtol * size.astype(np.float64), allowed)
    beyond = ~(distance <= limit) | (np.isinf(size) & (distance != 0))
    if tolerance.ulp:
        beyond &= ~(ulps(x, y, dtype or str(x.dtype), dtype or str(y.dtype)) <= tolerance.ulp)
    return np.asarray(beyond & ~same_numbers(x, y), np.bool_)


# ---- how do they differ?


@dataclass(slots=True)
class Measure:
    """How two values differ. What cannot be said is None."""

    max_abs: float | None = None
    max_rel: float | None = None  # of |a|
    max_ulp: float | None = None  # floating-point numbers between them, in the coarser of two types
    cosine: float | None = None
    count: int | None = None  # elements beyond the tolerance
    inexact: int | None = None  # elements that are not the same number
    total: int | None = None
    first_index: tuple[int, ...] | None = None  # the first beyond the tolerance
    first_values: tuple[Any, Any] | None = None
    worst_index: tuple[int, ...] | None = None  # where max_abs is
    nan: tuple[int, int] | None = None
    inf: tuple[int, int] | None = None
    nonfinite_index: tuple[int, ...] | None = None  # the first place where only one is NaN, or an Inf differs
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # where they are not the same
    dtypes: tuple[str, str] | None = None  # where they are not the same
    path: str = ""  # inside a container: where the first difference is
    note: str = ""


class _Sums:
    """What is added up over the pieces."""

    def __init__(self) -> None:
        self.abs = self.rel = self.ulp = 0.0
        self.dot = self.norm_x = self.norm_y = 0.0
        self.count = self.inexact = 0
        self.nan, self.inf = [0, 0], [0, 0]
        self.first: tuple[int, Any, Any] | None = None
        self.worst: int | None = None
        self.odd: int | None = None


def measure(a: Source, b: Source, tolerance: Tolerance, allowed: float = 0.0) -> Measure:
    """Everything people ask about the difference of two arrays of one shape."""
    sums, begin = _Sums(), 0
    known = True
    _tell_in_one_unit(a, b)
    with np.errstate(all="ignore"):
        for raw_a, raw_b in _pieces(a, b):
            x, y = a.numbers(raw_a), b.numbers(raw_b)
            if x is None or y is None:
                known = False
                x, y = _items(raw_a, a.width), _items(raw_b, b.width)
                _count_items(x, y, begin, sums)
            else:
                _add(x, y, a.dtype, b.dtype, begin, tolerance, allowed, sums)
            begin += len(x)
    dtypes = (a.dtype, b.dtype) if a.dtype != b.dtype else None
    index = None if sums.first is None else _index(sums.first[0], a.shape)
    if not known:
        return Measure(count=sums.count, inexact=sums.count, total=a.count, first_index=index, dtypes=dtypes)
    product = math.sqrt(sums.norm_x) * math.sqrt(sums.norm_y)
    return Measure(
        max_abs=sums.abs,
        max_rel=sums.rel,
        max_ulp=sums.ulp if _MANTISSA.keys() & {_bare(a.dtype), _bare(b.dtype)} else None,
        cosine=max(-1.0, min(1.0, sums.dot / product)) if a.count > 1 and 0 < product < math.inf else None,
        count=sums.count,
        inexact=sums.inexact,
        total=a.count,
        first_index=index,
        first_values=None if sums.first is None else sums.first[1:],
        worst_index=None if sums.worst is None else _index(sums.worst, a.shape),
        nan=(sums.nan[0], sums.nan[1]),
        inf=(sums.inf[0], sums.inf[1]),
        nonfinite_index=None if sums.odd is None else _index(sums.odd, a.shape),
        dtypes=dtypes,
        note=f"{a.dtype} and {b.dtype} were compared after widening" if dtypes else "",
    )


def _add(
    x: Numbers, y: Numbers, dtype_x: str, dtype_y: str, begin: int, tolerance: Tolerance, allowed: float, sums: _Sums
) -> None:
    distance = distances(x, y)
    same = same_numbers(x, y)
    distance = np.where(same, 0, distance)
    sums.inexact += int(np.count_nonzero(~same))
    for place, numbers in enumerate((x, y)):
        sums.nan[place] += int(np.count_nonzero(numbers != numbers))
        sums.inf[place] += int(np.count_nonzero(np.isinf(numbers))) if numbers.dtype.kind in "fc" else 0
    finite = np.isfinite(distance)
    odd = np.flatnonzero(~finite)
    if len(odd) and sums.odd is None:
        sums.odd = begin + int(odd[0])
    size = np.abs(x).astype(np.float64)
    if finite.any():
        at = int(np.where(finite, distance, -1 if distance.dtype.kind == "f" else 0).argmax())
        if float(distance[at]) > sums.abs:
            sums.abs, sums.worst = float(distance[at]), begin + at
        relative = distance / size
        sums.rel = max(sums.rel, float(np.max(relative, initial=0, where=finite & (size > 0))))
        if bool((finite & (size == 0) & (distance > 0)).any()):
            sums.rel = math.inf
        apart = ulps(x, y, dtype_x, dtype_y)
        sums.ulp = max(sums.ulp, float(np.max(apart, initial=0, where=finite & np.isfinite(apart))))
    _add_angle(x, y, sums)
    far = np.flatnonzero(too_far(x, y, distance, tolerance, allowed, dtype_x if dtype_x == dtype_y else ""))
    sums.count += len(far)
    if len(far) and sums.first is None:
        at = int(far[0])
        sums.first = begin + at, x[at].item(), y[at].item()


def _add_angle(x: Numbers, y: Numbers, sums: _Sums) -> None:
    good = np.isfinite(x) & np.isfinite(y)
    kind = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
    left, right = x[good].astype(kind), y[good].astype(kind)
    sums.dot += float(np.vdot(left, right).real)
    sums.norm_x += float(np.vdot(left, left).real)
    sums.norm_y += float(np.vdot(right, right).real)


def _items(raw: memoryview, width: int) -> Numbers:
    """Elements that are no numbers, as bytes."""
    return np.frombuffer(raw, np.dtype((np.void, width)))


def _count_items(x: Numbers, y: Numbers, begin: int, sums: _Sums) -> None:
    if x.dtype != y.dtype or len(x) != len(y):
        sums.count += max(len(x), len(y))
        sums.first = sums.first or (begin, None, None)
        return
    differ = np.flatnonzero(np.array([p != q for p, q in zip(x.tolist(), y.tolist(), strict=True)], np.bool_))
    sums.count += len(differ)
    if len(differ) and sums.first is None:
        sums.first = begin + int(differ[0]), None, None


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(place) for place in np.unravel_index(flat, shape)) if shape else ()


def _bare(dtype: str) -> str:
    return dtype.rpartition(".")[2]


def ulps(x: Numbers, y: Numbers, dtype_x: str, dtype_y: str) -> npt.NDArray[np.float64]:
    """How many floating-point numbers lie between x and y; NaN where they are no real floats."""
    if x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        return np.full(len(x), np.nan)
    bits, lowest = min(_MANTISSA.get(_bare(name), (52, -1022)) for name in (dtype_x, dtype_y))
    if bits == 52 and x.dtype == y.dtype == np.float64:
        return _apart(x, y, np.int64)
    if bits == 23 and x.dtype == y.dtype == np.float32:
        return _apart(x, y, np.int32)
    return np.abs(_scale(x, bits, lowest) - _scale(y, bits, lowest))


def _apart(x: Numbers, y: Numbers, kind: Any) -> npt.NDArray[np.float64]:
    """By the bits themselves: neighbouring floats are neighbouring whole numbers."""
    top = np.iinfo(kind).min
    first, second = (np.where(n < 0, top - n, n) for n in (np.ascontiguousarray(z).view(kind) for z in (x, y)))
    return _whole_distances(first, second).astype(np.float64)


def _scale(x: Numbers, bits: int, lowest: int) -> npt.NDArray[np.float64]:
    """Where a number stands on the scale on which the neighbours of a coarser type are one apart."""
    wide = x.astype(np.float64)
    _, exponent = np.frexp(wide)
    exponent = np.maximum(exponent - 1, lowest)
    inside = np.ldexp(np.abs(wide), bits - exponent)  # from 2**bits up to 2**(bits + 1); less below the normal numbers
    return np.asarray(np.sign(wide) * (inside + (exponent - lowest) * 2.0**bits), np.float64)

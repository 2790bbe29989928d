"""Compares two arrays of numbers piece by piece: their bytes are never all in memory.

`scan` finds out whether they differ, as fast as they can be read; `measure` finds out how, for those that people
look at.
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
from clew.store.run_files import open_regular
from clew.values.dtypes import numbers_from

if TYPE_CHECKING:
    from pathlib import Path

    from clew.store.blobs import Part

Numbers = npt.NDArray[Any]
PIECE: Final = 1 << 17  # elements at a time: two pieces and their difference stay in the processor's cache
_PROBE: Final = 1024  # first bytes, which mostly show already that two arrays are not the same
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
    """An array whose elements are read piece by piece, in C order."""

    def __init__(self, dtype: str, shape: tuple[int, ...], code: str, size: int) -> None:
        self.dtype = dtype
        self.shape = shape
        self.code = code  # the dtype as stored: "<f4", "bfloat16"
        self.width = max(size, 1)  # bytes of an element
        self.unit: str | None = None  # of times: the dtype they are converted to, if any

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def raw(self, elements: int) -> Iterator[memoryview]:
        """The bytes of so many elements at a time. Each piece is valid until the next is read."""
        raise NotImplementedError

    def numbers(self, raw: memoryview) -> Numbers | None:
        numbers = numbers_from(raw, self.code)
        return _computable(numbers if numbers is None or self.unit is None else numbers.astype(self.unit))


class Stored(Source):
    """An array in a run: inline, or in the blob file. Its bytes are checked as they are read."""

    def __init__(self, blobs: Path, part: Part, code: str, shape: tuple[int, ...], dtype: str | None) -> None:
        count, width = math.prod(shape), element_size(code)
        if (width or 1) * count > part.length or (width and width * count != part.length):
            raise DamagedBlobError("the number of bytes does not fit the shape")
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
        yield from _read_pieces(self.blobs, self.part, size)


def _read_pieces(path: Path, part: Part, size: int) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(min(size, max(part.length, 1))))
    digest = xxhash.xxh3_128()
    try:
        with open_regular(path) as file:
            file.seek(part.offset)
            remaining = part.length
            while remaining:
                piece = buffer[: min(len(buffer), remaining)]
                _read_into(file, piece, path)
                digest.update(piece)
                remaining -= len(piece)
                yield piece
    except OSError as error:
        raise DamagedBlobError(f"{path.name} cannot be read: {error}") from error
    if digest.digest() != part.digest:
        raise DamagedBlobError(f"the bytes at {part.offset} of {path.name} are not those that were written")


def _read_into(file: Any, piece: memoryview, path: Path) -> None:
    position = 0
    while position < len(piece):
        count = file.readinto(piece[position:])
        if not count:
            raise DamagedBlobError(f"{path.name} ends before what was written")
        position += count


@lru_cache(256)
def element_size(code: str) -> int:
    """Bytes of one element of a stored dtype; 0 if its elements are not numbers."""
    numbers = numbers_from(bytes(16), code)
    return 0 if numbers is None or not len(numbers) else 16 // len(numbers)


class InMemory(Source):
    """An array that was read back as part of a container."""

    def __init__(self, array: Numbers, dtype: str) -> None:
        self._array = np.ascontiguousarray(array).reshape(-1)
        super().__init__(dtype, tuple(array.shape), array.dtype.str, array.dtype.itemsize)

    def raw(self, elements: int) -> Iterator[memoryview]:
        for begin in range(0, self._array.size, elements):
            yield memoryview(self._array[begin : begin + elements].view(np.uint8).data)


def _computable(numbers: Numbers | None) -> Numbers | None:
    """Numbers that NumPy computes with: half floats become floats, times become integers; None for anything else."""
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
    """Whether two arrays differ."""

    differ: bool = False
    identical: bool = True
    magnitude: float = 0.0  # the largest absolute difference; Inf where that is not a number


def scan(a: Source, b: Source, tolerance: Tolerance, allowed: float = 0.0) -> Scan:
    """Whether two arrays of one shape differ anywhere by more than the tolerance and more than is allowed."""
    same_code = a.code == b.code
    _use_one_unit(a, b)
    result = Scan(identical=same_code)
    for raw_a, raw_b in _read_pairs(a, b):
        if same_code and _same_bytes(raw_a, raw_b):
            continue
        result.identical = False
        x, y = a.numbers(raw_a), b.numbers(raw_b)
        if x is None or y is None:
            result.differ, result.magnitude = True, math.inf
        else:
            _scan_piece(x, y, tolerance, allowed, result)
    return result


def _use_one_unit(a: Source, b: Source) -> None:
    """Convert times of two units, such as days and seconds, to the finer one."""
    if a.code != b.code and a.code[1:2] in "mM" and a.code[1:2] == b.code[1:2]:
        a.unit = b.unit = np.promote_types(a.code, b.code).str


def _read_pairs(a: Source, b: Source) -> Iterator[tuple[memoryview, memoryview]]:
    """Pieces of both. Both are read to their ends, because only then their bytes are verified."""
    try:
        yield from zip(a.raw(PIECE), b.raw(PIECE), strict=True)
    except ValueError as error:
        raise DamagedBlobError("the number of bytes does not fit the shape") from error


def _same_bytes(a: memoryview, b: memoryview) -> bool:
    if len(a) != len(b) or a[:_PROBE].tobytes() != b[:_PROBE].tobytes():
        return False
    end = len(a) // 8 * 8
    words_a, words_b = np.frombuffer(a[:end], np.uint64), np.frombuffer(b[:end], np.uint64)
    return bool(np.array_equal(words_a, words_b)) and a[end:].tobytes() == b[end:].tobytes()


def _scan_piece(x: Numbers, y: Numbers, tolerance: Tolerance, allowed: float, result: Scan) -> None:
    with np.errstate(all="ignore"):
        distance = distances(x, y)
        largest = float(distance.max(initial=0))
        if not math.isfinite(largest):
            same = same_numbers(x, y)
            if not np.isfinite(distance[~same]).all():
                result.differ, result.magnitude = True, math.inf
                return
            distance = np.where(same, 0, distance)
            largest = float(distance.max(initial=0))
        result.magnitude = max(result.magnitude, largest)
        if not result.differ and largest > max(allowed, tolerance.atol):
            result.differ = _any_too_far(x, y, distance, largest, tolerance, allowed)


def _any_too_far(
    x: Numbers, y: Numbers, distance: Numbers, largest: float, tolerance: Tolerance, allowed: float
) -> bool:
    if tolerance.exact:
        return True
    if not tolerance.ulp:
        size = np.abs(x)
        finite = float(np.max(size, initial=0, where=np.isfinite(size)))
        if largest > max(allowed, tolerance.atol + tolerance.rtol * finite):
            return True
    return bool(too_far(x, y, distance, tolerance, allowed).any())


def distances(x: Numbers, y: Numbers) -> Numbers:
    """|x - y|, exact for integers."""
    if x.dtype.kind in "biu" and y.dtype.kind in "biu":
        return _integer_distances(x, y)
    if x.dtype.kind == y.dtype.kind == "f" and x.dtype.itemsize < y.dtype.itemsize:
        x = x.astype(y.dtype)
    difference = np.subtract(
        x, y, dtype=None if "c" in (x.dtype.kind + y.dtype.kind) else np.result_type(x, y, np.float32)
    )
    return np.asarray(np.abs(difference, out=difference if difference.dtype.kind == "f" else None))


def _integer_distances(x: Numbers, y: Numbers) -> Numbers:
    if x.dtype == np.uint64 or y.dtype == np.uint64:
        wide_x, wide_y = x.astype(np.longdouble), y.astype(np.longdouble)
        return np.asarray(np.abs(wide_x - wide_y))
    wide_x, wide_y = x.astype(np.int64), y.astype(np.int64)
    unsigned_x, unsigned_y = wide_x.view(np.uint64), wide_y.view(np.uint64)
    return np.where(wide_x > wide_y, unsigned_x - unsigned_y, unsigned_y - unsigned_x)


def same_numbers(x: Numbers, y: Numbers) -> npt.NDArray[np.bool_]:
    """Equal, or both NaN."""
    return np.asarray((x == y) | ((x != x) & (y != y)), np.bool_)


def too_far(
    x: Numbers, y: Numbers, distance: Numbers, tolerance: Tolerance, allowed: float, dtype: str = ""
) -> npt.NDArray[np.bool_]:
    """Which numbers differ by more than the tolerance and more than is allowed."""
    size = np.abs(x)
    limit = np.maximum(tolerance.atol + tolerance.rtol * size.astype(np.float64), allowed)
    beyond = ~(distance <= limit) | (np.isinf(size) & (distance != 0))
    if tolerance.ulp:
        beyond &= ~(ulps(x, y, dtype or str(x.dtype), dtype or str(y.dtype)) <= tolerance.ulp)
    return np.asarray(beyond & ~same_numbers(x, y), np.bool_)


# ---- how do they differ?


@dataclass(slots=True)
class Measure:
    """How two values differ. What cannot be measured is None."""

    max_abs: float | None = None
    max_rel: float | None = None  # of |a|
    max_ulp: float | None = None  # floating-point numbers between them, in the coarser of two types
    cosine: float | None = None
    count: int | None = None  # elements beyond the tolerance
    inexact: int | None = None  # elements that are not equal
    total: int | None = None
    first_index: tuple[int, ...] | None = None  # the first beyond the tolerance
    first_values: tuple[Any, Any] | None = None
    worst_index: tuple[int, ...] | None = None  # where max_abs is
    nan: tuple[int, int] | None = None
    inf: tuple[int, int] | None = None
    nonfinite_index: tuple[int, ...] | None = None  # the first place where only one is NaN, or an Inf differs
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # if they are not the same
    dtypes: tuple[str, str] | None = None  # if they are not the same
    path: str = ""  # inside a container: where the first difference is
    note: str = ""


class _Totals:
    """Totals over the pieces that were measured so far."""

    def __init__(self) -> None:
        self.abs = self.rel = self.ulp = 0.0
        self.dot = self.squares_x = self.squares_y = 0.0
        self.count = self.inexact = 0
        self.nan, self.inf = [0, 0], [0, 0]
        self.first: tuple[int, Any, Any] | None = None
        self.worst: int | None = None
        self.first_nonfinite: int | None = None


def measure(a: Source, b: Source, tolerance: Tolerance, allowed: float = 0.0) -> Measure:
    """How two arrays of one shape differ."""
    totals, begin = _Totals(), 0
    all_numbers = True
    _use_one_unit(a, b)
    with np.errstate(all="ignore"):
        for raw_a, raw_b in _read_pairs(a, b):
            x, y = a.numbers(raw_a), b.numbers(raw_b)
            if x is None or y is None:
                all_numbers = False
                x, y = (np.frombuffer(raw, np.dtype((np.void, s.width))) for raw, s in ((raw_a, a), (raw_b, b)))
                _count_unequal_bytes(x, y, begin, totals)
            else:
                _add_piece(x, y, a.dtype, b.dtype, begin, tolerance, allowed, totals)
            begin += len(x)
    dtypes = (a.dtype, b.dtype) if a.dtype != b.dtype else None
    index = None if totals.first is None else _index(totals.first[0], a.shape)
    if not all_numbers:
        return Measure(count=totals.count, inexact=totals.count, total=a.count, first_index=index, dtypes=dtypes)
    product = math.sqrt(totals.squares_x) * math.sqrt(totals.squares_y)
    return Measure(
        max_abs=totals.abs,
        max_rel=totals.rel,
        max_ulp=totals.ulp if _MANTISSA.keys() & {_dtype_name(a.dtype), _dtype_name(b.dtype)} else None,
        cosine=max(-1.0, min(1.0, totals.dot / product)) if a.count > 1 and 0 < product < math.inf else None,
        count=totals.count,
        inexact=totals.inexact,
        total=a.count,
        first_index=index,
        first_values=None if totals.first is None else totals.first[1:],
        worst_index=None if totals.worst is None else _index(totals.worst, a.shape),
        nan=(totals.nan[0], totals.nan[1]),
        inf=(totals.inf[0], totals.inf[1]),
        nonfinite_index=None if totals.first_nonfinite is None else _index(totals.first_nonfinite, a.shape),
        dtypes=dtypes,
        note=f"{a.dtype} and {b.dtype} were compared after widening" if dtypes else "",
    )


def _add_piece(
    x: Numbers,
    y: Numbers,
    dtype_x: str,
    dtype_y: str,
    begin: int,
    tolerance: Tolerance,
    allowed: float,
    totals: _Totals,
) -> None:
    distance = distances(x, y)
    same = same_numbers(x, y)
    distance = np.where(same, 0, distance)
    totals.inexact += int(np.count_nonzero(~same))
    for place, numbers in enumerate((x, y)):
        totals.nan[place] += int(np.count_nonzero(numbers != numbers))
        totals.inf[place] += int(np.count_nonzero(np.isinf(numbers))) if numbers.dtype.kind in "fc" else 0
    finite = np.isfinite(distance)
    nonfinite = np.flatnonzero(~finite)
    if len(nonfinite) and totals.first_nonfinite is None:
        totals.first_nonfinite = begin + int(nonfinite[0])
    size = np.abs(x).astype(np.float64)
    if finite.any():
        at = int(np.where(finite, distance, -1 if distance.dtype.kind == "f" else 0).argmax())
        if float(distance[at]) > totals.abs:
            totals.abs, totals.worst = float(distance[at]), begin + at
        relative = distance / size
        totals.rel = max(totals.rel, float(np.max(relative, initial=0, where=finite & (size > 0))))
        if bool((finite & (size == 0) & (distance > 0)).any()):
            totals.rel = math.inf
        ulp_distance = ulps(x, y, dtype_x, dtype_y)
        totals.ulp = max(totals.ulp, float(np.max(ulp_distance, initial=0, where=finite & np.isfinite(ulp_distance))))
    _add_products(x, y, totals)
    differing = np.flatnonzero(too_far(x, y, distance, tolerance, allowed, dtype_x if dtype_x == dtype_y else ""))
    totals.count += len(differing)
    if len(differing) and totals.first is None:
        at = int(differing[0])
        totals.first = begin + at, x[at].item(), y[at].item()


def _add_products(x: Numbers, y: Numbers, totals: _Totals) -> None:
    """Add what the cosine is computed from."""
    finite = np.isfinite(x) & np.isfinite(y)
    dtype = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
    finite_x, finite_y = x[finite].astype(dtype), y[finite].astype(dtype)
    totals.dot += float(np.vdot(finite_x, finite_y).real)
    totals.squares_x += float(np.vdot(finite_x, finite_x).real)
    totals.squares_y += float(np.vdot(finite_y, finite_y).real)


def _count_unequal_bytes(x: Numbers, y: Numbers, begin: int, totals: _Totals) -> None:
    """Count the elements that differ where they are not numbers: `x` and `y` hold their bytes."""
    if x.dtype != y.dtype or len(x) != len(y):
        totals.count += max(len(x), len(y))
        totals.first = totals.first or (begin, None, None)
        return
    differ = np.flatnonzero(np.array([p != q for p, q in zip(x.tolist(), y.tolist(), strict=True)], np.bool_))
    totals.count += len(differ)
    if len(differ) and totals.first is None:
        totals.first = begin + int(differ[0]), None, None


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(place) for place in np.unravel_index(flat, shape)) if shape else ()


def _dtype_name(dtype: str) -> str:
    """The name without its library: `torch.float32` is `float32`."""
    return dtype.rpartition(".")[2]


def ulps(x: Numbers, y: Numbers, dtype_x: str, dtype_y: str) -> npt.NDArray[np.float64]:
    """How many floating-point numbers lie between x and y; NaN where they are not real numbers."""
    if x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        return np.full(len(x), np.nan)
    bits, lowest = min(_MANTISSA.get(_dtype_name(name), (52, -1022)) for name in (dtype_x, dtype_y))
    if bits == 52 and x.dtype == y.dtype == np.float64:
        return _bit_distance(x, y, np.int64)
    if bits == 23 and x.dtype == y.dtype == np.float32:
        return _bit_distance(x, y, np.int32)
    return np.abs(_ulp_position(x, bits, lowest) - _ulp_position(y, bits, lowest))


def _bit_distance(x: Numbers, y: Numbers, integer: Any) -> npt.NDArray[np.float64]:
    """The distance in ulps by the bits themselves: neighbouring floats are neighbouring integers."""
    lowest = np.iinfo(integer).min
    bits_x, bits_y = (np.ascontiguousarray(floats).view(integer) for floats in (x, y))
    order_x, order_y = (np.where(bits < 0, lowest - bits, bits) for bits in (bits_x, bits_y))
    return _integer_distances(order_x, order_y).astype(np.float64)


def _ulp_position(x: Numbers, bits: int, lowest: int) -> npt.NDArray[np.float64]:
    """The position of each number on a scale on which neighbours of a coarser type are one apart."""
    wide = x.astype(np.float64)
    _, exponent = np.frexp(wide)
    exponent = np.maximum(exponent - 1, lowest)
    mantissa = np.ldexp(np.abs(wide), bits - exponent)  # in [2**bits, 2**(bits + 1)); less for subnormal numbers
    return np.asarray(np.sign(wide) * (mantissa + (exponent - lowest) * 2.0**bits), np.float64)

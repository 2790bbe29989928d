"""Statistics of a tensor in the training thread: quick, and leaving no trace.

Memory of dense CPU tensors is read where it lies, with NumPy: no operator runs, so autograd, dispatch modes, profilers,
version counters, random state and torch's threads notice nothing. A block at a time goes through all the reductions
while it is in the cache. Numbers whose squares a float cannot hold are left to `stats.describe`, whose results all of
these are, within rounding. Tensors elsewhere are measured where they are, and only nine numbers are brought here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import inf, prod, sqrt
from typing import Any, Final

import numpy as np
from xxhash import xxh3_128

from clew.records import Summary
from clew.values.array_stats import can_describe, describe
from clew.values.dtypes import numbers_from
from clew.values.torch import (
    Unheard,
    _address,
    _dispatches,
    _dtype_name,
    _hashed,
    _memory,
    _Quiet,
    is_heard,
    torch,
)

_BLOCK: Final = 1 << 16  # elements that stay in the second cache from one reduction to the next
_ROW: Final = 1 << 13  # elements summed in their own precision; BLAS does so few without threads
_ONES: Final = {np.dtype(kind): np.ones(_ROW, kind) for kind in ("f4", "f8")}
_LIMITS: Final = {np.dtype("f4"): (1e-12, 1e15), np.dtype("f8"): (1e-140, 1e140)}  # sizes that are safe to square
_CANCELLED: Final = 16  # mean² by variance, above which their difference says too little

_strided: Final = torch.strided
_least: Final = np.minimum.reduce
_most: Final = np.maximum.reduce

Blocks = Callable[[], Iterator[Any]]  # the numbers as often as one asks, in flat pieces


def summarise(tensor: Any) -> Summary:
    """Shape, type, device, size and statistics of any tensor; without statistics where there is nothing to be read."""
    kind = type(tensor)
    usual = kind is torch.Tensor or kind is torch.nn.Parameter
    if usual and not is_heard():
        return _summary_of(tensor)
    if not usual and _dispatches(kind):
        return _outside_of(tensor)
    with Unheard():
        return _summary_of(tensor)


def _summary_of(tensor: Any) -> Summary:
    device = "cpu" if tensor.is_cpu else str(tensor.device)
    summary = Summary(None, _dtype_name(tensor.dtype), device)
    if tensor.is_nested:
        return summary  # without one shape
    summary.shape = tuple(tensor.shape)
    if tensor.layout is _strided and not tensor.is_quantized and not tensor.is_meta:
        try:
            summary.size = tensor.nbytes
            fill(tensor, summary)
        except (RuntimeError, NotImplementedError):  # functorch wrappers, storages given away, odd backends
            pass
    return summary


def _outside_of(tensor: Any) -> Summary:
    """Of a tensor with a dispatch of its own, whose code would run."""
    try:
        with _Quiet():
            shape = tuple(tensor.shape)
            plain = all(type(length) is int for length in shape)  # a jagged tensor has symbols there
            return Summary(shape if plain else None, _dtype_name(tensor.dtype), str(tensor.device))
    except (RuntimeError, NotImplementedError, TypeError):
        return Summary()


def fill(tensor: Any, summary: Summary) -> None:
    """Add the statistics of a strided tensor; the caller keeps `__torch_function__` away."""
    count = tensor.numel()
    if not count:
        if _reading(tensor.dtype) is not None:
            summary.nan = summary.inf = 0
    elif not tensor.is_cpu:
        _fill_from_device(tensor, summary)
    elif tensor.is_neg():
        with _Quiet():
            fill(tensor.detach().resolve_neg(), summary)
    else:  # conjugates are as large as what they are of
        _fill_from_memory(tensor, count, summary)


def described(tensor: Any, pieces: Iterator[Any], summary: Summary) -> bytes:
    """Add the statistics, and give the hash of the bytes, which come in pieces."""
    if tensor.is_cpu:
        fill(tensor, summary)
        return _hashed(pieces)
    hasher, dtype = xxh3_128(), _dtype_name(tensor.dtype)

    def numbers() -> Iterator[Any]:  # the bytes are brought here for the hash: one pass does for both
        for piece in pieces:
            hasher.update(piece)
            found = numbers_from(piece, dtype)
            if found is not None and can_describe(found.dtype):
                yield found

    with np.errstate(all="ignore"):
        describe(numbers(), summary)
    if summary.zeros is None:
        summary.nan = summary.inf = None  # nothing of it was a number
    return hasher.digest()


# ---- in memory


def _fill_from_memory(tensor: Any, count: int, summary: Summary) -> None:
    reading = _reading(tensor.dtype)
    if reading is None:
        return
    array, times = _in_memory(tensor, reading[0], count)

    def blocks() -> Iterator[Any]:
        return _blocks(array, reading[1])

    with np.errstate(all="ignore"):
        if tensor.is_complex() or not _quick(blocks, count // times, summary):
            describe(blocks(), summary)
    if times > 1:
        summary.nan, summary.inf = (summary.nan or 0) * times, (summary.inf or 0) * times
        summary.norm = None if summary.norm is None else summary.norm * sqrt(times)


@cache
def _reading(dtype: Any) -> tuple[Any, Callable[[Any], Any] | None] | None:
    """As what NumPy is to see the memory, and how that becomes floats; None for a type of no numbers."""
    name = _dtype_name(dtype)
    numbers = numbers_from(bytes(16), name)
    if numbers is None or not can_describe(numbers.dtype):
        return None
    if numbers.itemsize != dtype.itemsize or name == "bfloat16" or name.startswith("float8"):
        seen = np.dtype(f"u{dtype.itemsize}")
        return seen, _from_bfloat16 if name == "bfloat16" else lambda block: numbers_from(block, name)
    if numbers.dtype == np.float16:
        return numbers.dtype, lambda block: block.astype(np.float32)
    return numbers.dtype, None if numbers.dtype.kind in "fc" else lambda block: block.astype(np.float64)


def _from_bfloat16(block: Any) -> Any:
    """They are the upper halves of float32."""
    wide = block.astype(np.uint32)
    np.left_shift(wide, 16, out=wide)
    return wide.view(np.float32)


def _in_memory(tensor: Any, dtype: Any, count: int) -> tuple[Any, int]:
    """The elements as an array, flat if they lie together in whatever order; and how often each of them counts."""
    if tensor.is_contiguous():
        size = count * dtype.itemsize
        return np.frombuffer(_memory(_address(tensor, size), size), dtype), 1
    axes = [(stride, length) for stride, length in zip(tensor.stride(), tensor.shape, strict=True) if length > 1]
    times = prod(length for stride, length in axes if not stride)  # those of `expand` are the same over and over
    axes = sorted(((stride, length) for stride, length in axes if stride), reverse=True)
    size = dtype.itemsize * (1 + sum(stride * (length - 1) for stride, length in axes))
    memory = _memory(_address(tensor, size), size)
    if size == count // times * dtype.itemsize and _is_dense(axes):
        return np.frombuffer(memory, dtype), times
    strides = [stride * dtype.itemsize for stride, _ in axes]
    return np.ndarray([length for _, length in axes], dtype, memory, 0, strides), times


def _is_dense(axes: list[tuple[int, int]]) -> bool:
    """True if elements along these axes, the widest first, leave no gap and do not overlap: a transposed tensor."""
    step = 1
    for stride, length in reversed(axes):
        if stride != step:
            return False
        step *= length
    return True


def _blocks(array: Any, convert: Callable[[Any], Any] | None) -> Iterator[Any]:
    """Flat and without gaps; of a scattered array each is good until the next one is asked for."""
    pieces: Any
    if array.ndim == 1 and array.flags.c_contiguous:
        pieces = (array[start : start + _BLOCK] for start in range(0, array.size, _BLOCK))
    else:
        in_one_piece: Any = [["readonly", "contig"]]
        pieces = np.nditer(array, ["external_loop", "buffered"], in_one_piece, buffersize=_BLOCK)
    return iter(pieces) if convert is None else map(convert, pieces)


def _quick(blocks: Blocks, count: int, summary: Summary) -> bool:
    """The statistics of numbers of ordinary size; False, and nothing done, if there are others."""
    tally = _Tally()
    for block in blocks():
        if not tally.add(block):
            return False
    if 0.0 < tally.peak < _LIMITS[block.dtype][0]:
        return False
    summary.nan, summary.inf, summary.zeros = tally.nan, tally.inf, tally.zeros / count
    if tally.low <= tally.high:
        summary.min, summary.max = tally.low, tally.high
    finite = count - tally.nan - tally.inf
    if finite:
        summary.mean, summary.std, summary.norm = _moments(tally, blocks, finite)
    return True


def _moments(tally: _Tally, blocks: Blocks, count: int) -> tuple[float, float, float]:
    """Mean, standard deviation, norm."""
    if tally.low == tally.high:
        return tally.low, 0.0, abs(tally.low) * sqrt(count)
    mean = tally.total / count
    spread = tally.square / count - mean * mean
    if mean * mean <= _CANCELLED * spread:
        return mean, sqrt(spread), sqrt(tally.square)
    mean, spread = _centred(blocks, count, mean, broken=tally.nan + tally.inf > 0)
    return mean, sqrt(spread), sqrt(count * (spread + mean * mean))


class _Tally:
    """What one pass over the blocks finds."""

    __slots__ = ("high", "inf", "low", "nan", "peak", "square", "total", "zeros")

    def __init__(self) -> None:
        self.low, self.high = inf, -inf
        self.peak = self.total = self.square = 0.0  # of the finite numbers
        self.zeros = self.nan = self.inf = 0

    def add(self, block: Any) -> bool:
        """Count a block in; False if its numbers are too large for that."""
        least, most = float(_least(block)), float(_most(block))
        if -inf < least <= most < inf:  # which no NaN is
            self.low, self.high = min(self.low, least), max(self.high, most)
        else:
            block = self._mended(block)
            least, most = float(_least(block)), float(_most(block))
        self.peak = max(self.peak, -least, most)
        if self.peak > _LIMITS[block.dtype][1]:
            return False
        if least <= 0.0 <= most:
            self.zeros += block.size - int(np.count_nonzero(block != 0))
        self.total += _sum(block)
        self.square += _sum_of_squares(block)
        return True

    def _mended(self, block: Any) -> Any:
        """The block with zeros in place of NaN and Inf, which are counted, and the zeros not."""
        nan = int(np.count_nonzero(np.isnan(block)))
        if nan < block.size:
            self.low = min(self.low, float(np.fmin.reduce(block)))  # these two pass NaN over
            self.high = max(self.high, float(np.fmax.reduce(block)))
        good = np.isfinite(block)
        lost = block.size - int(np.count_nonzero(good))
        self.nan, self.inf, self.zeros = self.nan + nan, self.inf + lost - nan, self.zeros - lost
        return _zero_unless(good, block)


def _centred(blocks: Blocks, count: int, middle: float, *, broken: bool) -> tuple[float, float]:
    """Mean and variance from the distances to a number near the mean."""
    total = square = 0.0
    for block in blocks():
        centre = block.dtype.type(middle)
        away = block - centre
        if broken:
            away = _zero_unless(np.isfinite(block), away)
        total += _sum(away)
        square += _sum_of_squares(away)
    shift = total / count
    return float(centre) + shift, max(square / count - shift * shift, 0.0)


def _zero_unless(good: Any, block: Any) -> Any:
    """Bits times one or zero: `np.where` takes ten times as long, because it branches."""
    return (block.view(f"i{block.itemsize}") * good).view(block.dtype)


def _sum(block: Any) -> float:
    size, ones = block.size, _ONES[block.dtype]
    if size <= _ROW:
        return float(block.dot(ones[:size]))
    whole = size - size % _ROW
    rows = np.matmul(block[:whole].reshape(-1, 1, _ROW), ones[:, None])  # one dot product a row
    return sum(rows.ravel().tolist(), float(block[whole:].dot(ones[: size - whole])))  # rows are added as Python floats


def _sum_of_squares(block: Any) -> float:
    size = block.size
    if size <= _ROW:
        return float(block.dot(block))
    whole = size - size % _ROW
    head, tail = block[:whole], block[whole:]
    rows = np.matmul(head.reshape(-1, 1, _ROW), head.reshape(-1, _ROW, 1))
    return sum(rows.ravel().tolist(), float(tail.dot(tail)))


# ---- on another device


def _fill_from_device(tensor: Any, summary: Summary) -> None:
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return  # nothing may be read while a graph is captured
    with _Quiet():
        found = _measured(tensor.detach()).tolist()  # the one time that is waited
    low, high, count, nan, zero, centre, shift, away, norm = found
    size = tensor.numel()
    summary.nan, summary.inf, summary.zeros = int(nan), size - int(nan) - int(count), zero / size
    if low <= high and not tensor.is_complex():
        summary.min, summary.max = low, high
    if count:
        summary.norm = norm
    if count and not tensor.is_complex():
        shift /= count
        summary.mean, summary.std = centre + shift, sqrt(max(away * away / count - shift * shift, 0.0))


def _measured(tensor: Any) -> Any:
    """Nine numbers, on the tensor's device: nothing here waits for it."""
    wide = torch.float32 if tensor.device.type == "mps" else torch.float64  # which has no other
    if not tensor.is_complex() and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32 if tensor.is_floating_point() else wide)
    zero, nan, finite = (tensor == 0).sum(), tensor.isnan(), tensor.isfinite()
    if tensor.is_complex():
        tensor = tensor.abs()
    kept = tensor.where(finite, 0)
    count = finite.sum()
    centre = (kept.sum(dtype=wide) / count).to(tensor.dtype)
    away = (tensor - centre).where(finite, 0)
    found = [
        tensor.where(~nan, inf).amin(),
        tensor.where(~nan, -inf).amax(),
        count,
        nan.sum(),
        zero,
        centre,
        away.sum(dtype=wide),
        torch.linalg.vector_norm(away, dtype=wide),
        torch.linalg.vector_norm(kept, dtype=wide),
    ]
    return torch.stack([one.to(wide) for one in found])

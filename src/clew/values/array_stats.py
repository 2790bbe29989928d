"""Minimum, maximum, mean, spread, norm, zeros, NaN and Inf of an array, piece by piece: bounded memory, one pass.

At capture only for arrays whose bytes are not kept; everything else is left to whoever reads (`filled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import hypot, sqrt
from typing import Any, Final

import numpy as np

from clew.records import Summary, Value
from clew.values.dtypes import array_in, numbers_from

PIECE: Final = 1 << 18  # elements at a time


def describe(pieces: Iterable[Any], summary: Summary) -> None:
    """Fill in the statistics. NaNs are counted and otherwise left out; mean, std and norm are of the finite numbers.

    Complex numbers have a norm, but no order, and no mean that a float could hold.
    """
    nan = inf = count = size = zeros = 0
    low, high, mean, spread, norm = np.inf, -np.inf, 0.0, 0.0, 0.0
    is_complex = False
    for piece in pieces:
        if piece.size == 0:
            continue
        is_complex = piece.dtype.kind == "c"
        size, zeros = size + piece.size, zeros + piece.size - int(np.count_nonzero(piece != 0))
        finite, lost, endless, ends = _finite(piece)
        nan, inf = nan + lost, inf + endless
        if ends is not None:
            low, high = min(low, ends[0]), max(high, ends[1])
        if finite.size:  # Chan's way of joining means and squared deviations
            norm = hypot(norm, _norm(finite))
            part = float(finite.mean())
            total = count + finite.size
            delta = part - mean
            spread += float(np.square(finite - part).sum()) + delta * delta * count * finite.size / total
            mean += delta * finite.size / total
            count = total
    summary.nan, summary.inf = nan, inf
    if size:
        summary.zeros = zeros / size
    if low <= high:
        summary.min, summary.max = float(low), float(high)
    if count:
        summary.norm = norm
        if not is_complex:
            summary.mean, summary.std = mean, sqrt(spread / count)


def _finite(piece: Any) -> tuple[Any, int, int, tuple[float, float] | None]:
    if piece.dtype.kind in "biu":
        numbers = piece.astype(np.float64)
        return numbers, 0, 0, (float(piece.min()), float(piece.max()))
    if piece.dtype.kind == "c":
        return _finite_sizes(piece)
    numbers = piece.astype(np.float64)
    good = np.isfinite(numbers)
    if good.all():
        return numbers, 0, 0, (float(numbers.min()), float(numbers.max()))
    lost = int(np.count_nonzero(np.isnan(numbers)))
    finite = numbers[good]
    ends = float(np.fmin.reduce(numbers, axis=None)), float(np.fmax.reduce(numbers, axis=None))  # which pass NaNs over
    return finite, lost, numbers.size - lost - finite.size, ends if lost < numbers.size else None


def _finite_sizes(piece: Any) -> tuple[Any, int, int, None]:
    """How large complex numbers are: all that is asked of them besides NaN and Inf, which either half can be."""
    lost = int(np.count_nonzero(np.isnan(piece)))
    finite = np.abs(piece[np.isfinite(piece)].astype(np.complex128))
    return finite, lost, piece.size - lost - finite.size, None


def _norm(finite: Any) -> float:
    total = float(np.square(finite).sum())
    if 1e-280 < total < np.inf:
        return sqrt(total)
    peak = float(np.abs(finite).max())  # squares that a float cannot hold
    return peak * sqrt(float(np.square(finite / peak).sum())) if peak else 0.0


def pieces_of(numbers: Any) -> Iterator[Any]:
    for start in range(0, numbers.size, PIECE):
        yield numbers[start : start + PIECE]


def can_describe(dtype: Any) -> bool:
    return dtype is not None and dtype.kind in "biufc"


def filled(value: Value) -> Summary:
    """The summary of a stored value; statistics that were left to the reader are computed from its bytes."""
    summary = value.summary
    known = summary.min is not None or summary.nan is not None
    if known or summary.dtype is None or value.body is None or not value.parts:
        return summary
    array = array_in(value.body)
    if array is None or array.part >= len(value.parts):
        return summary
    numbers = numbers_from(value.parts[array.part], array.code)
    if numbers is None or not can_describe(numbers.dtype):
        return summary
    summary = replace(summary)
    with np.errstate(all="ignore"):
        describe(pieces_of(numbers), summary)
    return summary

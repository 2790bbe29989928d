"""Minimum, maximum, mean, spread, NaN and infinity counts of an array, piece by piece: bounded memory, one pass.

At capture only for arrays whose bytes are not kept; everything else is left to whoever reads (`filled`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import sqrt
from typing import Any, Final

import numpy as np

from clew.records import Summary, Value
from clew.values.dtypes import numbers_from

PIECE: Final = 1 << 18  # elements at a time


def describe(pieces: Iterable[Any], summary: Summary) -> None:
    """Fill in the statistics. NaNs are counted and otherwise left out; mean and std are of the finite numbers."""
    nan = inf = count = 0
    low, high, mean, spread = np.inf, -np.inf, 0.0, 0.0
    for piece in pieces:
        if piece.size == 0:
            continue
        finite, lost, endless, ends = _finite(piece)
        nan, inf = nan + lost, inf + endless
        if ends is not None:
            low, high = min(low, ends[0]), max(high, ends[1])
        if finite.size:  # Chan's way of joining means and squared deviations
            part = float(finite.mean())
            total = count + finite.size
            delta = part - mean
            spread += float(np.square(finite - part).sum()) + delta * delta * count * finite.size / total
            mean += delta * finite.size / total
            count = total
    summary.nan, summary.inf = nan, inf
    if low <= high:
        summary.min, summary.max = float(low), float(high)
    if count:
        summary.mean, summary.std = mean, sqrt(spread / count)


def _finite(piece: Any) -> tuple[Any, int, int, tuple[float, float] | None]:
    if piece.dtype.kind in "biu":
        numbers = piece.astype(np.float64)
        return numbers, 0, 0, (float(piece.min()), float(piece.max()))
    numbers = piece.astype(np.float64)
    good = np.isfinite(numbers)
    if good.all():
        return numbers, 0, 0, (float(numbers.min()), float(numbers.max()))
    lost = int(np.isnan(numbers).sum())
    endless = numbers.size - lost - int(good.sum())
    known = numbers[~np.isnan(numbers)]
    return numbers[good], lost, endless, (float(known.min()), float(known.max())) if known.size else None


def pieces_of(numbers: Any) -> Iterator[Any]:
    for start in range(0, numbers.size, PIECE):
        yield numbers[start : start + PIECE]


def can_describe(dtype: Any) -> bool:
    return dtype is not None and dtype.kind in "biuf"


def filled(value: Value) -> Summary:
    """The summary of a stored value; statistics that were left to the reader are computed from its bytes."""
    summary = value.summary
    known = summary.min is not None or summary.nan is not None
    if known or summary.dtype is None or value.body is None or not value.parts:
        return summary
    tree = json.loads(value.body)
    if type(tree) is not dict or tree.get("$") not in ("numpy", "torch") or "part" not in tree:
        return summary
    numbers = numbers_from(value.parts[tree["part"]], tree["dtype"])
    if numbers is None or not can_describe(numbers.dtype):
        return summary
    summary = replace(summary)
    with np.errstate(all="ignore"):
        describe(pieces_of(numbers), summary)
    return summary

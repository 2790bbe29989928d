"""Converts values to plain JSON, with null for numbers that JSON cannot represent."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt


def number(value: Any) -> float | int | None:
    """A number, or None for NaN, Inf and None."""
    if value is None:
        return None
    if isinstance(value, (bool, int)):
        return int(value)
    as_float = float(value)
    return as_float if math.isfinite(as_float) else None


def numbers(column: npt.NDArray[Any]) -> list[Any]:
    """A column as a list of numbers, None where one is not finite; integers stay integers."""
    if column.dtype.kind in "iub":
        integers: list[Any] = column.tolist()
        return integers
    finite = np.isfinite(column)
    if bool(finite.all()):
        floats: list[Any] = column.tolist()
        return floats
    out = column.astype(object)
    out[~finite] = None
    return list(out.tolist())


def axis_numbers(column: npt.NDArray[Any]) -> list[Any]:
    """Numbers on an axis; whole numbers become integers, which halves the size of the answer."""
    if column.dtype.kind == "f" and bool(np.all(column == np.floor(column))) and bool(np.all(np.abs(column) < 2**53)):
        return numbers(column.astype(np.int64))
    return numbers(column)


def json_safe(item: Any) -> Any:
    """Data read from JSON in a form that strict JSON can hold: Python reads NaN, but other readers reject it."""
    if isinstance(item, float) and not math.isfinite(item):
        return repr(item)
    if isinstance(item, dict):
        return {key: json_safe(inner) for key, inner in item.items()}
    return [json_safe(inner) for inner in item] if isinstance(item, list) else item


def as_json(answer: Any) -> bytes:
    """Strict JSON in ASCII, so that text which cannot be encoded, such as a lone surrogate, is harmless."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii")

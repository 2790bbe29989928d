"""Plain JSON: numbers that JSON cannot say are null, whatever they came as."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt


def number(value: Any) -> float | int | None:
    """A number, or None for NaN, Inf and nothing."""
    if value is None:
        return None
    if isinstance(value, (bool, int)):
        return int(value)
    found = float(value)
    return found if math.isfinite(found) else None


def numbers(column: npt.NDArray[Any]) -> list[Any]:
    """A column of numbers, null where one is not finite; whole ones short."""
    if column.dtype.kind in "iub":
        whole: list[Any] = column.tolist()
        return whole
    finite = np.isfinite(column)
    if bool(finite.all()):
        listed: list[Any] = column.tolist()
        return listed
    out = column.astype(object)
    out[~finite] = None
    return list(out.tolist())


def places(column: npt.NDArray[Any]) -> list[Any]:
    """Places on an axis: whole numbers as such, which are half as long to send."""
    if column.dtype.kind == "f" and bool(np.all(column == np.floor(column))) and bool(np.all(np.abs(column) < 2**53)):
        return numbers(column.astype(np.int64))
    return numbers(column)


def told(item: Any) -> Any:
    """What was read from JSON, as JSON can be written: Python reads NaN, which nobody else does."""
    if isinstance(item, float) and not math.isfinite(item):
        return repr(item)
    if isinstance(item, dict):
        return {key: told(inner) for key, inner in item.items()}
    return [told(inner) for inner in item] if isinstance(item, list) else item


def as_json(answer: Any) -> bytes:
    """Strict JSON in ASCII: what is written nowhere needs to be trusted to be text, a lone surrogate for instance."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii")

"""Reads the single number in each of many small values as columns, such as losses that are still tensors."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_NUMBER = re.compile(r"[<>|=]?(\?|b1|[iu][1248]|f(2|4|8|16))|bool|u?int(8|16|32|64)|float(16|32|64)")
_SCALAR = '{"$":"numpy.scalar","is":["'  # as values/numpy.py writes it: dtype and bytes in hex


def single_numbers(batch: pa.StructArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """By row of a batch of values: its single number (else NaN), and whether it has one."""
    numbers, exists = np.full(len(batch), np.nan), np.zeros(len(batch), dtype=np.bool_)
    bodies: list[str | None] = batch.field("body").to_pylist()
    parts: list[list[dict[str, Any]]] = batch.field("parts").to_pylist()
    groups: dict[str, list[int]] = {}  # by body: a series of tensors has one, or very few
    for row, body in enumerate(bodies):
        if body is None:
            continue
        if body.startswith(_SCALAR):
            number = _scalar(body)
            numbers[row], exists[row] = np.nan if number is None else number, number is not None
        elif body.startswith('{"$":') and len(parts[row]) == 1 and parts[row][0]["inline"] is not None:
            groups.setdefault(body, []).append(row)
    for body, rows in groups.items():
        dtype = _dtype_of_single(body)
        if dtype:
            read = _to_floats(b"".join(parts[row][0]["inline"] for row in rows), dtype)
            if read is not None and len(read) == len(rows):
                numbers[rows], exists[rows] = read, True
    return numbers, exists


def _dtype_of_single(body: str) -> str:
    """The dtype of an array of one number; "" for anything else."""
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if type(tree) is not dict or tree.get("$") not in ("numpy", "torch") or type(tree.get("dtype")) is not str:
        return ""
    shape = tree.get("shape")
    return tree["dtype"] if type(shape) is list and all(side == 1 for side in shape) else ""


def _scalar(body: str) -> float | None:
    try:
        dtype, digits = json.loads(body)["is"]
        numbers = _to_floats(bytes.fromhex(digits), dtype)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return float(numbers[0]) if numbers is not None and len(numbers) == 1 else None


def _to_floats(raw: bytes, dtype: Any) -> npt.NDArray[np.float64] | None:
    """The numbers as floats; None for complex numbers, dates and types that NumPy does not have."""
    try:
        if dtype == "bfloat16":
            return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").astype(np.float64)
        if type(dtype) is not str or not _NUMBER.fullmatch(dtype):
            return None
        with np.errstate(over="ignore"):  # a long double may become Inf
            return np.frombuffer(raw, np.dtype(dtype)).astype(np.float64)
    except (TypeError, ValueError):
        return None

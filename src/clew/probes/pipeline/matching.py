"""Which sample became which row of a batch, told by their content: collate functions sort rows, and leave some out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .flow import shape_of

_DEEP = 4
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Match:
    """`order[row]` is the number of the sample; None: nothing speaks against the order of the samples."""

    order: tuple[int, ...] | None = None
    lost: str = ""


def matched(samples: list[Any], batch: Any) -> Match:
    """How the rows of a batch came from the samples."""
    rows = _row_count(batch)
    if rows is None or len(samples) > _ROWS:
        return Match()
    best: Match | None = None
    for path, column in _columns(batch, rows):
        values = [_at(sample, path) for sample in samples]
        order = _order(values, column, rows)
        if order is not None:
            best = Match(order)
            break
    if best is not None:
        return Match() if best.order == tuple(range(len(samples))) else best
    if rows != len(samples):
        return Match(lost=f"{len(samples)} samples went in and {rows} rows came out; which they are is not known")
    return Match()


def _row_count(batch: Any) -> int | None:
    return next((len(column) for _, column in _columns(batch, None)), None)


def _columns(batch: Any, rows: int | None, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Arrays of so many rows in a batch, with the way to them."""
    shape = shape_of(batch)
    if shape is not None:
        if shape and (rows is None or shape[0] == rows):
            yield path, batch
        return
    if len(path) >= _DEEP:
        return
    if type(batch) is dict:
        for key, value in batch.items():
            yield from _columns(value, rows, (*path, key))
    elif isinstance(batch, (list, tuple)) and len(batch) < _ROWS:
        for number, value in enumerate(batch):
            yield from _columns(value, rows, (*path, number))


def _at(sample: Any, path: tuple[Any, ...]) -> Any:
    """The part of a sample that stands where the column stands in the batch; None if there is none."""
    for key in path:
        inside = key in sample if type(sample) is dict else isinstance(sample, (list, tuple)) and _is_place(key, sample)
        if not inside:
            return None
        sample = sample[key]
    return sample


def _is_place(key: Any, items: Any) -> bool:
    return type(key) is int and key < len(items)


def _order(values: list[Any], column: Any, rows: int) -> tuple[int, ...] | None:
    """For each row the one sample it is equal to; None if that is not clear."""
    arrays = [_array(value) for value in values]
    table = _array(column)
    if table is None or not any(array is not None for array in arrays):
        return None
    in_place = len(values) == rows and all(
        array is not None and _begins(table[row], array) for row, array in enumerate(arrays)
    )
    if in_place:
        return tuple(range(rows))
    order: list[int] = []
    for row in range(rows):
        found = [number for number, array in enumerate(arrays) if array is not None and _begins(table[row], array)]
        if len(found) != 1:
            return None
        order.append(found[0])
    distinct = len(set(order)) == len(order)
    return tuple(order) if distinct else None


def _array(value: Any) -> Any:
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided:
            return None
        value = value.detach()
        return (value.float() if value.dtype is torch.bfloat16 else value).numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    return np.asarray(value) if type(value) in (int, float, bool) else None


def _begins(row: Any, sample: Any) -> bool:
    """Whether a row is the sample, or the sample with padding behind it."""
    import numpy as np

    if row.ndim != sample.ndim:
        return False
    if row.shape == sample.shape:
        return bool(np.array_equal(row, sample, equal_nan=row.dtype.kind in "fc"))
    if any(have < need for have, need in zip(row.shape, sample.shape, strict=True)) or not sample.size:
        return False
    part = row[tuple(slice(0, size) for size in sample.shape)]
    return bool(np.array_equal(part, sample, equal_nan=part.dtype.kind in "fc"))

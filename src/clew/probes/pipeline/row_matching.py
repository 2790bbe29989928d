"""Which sample became which row of a batch, told by their content: collate functions sort rows, and leave some out."""

from __future__ import annotations

import sys
from collections import Counter, UserDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.values.class_facts import is_exactly, is_really

from .flow import _attributes, shape_of

_DEEP = 4
_ROWS = 4096
_PARTS = 64  # looked at in one batch, and in one sample
_LOOKED_AT = 4096  # numbers of one row that are compared: enough to tell rows apart
_TEXT = (str, bytes)

Path = tuple[Any, ...]
Possible = list[set[int]]  # for each row the numbers of the samples it may be
_ALIKE = "rows of the batch are alike and not in the order of the samples; which is which is not known"


@dataclass(frozen=True, slots=True)
class Match:
    """`order[row]` is the number of the sample; None: nothing speaks against the order of the samples."""

    order: tuple[int, ...] | None = None
    lost: str = ""


def matched(samples: list[Any], batch: Any, ids: Sequence[Any] | None = None) -> Match:
    """How the rows of a batch came from the samples. Samples of the same id are the same."""
    if len(samples) > _ROWS:
        return Match()
    names = [repr(id) for id in (range(len(samples)) if ids is None else ids)]
    columns = list(_columns(batch))[:_PARTS]
    lengths = Counter(shape[0] for _, column in columns if (shape := shape_of(column)))
    for rows in dict.fromkeys([len(samples), *(length for length, _ in lengths.most_common(2))]):
        possible = _possible(samples, [(path, column) for path, column in columns if len(column) == rows], names)
        if possible is not None:
            order = _decided(possible, names)
            if order is None:
                return Match(lost=_ALIKE)
            return Match() if order == tuple(range(len(samples))) else Match(order)
    if lengths and len(samples) not in lengths:
        rows = lengths.most_common(1)[0][0]
        return Match(lost=f"{len(samples)} samples went in and {rows} rows came out; which they are is not known")
    return Match()


def _decided(possible: Possible, names: list[str]) -> tuple[int, ...] | None:
    """One sample for each row; None if there are several ways."""
    if len(possible) == len(names) and all(row in numbers for row, numbers in enumerate(possible)):
        return tuple(range(len(names)))
    order: dict[int, int] = {}
    waiting = {row: set(numbers) for row, numbers in enumerate(possible)}
    while waiting:  # a sample that can only be one row is no other
        sure = [row for row, numbers in waiting.items() if len({names[number] for number in numbers}) == 1]
        taken: set[int] = set()
        for row in sure:
            free = waiting.pop(row) - taken
            if not free:
                return None
            order[row] = min(free)
            taken.add(order[row])
        if not sure:
            return None
        waiting = {row: numbers - taken for row, numbers in waiting.items()}
    return tuple(order[row] for row in range(len(possible)))


def _possible(samples: list[Any], columns: list[tuple[Path, Any]], names: list[str]) -> Possible | None:
    """What the columns say together; None if none of them can be compared with anything in the samples."""
    found: Possible | None = None
    ways = list(_ways(next((sample for sample in samples if sample is not None), None)))[:_PARTS]
    for path, column in columns:
        said = _by_column(samples, path, column, ways, names)
        if said is None:
            continue
        both = [have & new for have, new in zip(found, said, strict=True)] if found is not None else said
        found = both if all(both) else found
    return found


def _by_column(samples: list[Any], path: Path, column: Any, ways: list[Path], names: list[str]) -> Possible | None:
    """For each row of a column the samples with the same content; None unless there is one for every row."""
    own = _compared([_at(sample, path) for sample in samples], column)
    if own is not None or shape_of(column) is None or len(shape_of(column) or ()) < 2:
        return own
    for way in ways:  # (image, label) has become {"x": images, "y": labels}
        said = _compared([_at(sample, way) for sample in samples], column) if way != path else None
        if said is not None and all(len({names[number] for number in numbers}) == 1 for numbers in said):
            return said
    return None


def _compared(values: list[Any], column: Any) -> Possible | None:
    if shape_of(column) is None:
        return _listed(values, column)
    table = _array(column)
    arrays = {number: array for number, value in enumerate(values) if (array := _array(value)) is not None}
    if table is None or not arrays:
        return None
    by_shape: dict[tuple[int, ...], dict[bytes, set[int]]] = {}
    for number, array in arrays.items():
        if _may_be(array, table):
            key = _content(array.astype(table.dtype, copy=False))
            by_shape.setdefault(array.shape, {}).setdefault(key, set()).add(number)
    found = _rows_of(table, by_shape, behind=True)
    return found if found is not None else _rows_of(table, by_shape, behind=False)


def _rows_of(table: Any, by_shape: dict[tuple[int, ...], dict[bytes, set[int]]], *, behind: bool) -> Possible | None:
    """The samples each row may be, with padding behind or before them."""
    found: Possible = []
    for row in table:
        numbers: set[int] = set()
        for shape, contents in by_shape.items():
            places = zip(shape, row.shape, strict=True)
            cut = tuple(slice(0, need) if behind else slice(have - need, have) for need, have in places)
            numbers |= contents.get(_content(row[cut]), set())
        if not numbers:
            return None
        found.append(numbers)
    return found if len(set().union(*found)) >= len(found) else None  # a sample is one row at most


def _may_be(array: Any, table: Any) -> bool:
    """Whether a value may be a row of the table: it fits, and being put there has not made another number of it."""
    kinds = array.dtype.kind + table.dtype.kind
    if array.ndim != table.ndim - 1 or kinds in ("fi", "fu", "fb", "ib", "ub", "cf", "ci"):
        return False
    return all(need <= have for need, have in zip(array.shape, table.shape[1:], strict=True)) and array.size > 0


def _content(array: Any) -> bytes:
    flat = array.reshape(-1)
    if flat.size > _LOOKED_AT:
        flat = flat[:: -(-flat.size // _LOOKED_AT)]
    content: bytes = flat.tobytes()
    return content


def _listed(values: list[Any], column: Any) -> Possible | None:
    """A list of the very parts of the samples, or of equal texts."""
    known: dict[Any, set[int]] = {}
    for number, value in enumerate(values):
        known.setdefault(_mark(value), set()).add(number)
    found = [known.get(_mark(value), set()) for value in column]
    return found if all(found) else None


def _mark(value: Any) -> Any:
    return ("text", value) if is_exactly(value, *_TEXT, int, float, bool) else ("object", id(value))


def _columns(batch: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Arrays and lists in a batch that may have a row for each sample, with the way to them."""
    shape = shape_of(batch)
    if shape is not None:
        if shape:
            yield path, batch
        return
    if is_exactly(batch, list, tuple) and 0 < len(batch) < _ROWS:
        yield path, batch
    if len(path) < _DEEP:
        for key, value in _members(batch):
            yield from _columns(value, (*path, key))


def _ways(sample: Any, path: Path = ()) -> Iterator[Path]:
    """The ways to the arrays in a sample."""
    if shape_of(sample) is not None:
        yield path
    elif len(path) < _DEEP:
        for key, value in _members(sample):
            yield from _ways(value, (*path, key))


def _members(value: Any) -> list[tuple[Any, Any]]:
    """What lies in a container or a plain object, by key, place or name."""
    if is_really(value, UserDict):
        value = value.data
    if is_really(value, dict):
        return list(dict.items(value))[:_PARTS]
    if is_really(value, list, tuple):
        return list(enumerate(value[:_PARTS]))
    return list((_attributes(value) or {}).items())[:_PARTS]


def _at(sample: Any, path: Path) -> Any:
    """The part of a sample that stands where the column stands in the batch; None if there is none."""
    for key in path:
        if is_really(sample, UserDict):
            sample = sample.data
        if is_really(sample, dict):
            sample = dict.get(sample, key)
        elif is_really(sample, list, tuple):
            sample = sample[key] if type(key) is int and key < len(sample) else None
        else:
            sample = (_attributes(sample) or {}).get(key)
        if sample is None:
            return None
    return sample


def _array(value: Any) -> Any:
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and is_really(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided:
            return None
        value = value.detach()
        return (value.float() if value.dtype is torch.bfloat16 else value).resolve_conj().resolve_neg().numpy()
    if is_really(value, np.ndarray):
        return value if value.dtype.kind in "biufc" else None
    if is_really(value, np.generic) and value.dtype.kind in "biufc":
        return np.asarray(value)
    if type(value) is list and value and len(value) <= _ROWS and {type(part) for part in value} <= {int, float, bool}:
        return _numbers(value)
    return _numbers(value) if is_exactly(value, int, float, bool) else None


def _numbers(value: Any) -> Any:
    import numpy as np

    try:
        array = np.asarray(value)
    except (OverflowError, ValueError):
        return None
    return array if array.dtype.kind in "biuf" else None

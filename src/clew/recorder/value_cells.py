"""Values as the cells of a column: a kind and a number for each, at C speed where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clew.records import DELETED, Kind

from . import packed_numbers

Kinds = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float64]

EXACT_INT: Final = 2**53
# plain integers: looking at an enumeration's members is slow, and these are looked at for every row
VALUE, INT, FLOAT, BOOL = int(Kind.VALUE), int(Kind.INT), int(Kind.FLOAT), int(Kind.BOOL)
_KIND_OF: Final = {float: FLOAT, int: INT, bool: BOOL, type(None): int(Kind.NONE), type(DELETED): int(Kind.DELETED)}
_FEW: Final = 32  # rows that a plain loop is quicker with


def cells_of(sites: npt.NDArray[np.int32], values: Sequence[Any]) -> tuple[Kinds, Numbers]:
    """The kind of each value, and its number; where the kind is VALUE it has none yet."""
    if len(values) < _FEW:
        return _one_by_one(values)
    packed = packed_numbers.pack(list(values))
    columns = packed_numbers.columns_of(packed, sites) if packed is not None else None
    return _by_type(values) if columns is None else columns


def _one_by_one(values: Sequence[Any]) -> tuple[Kinds, Numbers]:
    kinds, cells = bytearray(), []
    for value in values:
        kind, number = _KIND_OF.get(type(value), VALUE), 0.0
        if kind == INT and not -EXACT_INT <= value <= EXACT_INT:
            kind = VALUE
        elif kind in (INT, FLOAT, BOOL):
            number = float(value)
        kinds.append(kind)
        cells.append(number)
    return np.frombuffer(kinds, np.uint8), np.array(cells, np.float64)


def _by_type(values: Sequence[Any]) -> tuple[Kinds, Numbers]:
    kinds = np.fromiter(map(_KIND_OF.get, map(type, values), repeat(VALUE)), np.uint8, len(values))
    cells = np.zeros(len(values), np.float64)
    for kind in (FLOAT, BOOL):
        chosen = kinds == kind
        cells[chosen] = np.fromiter(compress(values, chosen), np.float64)
    chosen = kinds == INT
    integers = list(compress(values, chosen))
    try:
        column = np.array(integers, np.int64)
        large = (column > EXACT_INT) | (column < -EXACT_INT)
    except OverflowError:
        large = np.array([not -EXACT_INT <= number <= EXACT_INT for number in integers], np.bool_)
        column = np.array([0 if beyond else n for n, beyond in zip(integers, large, strict=True)], np.int64)
    cells[chosen] = np.where(large, 0, column)
    kinds[np.flatnonzero(chosen)[large]] = VALUE
    return kinds, cells

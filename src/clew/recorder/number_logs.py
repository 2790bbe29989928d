"""Logs that hold numbers only, judged by NumPy: which rows are changes.

Most such logs come from a loop, whose sites come again in the same order; then a name's row before is always so many
rows back, and one comparison of the whole column with itself, shifted, judges them all. The others are judged name by
name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.records import Kind, Value
from clew.values import same_scalar

from . import packed_numbers

if TYPE_CHECKING:
    from clew.recorder.live_call import LiveCall
    from clew.recorder.plan import Plan

UNSET: Any = object()  # no value yet
_FEW_NAMES = 8  # up to this many names, looking for each one's rows is quicker than sorting
_OBJECT_OF: dict[int, Callable[[float], Any]] = {
    Kind.FLOAT: float, Kind.INT: int, Kind.BOOL: bool, Kind.NONE: lambda number: None,
}  # fmt: skip

Ints = npt.NDArray[np.int64]


class Block(NamedTuple):
    """Changes as columns of equal length."""

    sites: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.float64]


class Judged(NamedTuple):
    """The changes among the rows of a log."""

    block: Block
    rows: Ints | None  # which rows they are; None for all
    sites: Iterable[int]  # where they are; perhaps more than once


def number_lane(
    call: LiveCall, pieces: list[tuple[packed_numbers.Packed, packed_numbers.PackedSites]]
) -> Judged | None:
    """The changes in a packed log; None if it does not hold numbers only."""
    packed, packed_sites = packed_numbers.join(pieces)
    sites, period = packed_sites.column(), packed_sites.period()
    columns = packed_numbers.steady_columns(packed, len(sites), period) if period else None
    steady = columns is not None
    columns = columns or packed_numbers.columns_of(packed, sites)
    if columns is None:
        return None
    block = Block(sites, *columns)
    names = _names_of_a_round(call.plan, block, period) if steady else None
    rows = _changed(call, block) if names is None else _changed_in_rounds(call, block, names)
    if True in call.plan.ignored:
        rows = _not_ignored(call.plan, sites, rows)
    if rows is None:
        return Judged(block, None, sites[:period].tolist() if steady else distinct(sites))
    block = Block(block.sites[rows], block.kinds[rows], block.numbers[rows])
    return Judged(block, rows, distinct(block.sites))


def _not_ignored(plan: Plan, sites: Any, rows: Ints | None) -> Ints:
    chosen: Ints = np.arange(len(sites)) if rows is None else rows
    kept: Ints = chosen[~np.array(plan.ignored)[(sites[chosen] - plan.base) // plan.width]]
    return kept


def distinct(sites: Any) -> list[int]:
    """Each site once. They are close together, so a table of them is quicker than a sort."""
    if not len(sites):
        return []
    first = int(sites.min())
    seen = np.zeros(int(sites.max()) - first + 1, np.bool_)
    seen[sites - first] = True
    found: list[int] = (np.flatnonzero(seen) + first).tolist()
    return found


def _names_of_a_round(plan: Plan, block: Block, period: int) -> list[int] | None:
    """The names bound in each round of a loop; None if one comes twice, or if there is a NaN, which has many bits."""
    names = [(site - plan.base) % plan.width for site in block.sites[:period].tolist()]
    return None if len(set(names)) < period or math.isnan(block.numbers.max()) else names


def _changed_in_rounds(call: LiveCall, block: Block, names: list[int]) -> Ints | None:
    """Which rows differ from the row of the round before; None for all."""
    last, period = call.last, len(names)
    assert last is not None
    bits = block.numbers.view(np.int64)
    differs = np.empty(len(bits), np.bool_)
    np.not_equal(bits[period:], bits[:-period], out=differs[period:])
    size = len(bits)
    for place, name in enumerate(names):
        final = size - 1 - (size - 1 - place) % period
        differs[place] = not same(last[name], _object(block.kinds[place], block.numbers[place]))
        last[name] = _object(block.kinds[final], block.numbers[final])
    return None if differs.all() else np.flatnonzero(differs)


def _changed(call: LiveCall, block: Block) -> Ints | None:
    """Which rows differ from the row before of the same name, bit for bit, all NaN being one value; None for all."""
    sites, kinds, values = block
    plan, last = call.plan, call.last
    assert last is not None
    bits = values.view(np.int64)
    nan = np.isnan(values)
    if nan.any():
        bits = np.where(nan, np.float64("nan").view(np.int64), bits)
    keep = np.empty(len(sites), np.bool_)
    one_kind = bool((kinds == kinds[0]).all())
    for index, rows in _rows_by_name(sites, plan):
        own = bits[rows]
        differs = np.empty(len(own), np.bool_)
        np.not_equal(own[1:], own[:-1], out=differs[1:])
        if not one_kind:
            differs[1:] |= kinds[rows[1:]] != kinds[rows[:-1]]
        first, final = rows[0], rows[-1]
        differs[0] = not same(last[index], _object(kinds[first], values[first]))
        last[index] = _object(kinds[final], values[final])
        keep[rows] = differs
    return None if keep.all() else np.flatnonzero(keep)


def _rows_by_name(sites: Any, plan: Plan) -> Iterator[tuple[int, Ints]]:
    """For each name that has rows: which they are, in order."""
    width = plan.width
    if width == 1:
        yield 0, np.arange(len(sites))
        return
    index = (sites - plan.base) % width
    if width <= _FEW_NAMES:
        for name in range(width):
            rows = np.flatnonzero(index == name)
            if len(rows):
                yield name, rows
    else:
        order = np.argsort(index.astype(np.uint16) if width < 2**16 else index, kind="stable")
        counts = np.bincount(index, minlength=width)
        ends = np.cumsum(counts)
        for name in np.flatnonzero(counts).tolist():
            yield name, order[ends[name] - counts[name] : ends[name]]


def _object(kind: int, number: float) -> Any:
    """The object a cell of the number lane was."""
    return _OBJECT_OF[int(kind)](number)


def same(before: Any, now: Any) -> bool:
    """Exactly equal, for what can stand in a log."""
    if before is now:
        return True
    kind = type(now)
    if type(before) is not kind:
        return False
    if kind is Value:
        return bool(before.digest) and bool(before.digest == now.digest)
    if kind is int or kind is str or (kind is float and now):  # of zeros there are two
        return bool(before == now) or (now != now and before != before)
    return same_scalar(before, now)

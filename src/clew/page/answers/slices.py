"""One array, cut along two of its dimensions: a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import OptionError, UnknownNameError
from clew.history.table import INPUT, OUTPUT
from clew.page.arrays import array_of
from clew.page.boxes import box_of, box_of_id, box_of_row
from clew.page.nodes import hidden_rows
from clew.page.plain import number, numbers

if TYPE_CHECKING:
    from clew.page.opened import Opened
    from clew.page.query import Query

CELLS, MOST = 256, 320  # of a side
DIGITS = "%.6g"  # a colour needs no more
RETURN = "return"  # what a call gave: no argument can be called so

Found = tuple[Any, dict[str, Any], str]  # a value, its box, and what to call it


def cut(opened: Opened, query: Query) -> dict[str, Any]:
    """Rows and columns of an array, each cell the mean of several where there are too many."""
    value, box, what = _value(opened, query)
    array = array_of(value, what)
    at = _at(query.text("at"), array.shape)
    part = array[tuple(slice(None) if one == ":" else one for one in at)]
    grid = part.reshape(1, -1) if part.ndim < 2 else part
    data, reduced = _means(grid, query.whole("px", CELLS, 1, MOST))
    low, high = _ends(array)
    return {
        "shape": list(array.shape),
        "dtype": box.get("dtype") or str(array.dtype),
        "at": at,
        "rows": data.shape[0],
        "cols": data.shape[1],
        "data": _told(data.reshape(-1)),
        "reduced": reduced,
        "low": low,
        "high": high,
        "picture": box.get("picture"),
        "value": {key: told for key, told in box.items() if key != "picture"},
    }


def _value(opened: Opened, query: Query) -> Found:
    view = opened.tables
    if query.text("call"):
        return _of_call(opened, query.text("call"), query.text("value", RETURN))
    name = query.needed("name")
    rows = opened.rows_of(name)
    index = query.whole("index", 0)
    if index >= len(rows):
        what = f"`{name}` has {len(rows):,} values, and none numbered {index:,}."
        raise UnknownNameError("no-such-point", what, f"The last is {len(rows) - 1:,}.")
    row = int(rows[index])
    return view.table.value(row), box_of_row(view, row, name), f"`{name}`"


def _of_call(opened: Opened, id: str, name: str) -> Found:
    view, call = opened.tables, opened.call(id)
    code = OUTPUT if name == RETURN else INPUT
    rows = hidden_rows(call._calls, np.array([call.id]), code)[1] + int(view.table.offsets[call._calls.shard])
    if name == RETURN and len(rows):
        return view.table.value(int(rows[-1])), box_of_row(view, int(rows[-1]), name), "The result"
    for row, known in zip(rows.tolist(), view.table.names_of(rows), strict=True):
        if known == name:
            return view.table.value(row), box_of_row(view, row, name), f"`{name}`"
    found = _written_whole(opened, id, name)
    if found is None:
        what = f"{call.function} has no `{name}` that was recorded."
        raise UnknownNameError("no-such-point", what, "Open the call again.")
    return found


def _written_whole(opened: Opened, id: str, name: str) -> Found | None:
    """From a probe that keeps all arguments as one value, or the result with the end of the call."""
    view, call = opened.tables, opened.call(id)
    if name != RETURN:
        value = call.args.get(name)
        return None if value is None else (value, box_of(value, alone=True, draw=True, name=name), f"`{name}`")
    end = call._end()
    number_ = -1 if end is None else int(call._calls.finished.result[end])
    if number_ < 0:
        return None
    shard = call._calls.shard
    return view.table.decoded(shard, number_), box_of_id(view, shard, number_, name), "The result"


def _at(given: str, shape: tuple[int, ...]) -> list[int | str]:
    """One entry a dimension; two of them (or as many as there are) are shown whole."""
    shown = min(len(shape), 2)
    if not given and _is_channels_last(shape):
        return [":", ":", 0]
    if not given:
        return [*([0] * (len(shape) - shown)), *([":"] * shown)]
    at: list[int | str] = [part if part == ":" else int(part) if part.isdigit() else -1 for part in given.split(",")]
    whole = at.count(":") == shown and len(at) == len(shape)
    if not whole or any(one != ":" and not 0 <= int(one) < side for one, side in zip(at, shape, strict=True)):
        remedy = f"Give {len(shape)} entries, {shown} of them `:`, the others within the shape."
        raise OptionError("bad-query", f"`at={given[:60]}` does not fit the shape {shape}.", remedy)
    return at


def _is_channels_last(shape: tuple[int, ...]) -> bool:
    """An image as most libraries hold it: a plane of it is rows and columns, not columns and colours."""
    return len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= 2 * shape[2]


def _means(grid: Any, cells: int) -> tuple[Any, bool]:
    """The grid, or the means of the finite numbers of equal blocks of it; NaN where there are none."""
    if 0 in grid.shape or max(grid.shape) <= cells:
        return (grid.astype(np.float64) if grid.dtype.kind in "fu" else grid.astype(np.int64)), False
    wide = grid.astype(np.float64)
    finite = np.isfinite(wide)
    sums, counts = _blocks(np.where(finite, wide, 0.0), cells), _blocks(finite.astype(np.float64), cells)
    with np.errstate(all="ignore"):
        return np.where(counts > 0, sums / counts, np.nan), True


def _told(data: Any) -> list[Any]:
    if data.dtype.kind != "f":
        return numbers(data)
    return [None if one is None else float(DIGITS % one) for one in numbers(data)]


def _blocks(grid: Any, cells: int) -> Any:
    for axis, side in enumerate(grid.shape):
        starts = np.linspace(0, side, min(side, cells), endpoint=False).astype(np.int64)
        grid = np.add.reduceat(grid, starts, axis=axis)
    return grid


def _ends(array: Any) -> tuple[Any, Any]:
    """The smallest and the largest finite number of all of it."""
    if not array.size:
        return None, None
    low, high = array.min(), array.max()
    if array.dtype.kind != "f" or (np.isfinite(low) and np.isfinite(high)):
        return number(low.item()), number(high.item())
    finite = array[np.isfinite(array)]
    return (number(finite.min()), number(finite.max())) if finite.size else (None, None)

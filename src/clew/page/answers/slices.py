"""Answers with a slice of an array along two of its dimensions, for a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import OptionError, UnknownNameError
from clew.page.array_slices import array_of
from clew.page.plain_json import number, numbers
from clew.page.tree_nodes import hidden_rows
from clew.page.value_boxes import box_of, box_of_id, box_of_row
from clew.reading.table import INPUT, OUTPUT

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query

CELLS, MOST = 256, 320  # cells per side
DIGITS = "%.6g"  # enough for a colour
RETURN = "return"  # the result of a call; no argument can have this name

LabelledValue = tuple[Any, dict[str, Any], str]  # a value, its box, and its label in messages


def cut(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """Rows and columns of an array; if there are too many, each cell is the mean of several."""
    value, box, label = _requested_value(opened, query)
    array = array_of(value, label)
    entries = _slice_entries(query.text("at"), array.shape)
    section = array[tuple(slice(None) if entry == ":" else entry for entry in entries)]
    grid = section.reshape(1, -1) if section.ndim < 2 else section
    data, reduced = _block_means(grid, query.integer("px", CELLS, 1, MOST))
    low, high = _extremes(array)
    return {
        "shape": list(array.shape),
        "dtype": box.get("dtype") or str(array.dtype),
        "at": entries,
        "rows": data.shape[0],
        "cols": data.shape[1],
        "data": _rounded_cells(data.reshape(-1)),
        "reduced": reduced,
        "low": low,
        "high": high,
        "picture": box.get("picture"),
        "value": {key: field for key, field in box.items() if key != "picture"},
    }


def _requested_value(opened: OpenedRun, query: Query) -> LabelledValue:
    view = opened.tables
    if query.text("call"):
        return _value_of_call(opened, query.text("call"), query.text("value", RETURN))
    name = query.required("name")
    rows = opened.rows_of(name)
    index = query.integer("index", 0)
    if index >= len(rows):
        message = f"`{name}` has {len(rows):,} values, and none numbered {index:,}."
        raise UnknownNameError("no-such-point", message, f"The last is {len(rows) - 1:,}.")
    row = int(rows[index])
    return view.table.value(row), box_of_row(view, row, name), f"`{name}`"


def _value_of_call(opened: OpenedRun, id: str, name: str) -> LabelledValue:
    view, call = opened.tables, opened.call(id)
    code = OUTPUT if name == RETURN else INPUT
    rows = hidden_rows(call._calls, np.array([call.id]), code)[1] + int(view.table.offsets[call._calls.shard])
    if name == RETURN and len(rows):
        return view.table.value(int(rows[-1])), box_of_row(view, int(rows[-1]), name), "The result"
    for row, argument in zip(rows.tolist(), view.table.names_of(rows), strict=True):
        if argument == name:
            return view.table.value(row), box_of_row(view, row, name), f"`{name}`"
    labelled = _value_outside_rows(opened, id, name)
    if labelled is None:
        message = f"{call.function} has no `{name}` that was recorded."
        raise UnknownNameError("no-such-point", message, "Open the call again.")
    return labelled


def _value_outside_rows(opened: OpenedRun, id: str, name: str) -> LabelledValue | None:
    """A value without a row of its own: an argument kept with all others as one value, or a result kept at the end."""
    view, call = opened.tables, opened.call(id)
    if name != RETURN:
        value = call.args.get(name)
        return None if value is None else (value, box_of(value, detailed=True, draw=True, name=name), f"`{name}`")
    end = call._end()
    id_ = -1 if end is None else int(call._calls.finished.result[end])
    if id_ < 0:
        return None
    shard = call._calls.shard
    return view.table.decoded(shard, id_), box_of_id(view, shard, id_, name), "The result"


def _slice_entries(text: str, shape: tuple[int, ...]) -> list[int | str]:
    """One entry per dimension; two of them (or all, if there are fewer) are `:`, shown in full."""
    shown_count = min(len(shape), 2)
    if not text and _is_channels_last(shape):
        return [":", ":", 0]
    if not text:
        return [*([0] * (len(shape) - shown_count)), *([":"] * shown_count)]
    entries: list[int | str] = [
        part if part == ":" else int(part) if part.isdigit() else -1 for part in text.split(",")
    ]
    has_right_form = entries.count(":") == shown_count and len(entries) == len(shape)
    if not has_right_form or any(
        entry != ":" and not 0 <= int(entry) < side for entry, side in zip(entries, shape, strict=True)
    ):
        remedy = f"Give {len(shape)} entries, {shown_count} of them `:`, the others within the shape."
        raise OptionError("bad-query", f"`at={text[:60]}` does not fit the shape {shape}.", remedy)
    return entries


def _is_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether this is an image with channels last, whose planes are its first two axes."""
    return len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= 2 * shape[2]


def _block_means(grid: Any, cells: int) -> tuple[Any, bool]:
    """The grid, or the means of the finite numbers in equal blocks of it; NaN for blocks without any."""
    if 0 in grid.shape or max(grid.shape) <= cells:
        return (grid.astype(np.float64) if grid.dtype.kind in "fu" else grid.astype(np.int64)), False
    wide = grid.astype(np.float64)
    finite = np.isfinite(wide)
    sums, counts = _block_sums(np.where(finite, wide, 0.0), cells), _block_sums(finite.astype(np.float64), cells)
    with np.errstate(all="ignore"):
        return np.where(counts > 0, sums / counts, np.nan), True


def _rounded_cells(cells: Any) -> list[Any]:
    if cells.dtype.kind != "f":
        return numbers(cells)
    return [None if cell is None else float(DIGITS % cell) for cell in numbers(cells)]


def _block_sums(grid: Any, cells: int) -> Any:
    for axis, side in enumerate(grid.shape):
        starts = np.linspace(0, side, min(side, cells), endpoint=False).astype(np.int64)
        grid = np.add.reduceat(grid, starts, axis=axis)
    return grid


def _extremes(array: Any) -> tuple[Any, Any]:
    """The smallest and largest finite number of the whole array."""
    if not array.size:
        return None, None
    low, high = array.min(), array.max()
    if array.dtype.kind != "f" or (np.isfinite(low) and np.isfinite(high)):
        return number(low.item()), number(high.item())
    finite = array[np.isfinite(array)]
    return (number(finite.min()), number(finite.max())) if finite.size else (None, None)

"""Recorded arrays and tensors, read as NumPy arrays of numbers, and what is known of them without reading."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import PageError
from clew.history.series import as_array
from clew.records import Kept, Kind, NotKept, Summary

if TYPE_CHECKING:
    from clew.history.lazy import Rows
    from clew.history.view import View
    from clew.page.opened import Opened
    from clew.store.valuetable import Outline

_NUMBERS = "fiub"
MOST_KNOWN = 100_000  # arrays whose statistics are remembered


def value_rows(opened: Opened, name: str) -> Rows:
    """Places in a series of what may be an array: whatever is no plain number."""
    kinds = opened.tables.table.gather("kind", opened.rows_of(name))
    return np.flatnonzero(kinds == Kind.VALUE).astype(np.int64)


def id_of(view: View, row: int) -> tuple[int, int]:
    """Shard and id of the value of a row."""
    shard, local = view.table.place(row)
    return shard, int(view.table.column(shard, "value")[local])


def outlines_of(view: View, rows: Rows) -> list[Outline]:
    """The outlines of the values of these rows."""
    where = view.table.shard_of(rows)
    found: dict[int, Outline] = {}
    for shard in np.unique(where).tolist():
        at = np.flatnonzero(where == shard)
        ids = view.table.column(shard, "value")[rows[at] - view.table.offsets[shard]]
        found.update(zip(at.tolist(), view.table.shards[shard].outlines(ids.tolist()), strict=True))
    return [found[place] for place in range(len(rows))]


def is_array(outline: Outline) -> bool:
    return outline.value.summary.shape is not None and outline.value.summary.dtype is not None


def must_be_read(opened: Opened, row: int, outline: Outline) -> bool:
    """Whether its statistics were left to the reader, and no reader has made them."""
    summary = outline.value.summary
    empty = summary.shape is not None and math.prod(summary.shape) == 0
    if summary.min is not None or summary.nan is not None or empty or outline.value.kept != Kept.FULL:
        return False
    return _key(opened, row) not in opened.statistics


def summary_of_row(opened: Opened, row: int, outline: Outline) -> Summary:
    """With statistics, made once for a value: a run's values never change."""
    from clew.values import summary_of

    if must_be_read(opened, row, outline):
        if len(opened.statistics) >= MOST_KNOWN:
            opened.statistics.clear()
        shard, id = id_of(opened.tables, row)
        opened.statistics[_key(opened, row)] = summary_of(opened.tables.table.shards[shard].value(id))
    return opened.statistics.get(_key(opened, row), outline.value.summary)


def _key(opened: Opened, row: int) -> tuple[str, int]:
    shard, id = id_of(opened.tables, row)
    return opened.tables.table.shards[shard].name, id


def array_of(value: Any, what: str) -> Any:
    """A value as an array of real numbers; an error that says why not."""
    if type(value) is NotKept:
        told = f" ({value.why})" if value.why else ""
        remedy = 'Its statistics are on the curve. Record it with `keep="full"` to see its values.'
        raise PageError("tensor-not-kept", f"The values of {what} were not kept{told}.", remedy)
    array = as_array(value)
    if array is not None and array.dtype.kind == "c":
        array = np.abs(array)
    if array is None or array.dtype.kind not in _NUMBERS:
        remedy = "Only arrays and tensors of numbers can be cut into slices."
        raise PageError("not-an-array", f"{what} is no array of numbers.", remedy)
    return array

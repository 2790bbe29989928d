"""Reads recorded arrays and tensors as NumPy arrays of numbers, and finds facts about them without reading."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import PageError
from clew.reading.series import as_array
from clew.records import Kept, Kind, NotKept, Summary

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.reading.lazy import Rows
    from clew.reading.view import View
    from clew.store.value_table import Outline

_NUMBERS = "fiub"
MOST_KNOWN = 100_000  # arrays whose statistics are cached


def value_rows(opened: OpenedRun, name: str) -> Rows:
    """Indices in a series of possible arrays: all values that are not plain numbers."""
    kinds = opened.tables.table.gather("kind", opened.rows_of(name))
    return np.flatnonzero(kinds == Kind.VALUE).astype(np.int64)


def id_of(view: View, row: int) -> tuple[int, int]:
    """The shard and id of the value of a row."""
    shard, local = view.table.place(row)
    return shard, int(view.table.column(shard, "value")[local])


def outlines_of(view: View, rows: Rows) -> list[Outline]:
    """The outlines of the values of these rows."""
    shards = view.table.shard_of(rows)
    outlines: dict[int, Outline] = {}
    for shard in np.unique(shards).tolist():
        indices = np.flatnonzero(shards == shard)
        ids = view.table.column(shard, "value")[rows[indices] - view.table.offsets[shard]]
        outlines.update(zip(indices.tolist(), view.table.shards[shard].outlines(ids.tolist()), strict=True))
    return [outlines[index] for index in range(len(rows))]


def is_array(outline: Outline) -> bool:
    return outline.value.summary.shape is not None and outline.value.summary.dtype is not None


def must_be_read(opened: OpenedRun, row: int, outline: Outline) -> bool:
    """Whether the statistics were left to the reader and have not been computed yet."""
    summary = outline.value.summary
    empty = summary.shape is not None and math.prod(summary.shape) == 0
    if summary.min is not None or summary.nan is not None or empty or outline.value.kept != Kept.FULL:
        return False
    return _statistics_key(opened, row) not in opened.statistics


def summary_of_row(opened: OpenedRun, row: int, outline: Outline) -> Summary:
    """The summary with statistics, computed once per value, because recorded values never change."""
    from clew.values import summary_of

    if must_be_read(opened, row, outline):
        if len(opened.statistics) >= MOST_KNOWN:
            opened.statistics.clear()
        shard, id = id_of(opened.tables, row)
        opened.statistics[_statistics_key(opened, row)] = summary_of(opened.tables.table.shards[shard].value(id))
    return opened.statistics.get(_statistics_key(opened, row), outline.value.summary)


def _statistics_key(opened: OpenedRun, row: int) -> tuple[str, int]:
    shard, id = id_of(opened.tables, row)
    return opened.tables.table.shards[shard].name, id


def array_of(value: Any, label: str) -> Any:
    """A value as an array of real numbers; otherwise an error gives the reason."""
    if type(value) is NotKept:
        reason = f" ({value.why})" if value.why else ""
        remedy = 'Its statistics are on the curve. Record it with `keep="full"` to see its values.'
        raise PageError("tensor-not-kept", f"The values of {label} were not kept{reason}.", remedy)
    array = as_array(value)
    if array is not None and array.dtype.kind == "c":
        array = np.abs(array)
    if array is None or array.dtype.kind not in _NUMBERS:
        remedy = "Only arrays and tensors of numbers can be cut into slices."
        raise PageError("not-an-array", f"{label} is not an array of numbers.", remedy)
    return array

"""Summarises the value of one recorded change, plain numbers included."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from clew.records import Kind, Summary

if TYPE_CHECKING:
    from clew.reading.table import Table


def summary_of_row(table: Table, row: int) -> Summary:
    """The summary of the value of one change."""
    shard, local = table.place(row)
    kind = int(table.column(shard, "kind")[local])
    if kind == Kind.VALUE:
        from clew.values import summary_of

        return summary_of(table.stored(np.array([row], dtype=np.int64))[0])
    if kind in (Kind.FLOAT, Kind.INT, Kind.BOOL):
        return _summary_of_number(float(table.column(shard, "number")[local]))
    return Summary()


def _summary_of_number(number: float) -> Summary:
    nan, inf = int(math.isnan(number)), int(math.isinf(number))
    if nan or inf:
        return Summary(nan=nan, inf=inf)
    return Summary(min=number, max=number, mean=number, std=0.0, nan=0, inf=0)

"""Rows of tables: how many there are, what they are called, and a few of them, cut out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from clew.probes.pipeline.passage import taken
from clew.records import Value
from clew.values.class_facts import is_exactly

_DENSE = 1_000_000  # cells of a sparse matrix that are written out; else only what is not zero


def _library(table: Any) -> str:
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and isinstance(table, (pandas.DataFrame, pandas.Series)):
        return "pandas"
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(table, numpy.ndarray):
        return "numpy" if table.ndim else ""
    sparse: Any = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(table):
        return "sparse" if len(table.shape) == 2 else ""
    torch: Any = sys.modules.get("torch")
    if torch is not None and issubclass(type(table), torch.Tensor):
        return "torch" if table.ndim else ""
    return "list" if is_exactly(table, list, tuple) else ""


def count_of(table: Any) -> int | None:
    """How many rows it has; None if it is no table."""
    library = _library(table)
    if not library:
        return None
    return len(table) if library == "list" else int(table.shape[0])


def index_of(table: Any) -> Any:
    """What its rows are labelled with, if it is one of pandas."""
    return table.index if _library(table) == "pandas" else None


def cut(table: Any, places: Sequence[int]) -> Any:
    """A copy of some of its rows."""
    library, places = _library(table), list(places)
    if library == "pandas":
        return table.iloc[places]
    if library == "sparse":
        return _rows_of_sparse(table.tocsr()[places])
    if library == "list":
        return [table[place] for place in places]
    return table[places]


def _rows_of_sparse(rows: Any) -> Any:
    if rows.shape[0] * rows.shape[1] <= _DENSE:
        return rows.toarray()
    coordinates = [rows[[number]].tocoo() for number in range(rows.shape[0])]
    return [dict(zip(row.col.tolist(), row.data.tolist(), strict=True)) for row in coordinates]


def alike(one: Any, other: Any) -> bool:
    """Whether two cuts hold the same, in the columns they share. Nobody's `__eq__` is asked."""
    if _library(one) == _library(other) == "pandas":
        one, other = _frame(one), _frame(other)
        if not one.columns.is_unique or not other.columns.is_unique:
            return False
        shared = one.columns.intersection(other.columns)
        if not len(shared):
            return False
        one, other = (frame[shared].reset_index(drop=True) for frame in (one, other))
    first, second = taken(one), taken(other)
    return (
        isinstance(first, Value) and isinstance(second, Value) and bool(first.digest) and first.digest == second.digest
    )


def _frame(table: Any) -> Any:
    return table.to_frame() if table.ndim == 1 else table


def is_moved(before: Any, after: Any, places: Sequence[int]) -> bool:
    """Whether a table holds the very rows of another one, but not at these places: it was sorted, or shuffled."""
    if not _library(before) == _library(after) == "pandas":
        return False
    before, after = _frame(before), _frame(after)
    if not before.columns.is_unique or not after.columns.is_unique:
        return False
    shared = [name for name in before.columns.intersection(after.columns) if _is_plain(before[name], after[name])]
    if not shared:
        return False
    hashing: Any = sys.modules["pandas"].util.hash_pandas_object
    first, second = (hashing(table[shared], index=False).to_numpy() for table in (before, after))
    return bool(first.sum() == second.sum() and (first[list(places)] != second[list(places)]).any())


def _is_plain(one: Any, other: Any) -> bool:
    """Whether two columns can be compared without asking anybody's `__eq__`."""
    return one.dtype == other.dtype and one.dtype != object and getattr(one.dtype, "kind", "O") in "biufMOSU"

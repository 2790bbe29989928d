"""What `graph.map` is given: any collection, read once, a piece at a time, from where an earlier job has stopped."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import inf
from time import perf_counter
from typing import Any

from clew.errors import GraphError, nearest

_BLOCK = 4096  # rows of a table that are made into Python's own values at a time
_SLICED = (list, tuple, range)  # Python's own: a slice of one is what its items are, and a tenth of the work


class Source:
    """Items with their numbers. `rows` says that they are tuples of the graph's inputs in their order."""

    def __init__(self, items: Any, *, count: int | None = None, rows: bool = False, indexed: bool = False) -> None:
        self.count = count
        self.rows = rows
        self.error: BaseException | None = None  # what the collection raised
        self.over = False
        self._items: Any = items if indexed else None
        self._iterator: Iterator[Any] = iter(()) if indexed else iter(items)
        self._next = 0
        self._head: list[Any] = []
        self._done = bytearray()

    def first(self) -> list[Any]:
        """The first item, or nothing; it is still to come."""
        self._head = self._pull(1, 0)
        self.over = self.error is not None
        if self._items is None:
            self._iterator = chain(self._head, self._iterator)
        return self._head

    def skip(self, done: bytearray) -> None:
        """Leave out the items whose place in `done` is not 0."""
        self._done = done

    def take(self, wanted: int, batch: int = 1, seconds: float = inf) -> tuple[Sequence[int], list[Any]]:
        """The next items and their numbers: `wanted`, in whole batches; or, of a collection that has become slow, as
        many as come in time, because what is done must not wait for what may come in an hour."""
        end = perf_counter() + seconds
        if self._next < len(self._done):
            return self._take_between(wanted, batch, end)
        begin, items = self._next, self._pull(wanted, self._next, batch, end)
        self._next += len(items)
        return range(begin, self._next), items

    def _take_between(self, wanted: int, batch: int, end: float) -> tuple[Sequence[int], list[Any]]:
        """The same among items that are partly done."""
        numbers: list[int] = []
        items: list[Any] = []
        while len(items) < wanted and self._next < len(self._done) and not self.over:
            if items and not len(items) % batch and perf_counter() > end:
                break
            skipped = bool(self._done[self._next])
            pulled = [None] if skipped and self._items is not None else self._pull(1, self._next)
            if pulled and not skipped:
                numbers.append(self._next)
                items += pulled
            self._next += len(pulled)
        if self._items is not None and self.count is not None and self._next >= self.count:
            self.over = True
        return numbers, items

    def _pull(self, wanted: int, begin: int, batch: int = 1, end: float = inf) -> list[Any]:
        """The next items, until one comes after `end` that completes a batch."""
        items: list[Any] = []
        try:
            source = islice(self._iterator, wanted) if self._items is None else self._at(begin, wanted)
            if type(source) in _SLICED:
                items.extend(source)
            else:
                for item in source:  # what came before an exception is kept
                    items.append(item)
                    if perf_counter() > end and not len(items) % batch:
                        return items
        except Exception as error:
            self.error = error
        self.over = len(items) < wanted
        return items

    def _at(self, begin: int, wanted: int) -> Iterable[Any]:
        assert self.count is not None
        places = range(begin, min(begin + wanted, self.count))
        if type(self._items) in _SLICED:
            return self._items[begin : places.stop]  # type: ignore[no-any-return]
        if begin or not self._head:
            return (operator.getitem(self._items, place) for place in places)
        return chain(self._head, (operator.getitem(self._items, place) for place in places[1:]))


def source_of(items: Any, inputs: list[str], required: list[str]) -> Source:
    """A collection as a source."""
    if isinstance(items, str | bytes | Mapping):
        what = f"graph.map takes a collection of items, not a {type(items).__name__}."
        raise GraphError("graph-items", what, "For one item there is graph.run(feed); else put it into a list.")
    table = _table(items, inputs, required)
    if table is not None:
        return table
    if isinstance(items, Sequence):
        return Source(items, count=len(items), indexed=True)
    if _is_indexed(items):
        return Source(items, count=len(items), indexed=True)
    if isinstance(items, Iterable) or hasattr(items, "__getitem__"):
        return Source(items, count=_count(items))
    what = f"graph.map takes a collection of items, and a {type(items).__name__} cannot be gone through."
    raise GraphError("graph-items", what, "Give a list, a generator, a Dataset, a DataFrame or a pyarrow Table.")


def _is_indexed(items: Any) -> bool:
    """A map-style Dataset: it has a length and items by number, and need not know where it ends."""
    kind = type(items)
    torch = sys.modules.get("torch.utils.data")
    if torch is not None and isinstance(items, torch.IterableDataset):
        return False
    if torch is not None and isinstance(items, torch.Dataset):
        return hasattr(kind, "__len__")
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not hasattr(kind, "__iter__")


def _count(items: Any) -> int | None:
    try:
        return len(items)
    except Exception:  # a generator has none; a loader over a stream says so in its own way
        return None


# ---- tables ----------------------------------------------------------------------------------------------------------


def _table(items: Any, inputs: list[str], required: list[str]) -> Source | None:
    """The rows of a DataFrame, a Dataset of Hugging Face's, a pyarrow Table, Dataset, reader or ParquetFile."""
    pandas, arrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(items, pandas.DataFrame):
        names = _columns([str(name) for name in items.columns], inputs, required)
        places = [[str(name) for name in items.columns].index(name) for name in names]
        return Source(_frame_rows(items, places), count=len(items), rows=True)
    if arrow is None:
        return None
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(items, datasets.Dataset | datasets.IterableDataset) and items.column_names:
        names = _columns(items.column_names, inputs, required)
        return Source(_dataset_rows(items.select_columns(names), names), count=_count(items), rows=True)
    if isinstance(items, arrow.Array | arrow.ChunkedArray):
        return Source((value.as_py() for value in items), count=len(items))
    if isinstance(items, arrow.RecordBatch):
        items = arrow.Table.from_batches([items])
    if isinstance(items, arrow.Table):
        names = _columns(items.column_names, inputs, required)
        return Source(_arrow_rows(items.select(names).to_batches(_BLOCK)), count=items.num_rows, rows=True)
    if isinstance(items, arrow.RecordBatchReader):
        names = _columns(items.schema.names, inputs, required)
        return Source(_arrow_rows(batch.select(names) for batch in items), rows=True)
    return _stored_table(items, inputs, required)


def _stored_table(items: Any, inputs: list[str], required: list[str]) -> Source | None:
    parquet, dataset = sys.modules.get("pyarrow.parquet"), sys.modules.get("pyarrow.dataset")
    if parquet is not None and isinstance(items, parquet.ParquetFile):
        names = _columns(items.schema_arrow.names, inputs, required)
        batches = (batch.select(names) for batch in items.iter_batches(_BLOCK, columns=names))
        return Source(_arrow_rows(batches), count=items.metadata.num_rows, rows=True)
    if dataset is not None and isinstance(items, dataset.Dataset):
        names = _columns(items.schema.names, inputs, required)
        return Source(_arrow_rows(items.to_batches(columns=names)), count=items.count_rows(), rows=True)
    return None


def _columns(there: Sequence[str], inputs: list[str], required: list[str]) -> list[str]:
    """The columns that are inputs, in the order of the inputs. What else a table has is nobody's business here."""
    missing = [name for name in required if name not in there]
    if missing and len(inputs) == len(there) == 1:
        return [there[0]]
    if missing:
        what = f"the table has no column for the input `{missing[0]}`;"
        raise GraphError("graph-items", what, f"{nearest(missing[0], there)} Rename a column.")
    names = [name for name in inputs if name in there]
    if names != inputs[: len(names)]:  # rows are given in order, and cannot leave out one in the middle
        gap = next(name for name, have in zip(inputs, names, strict=False) if name != have)
        what = f"the table has no column for the input `{gap}`, but for one after it."
        raise GraphError("graph-items", what, "Add the column.")
    return names


def _arrow_rows(batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from zip(*columns, strict=True)


def _dataset_rows(dataset: Any, names: list[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of a dataset of Hugging Face's, in the format it has."""
    for block in dataset.iter(_BLOCK):
        yield from zip(*(block[name] for name in names), strict=True)


def _frame_rows(frame: Any, places: list[int]) -> Iterator[tuple[Any, ...]]:
    for begin in range(0, len(frame), _BLOCK):
        block = frame.iloc[begin : begin + _BLOCK]
        yield from zip(*(block.iloc[:, place].tolist() for place in places), strict=True)

"""What `graph.map` is given: any collection, read once, a piece at a time, from where an earlier job has stopped."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import inf
from time import perf_counter
from typing import Any, NamedTuple

from clew.engines.engine import Unsent
from clew.errors import GraphError, nearest
from clew.graph.nodes import Input
from clew.graph.recorded import CONTAINERS, RecordedInput, kind_of

from .batches import Block, as_recorded, takes_blocks

_BLOCK = 4096  # rows of a table that are made into Python's own values at a time
_SLICED = (list, tuple, range)  # Python's own: a slice of one is what its items are, and a tenth of the work


class CarriedItem(NamedTuple):
    """An item, and what is carried past the graph into the output."""

    item: Any
    values: tuple[Any, ...]


class Taken(NamedTuple):
    """Some items, their numbers, and the columns that are carried through, by name."""

    indices: Sequence[int]
    items: Any  # a list, or a Block
    carried: dict[str, list[Any]]


class Source:
    """Items with their numbers. `rows` says that they are tuples of the graph's inputs in their order."""

    is_checked = True  # the first item must fit: if it does not, no other will

    def __init__(
        self,
        items: Any,
        *,
        count: int | None = None,
        rows: bool = False,
        indexed: bool = False,
        keep: Sequence[str] = (),
    ) -> None:
        self.count = count
        self.rows = rows
        self.keep = keep  # columns that items carry along: then they are CarriedItems
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
        return [one.item for one in self._head] if self.keep else self._head

    def skip(self, done: bytearray) -> None:
        """Leave out the items whose place in `done` is not 0."""
        self._done = done

    def take(self, wanted: int, batch: int = 1, seconds: float = inf) -> Taken:
        """The next items and their numbers: `wanted`, in whole batches; or, of a collection that has become slow, as
        many as come in time, because what is done must not wait for what may come in an hour."""
        numbers, items = self._take(wanted, batch, perf_counter() + seconds)
        if not self.keep:
            return Taken(numbers, items, {})
        carried = {name: [one.values[place] for one in items] for place, name in enumerate(self.keep)}
        return Taken(numbers, [one.item for one in items], carried)

    def _take(self, wanted: int, batch: int, end: float) -> tuple[Sequence[int], list[Any]]:
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


class BlockSource(Source):
    """The rows of blocks, a block of them at a time."""

    def __init__(self, blocks: Iterable[Block], count: int | None, keep: Sequence[str] = ()) -> None:
        super().__init__(blocks, count=count, keep=keep)
        self._rest: list[Block] = []  # what was read and not taken

    def first(self) -> list[Any]:
        self._read(1, inf)
        self.over = False
        return list(self._rest[0][:1]) if self._rest else []

    def take(self, wanted: int, batch: int = 1, seconds: float = inf) -> Taken:
        end = perf_counter() + seconds
        while True:
            begin, block = self._next, self._cut(wanted, batch, end)
            if block is None:
                return Taken((), [], {})
            self._next += len(block)
            numbers: Sequence[int] = range(begin, self._next)
            if begin < len(self._done):
                numbers = [number for number in numbers if number >= len(self._done) or not self._done[number]]
                block = block.rows_at([number - begin for number in numbers])
            if numbers:
                return Taken(numbers, block, {name: block.column(name) for name in self.keep})

    def _cut(self, wanted: int, batch: int, end: float) -> Block | None:
        self._read(wanted, end, batch)
        if not self._rest:
            return None
        block = Block.of(self._rest) if len(self._rest) > 1 else self._rest[0]
        whole = len(block) if self.over else max(batch, len(block) // batch * batch)
        taken, rest = block[: min(wanted, whole)], block[min(wanted, whole) :]
        self._rest = [rest] if len(rest) else []
        self.over = self.over and not self._rest
        return taken

    def _read(self, wanted: int, end: float, batch: int = 1) -> None:
        """Blocks until there are enough rows; or, when time is over, a batch."""
        rows = sum(map(len, self._rest))
        try:
            while rows < wanted and not (rows >= batch and perf_counter() > end):
                block = next(self._iterator)
                rows += len(block)
                if len(block):
                    self._rest.append(block)
        except StopIteration:
            self.over = True
        except Exception as error:
            self.error, self.over = error, True


class Shape(NamedTuple):
    """What a collection is read for: the graph's inputs, how many rows it takes at once, and which columns to carry."""

    inputs: Sequence[Input]
    recorded: Sequence[RecordedInput] = ()
    batch: int | None = None
    keep: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.inputs]

    @property
    def required(self) -> list[str]:
        return [one.name for one in self.inputs if not one.has_default]

    @property
    def row_input(self) -> str | None:
        """The one input that is needed, if it can take a whole row: it was recorded with a mapping, or rows of it make
        the frame that it was recorded with."""
        kinds = {one.name: one.kind for one in self.recorded}
        takes_rows = ("mapping",) if self.batch is None else ("frame", "table")
        return self.required[0] if len(self.required) == 1 and kinds.get(self.required[0]) in takes_rows else None

    @property
    def recorded_arrays(self) -> bool:
        """True if some input was not recorded with what a table has in its cells."""
        return any(one.kind in ("array", "tensor") or one.class_name == "tuple" for one in self.recorded)

    def takes_blocks(self, kind: str) -> bool:
        return self.batch is not None and takes_blocks(kind, self.recorded)

    def bound(self, row: Any) -> Any:
        """What a row gives to the inputs by name. The one rule for rows of files, whatever the format."""
        if isinstance(row, dict):
            found = {name: row[name] for name in self.names if name in row}
            if found and all(name in found for name in self.required):
                values = self.converted(tuple(found.values()), list(found))
                return values if type(values) is Unsent else dict(zip(found, values, strict=True))
            if self.row_input is not None:
                return {**found, self.row_input: row}
        missing_inputs = [name for name in self.required if not isinstance(row, dict) or name not in row]
        what = f"the row has no column for the input `{(missing_inputs or self.names or ['?'])[0]}`."
        if not isinstance(row, dict):
            what = f"the row is a {type(row).__name__} and has no columns."
        return Unsent(what, f"Columns give the inputs by name: {', '.join(self.names)}.", row)

    def converted(self, values: tuple[Any, ...], names: Sequence[str]) -> Any:
        """Values of a table, as what the inputs of these names were recorded with; or why they cannot be."""
        if self.batch is not None or not any(type(value) is list for value in values):
            return values
        recorded = {one.name: one for one in self.recorded}
        try:
            pairs = zip(values, names, strict=True)
            return tuple(as_recorded(value, recorded[name]) if name in recorded else value for value, name in pairs)
        except Exception as error:
            return Unsent(str(error), "", dict(zip(names, values, strict=True)))

    def carried(self, row: Any) -> tuple[Any, ...]:
        return tuple(row.get(name) if isinstance(row, dict) else None for name in self.keep)


def source_of(items: Any, shape: Shape) -> Source:
    """A collection as a source."""
    if isinstance(items, str | bytes | Mapping):
        what = f"graph.map takes a collection of items, not a {type(items).__name__}."
        raise GraphError("graph-items", what, "For one item there is graph.run(feed); else put it into a list.")
    if hasattr(type(items), "clew_source"):  # files of rows
        return items.clew_source(shape)  # type: ignore[no-any-return]
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(items, arrow.RecordBatch):
        items = arrow.Table.from_batches([items])
    if kind_of(items) in CONTAINERS and shape.takes_blocks(kind_of(items)):
        _check_kept(shape.keep, _names_of(items))
        return BlockSource([Block(items)], len(items), shape.keep)
    table = _table(items, shape)
    if table is not None:
        return table
    if shape.keep:
        return Source(_carrying(items, shape), count=_count(items), keep=shape.keep)
    if isinstance(items, Sequence):
        return Source(items, count=len(items), indexed=True)
    if _is_indexed(items):
        return Source(items, count=len(items), indexed=True)
    if isinstance(items, Iterable) or hasattr(items, "__getitem__"):
        return Source(items, count=_count(items))
    what = f"graph.map takes a collection of items, and a {type(items).__name__} cannot be gone through."
    raise GraphError("graph-items", what, "Give a list, a generator, a Dataset, a DataFrame or a pyarrow Table.")


def _carrying(items: Any, shape: Shape) -> Iterator[CarriedItem]:
    """Dictionaries, without the columns that only pass by."""
    others = set(shape.keep) - set(shape.names)
    for item in items:
        if not isinstance(item, dict):
            what = f"keep= names columns, and an item is a {type(item).__name__}."
            raise GraphError("graph-items", what, "Give a table, or dictionaries.")
        given = {key: value for key, value in item.items() if key not in others}
        yield CarriedItem(given, shape.carried(item))


def _names_of(items: Any) -> list[str]:
    kind = kind_of(items)
    return list(map(str, items.columns)) if kind == "frame" else items.column_names if kind == "table" else []


def _check_kept(keep: Sequence[str], there: Sequence[str]) -> None:
    for name in keep:
        if name not in there:
            what = f"there is no column `{name}` to keep;"
            raise GraphError("graph-items", what, nearest(name, there) if there else "Give a frame or a table.")


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


def _table(items: Any, shape: Shape) -> Source | None:
    """A source of the rows of a table: a DataFrame, a Dataset of Hugging Face's, a pyarrow Table, RecordBatch,
    RecordBatchReader, Dataset or ParquetFile."""
    pandas, arrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(items, pandas.DataFrame):
        there = [str(name) for name in items.columns]
        return _rows(shape, there, lambda names: _frame_rows(items, [there.index(name) for name in names]), len(items))
    if arrow is None:
        return None
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(items, datasets.Dataset | datasets.IterableDataset) and items.column_names:
        if pandas is not None and shape.takes_blocks("frame"):
            _check_kept(shape.keep, items.column_names)
            frames = (Block(pandas.DataFrame(dict(block))) for block in items.iter(_BLOCK))
            return BlockSource(frames, _count(items), shape.keep)
        return _rows(
            shape,
            items.column_names,
            lambda names: _dataset_rows(items.select_columns(names), names),
            _count(items),
        )
    if isinstance(items, arrow.Array | arrow.ChunkedArray):
        return Source((value.as_py() for value in items), count=len(items))
    if isinstance(items, arrow.Table):
        return _rows(
            shape,
            items.column_names,
            lambda names: _arrow_rows(items.select(names).to_batches(_BLOCK)),
            items.num_rows,
        )
    if isinstance(items, arrow.RecordBatchReader):
        return _batches(shape, items.schema.names, lambda names: (batch.select(names) for batch in items), None)
    return _stored_table(items, shape)


def _stored_table(items: Any, shape: Shape) -> Source | None:
    parquet, dataset = sys.modules.get("pyarrow.parquet"), sys.modules.get("pyarrow.dataset")
    if parquet is not None and isinstance(items, parquet.ParquetFile):

        def batches(names: list[str]) -> Iterator[Any]:
            return (batch.select(names) for batch in items.iter_batches(_BLOCK, columns=names))

        return _batches(shape, items.schema_arrow.names, batches, items.metadata.num_rows)
    if dataset is not None and isinstance(items, dataset.Dataset):
        return _batches(shape, items.schema.names, lambda names: items.to_batches(columns=names), items.count_rows())
    return None


def _batches(
    shape: Shape, there: list[str], batches: Callable[[list[str]], Iterable[Any]], count: int | None
) -> Source:
    """The rows of batches of Arrow's, which are read a few at a time."""
    if not shape.takes_blocks("table"):
        return _rows(shape, there, lambda names: _arrow_rows(batches(names)), count)
    _check_kept(shape.keep, there)
    table = sys.modules["pyarrow"].Table
    return BlockSource((Block(table.from_batches([batch])) for batch in batches(there)), count, shape.keep)


def _rows(
    shape: Shape, there: Sequence[str], rows: Callable[[list[str]], Iterator[tuple[Any, ...]]], count: int | None
) -> Source:
    """The rows of a table: tuples of the inputs; or, for an input that was recorded with a mapping, dictionaries."""
    _check_kept(shape.keep, there)
    if shape.row_input is not None and shape.row_input not in there:
        named = (dict(zip(there, row, strict=True)) for row in rows(list(there)))
        if shape.keep:
            carrying = (CarriedItem({shape.row_input: row}, shape.carried(row)) for row in named)
            return Source(carrying, count=count, keep=shape.keep)
        return Source(({shape.row_input: row} for row in named), count=count)
    names = _columns(there, shape)
    if not shape.keep:
        converted = (shape.converted(row, shape.names[: len(row)]) for row in rows(names))
        return Source(converted if shape.recorded_arrays else rows(names), count=count, rows=True)
    others = [name for name in shape.keep if name not in names]
    both, inputs = [*names, *others], len(names)
    places = [both.index(name) for name in shape.keep]
    converted_rows = (
        CarriedItem(shape.converted(row[:inputs], shape.names[:inputs]), tuple(row[place] for place in places))
        for row in rows(both)
    )
    return Source(converted_rows, count=count, rows=True, keep=shape.keep)


def _columns(there: Sequence[str], shape: Shape) -> list[str]:
    """The columns that are inputs, in the order of the inputs. What else a table has is nobody's business here."""
    inputs, required = shape.names, shape.required
    missing = [name for name in required if name not in there]
    if missing and any(one.kind in ("frame", "table") for one in shape.recorded):
        what = f"the input `{missing[0]}` was recorded with a table, and the rows of one are to be given."
        raise GraphError("graph-items", what, "Say how many rows at a time: batch=500.")
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

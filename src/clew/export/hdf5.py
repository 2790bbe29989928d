"""Exports to HDF5: one group for each name, with `values` and the columns `steps`, `times`, `lines`, `ranks`.

All datasets can grow. `values` is (N, *shape) and as wide as the largest value; the rest of a smaller one
holds the number in the attribute `fill` (NaN for floats, else 0), and `shapes` (N, ndim) is the shape of
each value. A dataset has one number of dimensions and one dtype; its attribute `kind` is `array`, `text`
or `json`. The first kind of value that a name has is in `values`; others are in `values_2d` (another
number of dimensions), `values_1d_int64` (another dtype), `values_text`, `values_json`, each with its own
`steps_2d`, `shapes_2d` and so on.

A slash in a name would make a group: names are percent-encoded, and the attribute `name` has the original.
`HDF5Saver` writes the same layout, with `iterations` and `ranks` beside the values.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from clew.errors import MissingLibraryError
from clew.export.json import to_json
from clew.export.whole_files import count_changes, escape_surrogates, names_to_export, read_blocks, whole_file
from clew.reading.series import as_array
from clew.records import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from clew.export import Progress
    from clew.export.whole_files import Block
    from clew.reading.run import Run

BLOCK = 1_000
NUMBERS = 50_000  # size of a block of plain numbers
_STACK_BYTES = 8 << 20  # most bytes of small values that are written together
_CHUNK = 256 << 10
_LARGEST_CHUNK = 1 << 20
_OWN_CHUNK = 4 << 10  # bytes from which a compressed value has its own chunk, which is written once and never moved
_ROWS = 1024  # a chunk takes its full size from its first row on: scalars must not take 256 KiB for each name
_MOST_DIMENSIONS = 31  # HDF5 allows 32, and the first counts the values
_READABLE = " []()'\"=,+*<>!@:;&|^~"


class Item(NamedTuple):
    """A value in the form in which it is written."""

    kind: str  # array, text, json
    data: Any  # a NumPy array; for text and json a str
    original_dtype: str = ""


class Store:
    """One group, in which it creates datasets."""

    def __init__(self, group: Any, **options: Any) -> None:
        self.group = group
        self._options = options  # compression and the like

    def holds(self, dtype: Any) -> bool:
        """Whether HDF5 has a type for this dtype: numbers, booleans, complex numbers, records of these."""
        fields = dtype.fields
        if dtype.subdtype is not None or not dtype.itemsize:
            return False
        return dtype.kind in "fiubc" or (bool(fields) and all(self.holds(field[0]) for field in fields.values()))

    def attribute(self, number: Any) -> Any:
        """A number in the form in which an attribute holds it."""
        return number

    def reserve(self, size: int) -> None:
        """Called before so many bytes are written; a subclass may raise if the disk is full."""

    def create(self, key: str, shape: tuple[int, ...], dtype: Any, fill: Any) -> Any:
        """Create an empty dataset for values of about this shape; the dtype None is for texts."""
        import h5py

        kind = h5py.string_dtype() if dtype is None else dtype
        chunks = chunk_shape(shape, 16 if dtype is None else dtype.itemsize)
        options = self._options if key.startswith("values") else {}  # columns stay readable if values are damaged
        if (
            options.get("compression") is not None
            and dtype is not None
            and dtype.itemsize * math.prod(shape) >= _OWN_CHUNK
        ):
            chunks = (1, *chunks[1:])
        return self.group.create_dataset(
            key,
            shape=(0, *shape),
            maxshape=(None,) * (1 + len(shape)),
            dtype=kind,
            chunks=chunks,
            fillvalue=fill,
            **options,
        )


class Part:
    """One dataset of values and its columns, which grow together."""

    def __init__(self, store: Store, suffix: str, kind: str) -> None:
        self.values = store.group[f"values{suffix}"]
        self.kind = kind
        self.suffix = suffix
        self.count: int = self.values.shape[0]  # complete rows; a failure may have left more
        self._store = store
        self._columns: dict[str, Any] = {}

    @classmethod
    def create(cls, store: Store, suffix: str, like: Item, shape: tuple[int, ...]) -> Part:
        dtype = like.data.dtype if like.kind == "array" else None
        fill = None if dtype is None or dtype.fields is not None else fill_of(dtype)
        values = store.create(f"values{suffix}", shape, dtype, fill)
        values.attrs["kind"] = like.kind
        if shape and fill is not None:
            values.attrs["fill"] = store.attribute(fill)
        if dtype is not None and like.original_dtype not in ("", str(dtype)):
            values.attrs["converted_from"] = like.original_dtype
        return cls(store, suffix, like.kind)

    def holds(self, item: Item) -> bool:
        """Whether this part can hold the value exactly."""
        if item.kind != self.kind or item.kind != "array":
            return item.kind == self.kind
        own_dtype, dtype = self.values.dtype, item.data.dtype
        if self.values.ndim != 1 + item.data.ndim:
            return False
        kinds = dtype.kind + own_dtype.kind
        if own_dtype == dtype or (kinds in ("ff", "ii", "uu", "ui", "cc") and np.can_cast(dtype, own_dtype, "safe")):
            return True
        return kinds in ("if", "uf") and _fits_into_float(item.data, 2 ** (np.finfo(own_dtype).nmant + 1))

    def append(self, items: list[Item], columns: dict[str, npt.NDArray[Any]]) -> None:
        """Append values in order; each has a row of every column."""
        begin = 0
        for block in _stack_runs(items):
            block_columns = {key: column[begin : begin + len(block)] for key, column in columns.items()}
            self.append_block(block, block_columns)
            begin += len(block)

    def append_block(self, block: npt.NDArray[Any], columns: dict[str, npt.NDArray[Any]]) -> None:
        """Append values of one shape."""
        self._write_rows(self.values, block)
        shape = block.shape[1:]
        if shape:
            columns = {**columns, "shapes": np.tile(np.array(shape, np.int64), (len(block), 1))}
        for key, column in columns.items():
            self._write_rows(self._column(key, column), column)
        self.count += len(block)

    def truncate(self, count: int) -> None:
        """Remove the rows after the first `count`."""
        self.count = count
        for dataset in (self.values, *self._columns.values()):
            if dataset.shape[0] > count:
                dataset.resize((count, *dataset.shape[1:]))

    def open_columns(self, keys: tuple[str, ...]) -> None:
        """Continue a part that is in the file already."""
        for key in keys:
            if key + self.suffix in self._store.group:
                self._columns[key] = self._store.group[key + self.suffix]
        self.truncate(min(dataset.shape[0] for dataset in (self.values, *self._columns.values())))

    def _write_rows(self, dataset: Any, block: npt.NDArray[Any]) -> None:
        if dataset.ndim > block.ndim:
            block = block[:, None]
        end = self.count + len(block)
        size = (end, *map(max, dataset.shape[1:], block.shape[1:]))
        self._store.reserve(_disk_space_for(dataset, self.count, block))
        if size != dataset.shape:
            dataset.resize(size)
        if block.size:
            dataset[(slice(self.count, end), *(slice(0, side) for side in block.shape[1:]))] = block

    def _column(self, key: str, like: npt.NDArray[Any]) -> Any:
        existing = self._columns.get(key)
        if existing is not None and existing.ndim >= like.ndim:
            return existing
        are_texts = like.dtype.kind == "O"
        dtype, fill = (None, None) if are_texts else (like.dtype, -1 if like.dtype.kind == "i" else 0)
        column = self._store.create(f"{key}{self.suffix}{'' if existing is None else '~'}", like.shape[1:], dtype, fill)
        if existing is not None:  # it had one number in each row, and now has several
            column.resize((self.count, *like.shape[1:]))
            column[:, 0] = existing[: self.count]
            del self._store.group[key + self.suffix]
            self._store.group.move(f"{key}{self.suffix}~", key + self.suffix)
        self._columns[key] = column
        return column


class Parts:
    """All parts of one name."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.all: list[Part] = []

    def append(self, items: list[Item], columns: dict[str, npt.NDArray[Any]]) -> None:
        """Append each value to the part that can hold it; parts are created as needed."""
        places_by_part: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            places_by_part.setdefault(self._part_of(item, items), []).append(place)
        for number, places in places_by_part.items():
            part_columns = {key: column[places] for key, column in columns.items()}
            self.all[number].append([items[place] for place in places], part_columns)

    def add(self, like: Item, shape: tuple[int, ...]) -> Part:
        part = Part.create(self.store, self._new_suffix(like), like, shape)
        self.all.append(part)
        return part

    def _part_of(self, item: Item, items: list[Item]) -> int:
        for number, part in enumerate(self.all):
            if part.holds(item):
                return number
        shape: tuple[int, ...] = ()
        if item.kind == "array":  # as wide as the widest of the items, so that chunks are not too small
            shapes = [i.data.shape for i in items if i.kind == "array" and i.data.ndim == item.data.ndim]
            shape = tuple(map(max, *shapes)) if len(shapes) > 1 else item.data.shape
        self.add(item, shape)
        return len(self.all) - 1

    def _new_suffix(self, like: Item) -> str:
        if not self.all:
            return ""
        if like.kind != "array":
            return f"_{like.kind}"
        used = {part.suffix for part in self.all}
        first = f"_{like.data.ndim}d"
        if all(part.kind != "array" or part.values.ndim != 1 + like.data.ndim for part in self.all):
            return first
        names = (f"{first}_{like.data.dtype.name}{number}" for number in ("", *range(2, 10_000)))
        return next(name for name in names if name not in used)


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Write groups under `/changes`, without deletions; the attribute `run` is the run's metadata as JSON."""
    try:
        import h5py
    except ImportError as error:
        raise MissingLibraryError("missing-library", "Export to HDF5 needs h5py.", "pip install h5py") from error
    total, count = count_changes(run, names), 0
    with whole_file(target) as draft, h5py.File(draft, "w") as file:
        file.attrs["run"] = to_json({**run.meta, "status": run.status})
        changes = file.create_group("changes")
        for name in names_to_export(run, names):
            write_series(Store(changes.create_group(encode_name(name))), run, name)
            count += len(run[name])
            progress(count, total)
    return target


def write_series(store: Store, run: Run, name: str) -> None:
    """Write the datasets and attributes of one name."""
    store.group.attrs["name"] = escape_surrogates(name)
    series, table, parts, begin = run[name].without_deletions(), run.tables.table, Parts(store), 0
    step_type = _step_type(series.steps)
    numbers = series.to_numpy() if set(series.kinds()) <= {Kind.FLOAT, Kind.INT, Kind.BOOL} else None
    if numbers is not None:  # even if it is empty
        parts.add(Item("array", np.zeros((), numbers.dtype)), ())
    for block in read_blocks(run, name, BLOCK if numbers is None else NUMBERS):
        has_value = table.gather("kind", block.rows) != Kind.DELETED
        columns = {key: column[has_value] for key, column in _block_columns(block, step_type).items()}
        count = int(has_value.sum())
        if numbers is None:
            parts.append([item_of(value, store) for value in table.values(block.rows[has_value])], columns)
        else:
            parts.all[0].append_block(numbers[begin : begin + count], columns)
        begin += count


def encode_name(name: str) -> str:
    """A name as one step of an HDF5 path. The empty name is `%`, which no other name is encoded as."""
    if not name:
        return "%"
    return quote(name, safe=_READABLE, errors="backslashreplace") if name.strip(".") else name.replace(".", "%2E")


def fill_of(dtype: Any) -> Any:
    return dtype.type(np.nan if dtype.kind == "f" else 0)


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The shape of chunks of about 256 KiB: many small values, or one, or a part of one over 1 MiB."""
    sides = [max(1, side) for side in shape]
    for axis in range(len(sides)):
        while itemsize * math.prod(sides) > _LARGEST_CHUNK and sides[axis] > 1:
            sides[axis] = (sides[axis] + 1) // 2
    return max(1, min(_ROWS, _CHUNK // (itemsize * math.prod(sides)))), *sides


def item_of(value: Any, store: Store) -> Item:
    """A value as an array, a text, or else as JSON."""
    array = array_of(value)
    if array is not None and store.holds(array.dtype) and array.ndim <= _MOST_DIMENSIONS:
        return Item("array", array, str(getattr(value, "dtype", "")).removeprefix("torch."))
    if isinstance(value, str) and "\0" not in value and escape_surrogates(value) == value:
        return Item("text", str(value))
    return Item("json", to_json(value))


def array_of(value: Any) -> npt.NDArray[Any] | None:
    """Numbers, arrays and tensors as a NumPy array; None for any other value."""
    array = as_array(value)
    if array is not None:
        return array
    if isinstance(value, int) and not isinstance(value, bool):
        dtypes = (dtype for dtype in (np.int64, np.uint64) if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
        dtype = next(dtypes, None)
        return None if dtype is None else np.array(value, dtype)
    if isinstance(value, (bool, float, complex)):
        return np.array(value)
    return _tensor_as_array(value)


def _tensor_as_array(value: Any) -> npt.NDArray[Any] | None:
    """A tensor of a kind that NumPy does not have: sparse becomes dense, and float8 becomes float32, both exactly."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    try:
        tensor = value.detach()
        dense = (tensor if tensor.layout == torch.strided else tensor.to_dense()).as_subclass(torch.Tensor)
        return as_array(dense.float() if dense.is_floating_point() and dense.element_size() == 1 else dense)
    except (TypeError, RuntimeError):
        return None


def _disk_space_for(dataset: Any, begin: int, block: npt.NDArray[Any]) -> int:
    """The most bytes that writing a block may take on disk: whole chunks, and the texts themselves."""
    chunk_rows, *chunk_sides = dataset.chunks
    row_count = (begin + len(block) - 1) // chunk_rows - begin // chunk_rows + 1
    chunks_per_row = math.prod(-(-side // chunk) for side, chunk in zip(block.shape[1:], chunk_sides, strict=True))
    texts = sum(4 * len(entry) + 32 for entry in block.flat) if block.dtype.kind == "O" else 0
    itemsize = max(dataset.dtype.itemsize, 16 if texts else 1)
    return int(row_count * chunks_per_row * math.prod(dataset.chunks) * itemsize) + texts


def _fits_into_float(numbers: npt.NDArray[Any], limit: int) -> bool:
    """Whether a float type that holds all integers up to `limit` holds these integers exactly."""
    return numbers.size == 0 or (-limit <= int(numbers.min()) and int(numbers.max()) <= limit)


def _stack_runs(items: list[Item]) -> Iterator[npt.NDArray[Any]]:
    """Stack neighbours of one shape and dtype into one array, unless that copies much."""
    if items[0].kind != "array":
        yield np.array([item.data for item in items], dtype=object)
        return
    run: list[Any] = []
    for array in (item.data for item in items):
        if run and (
            (array.shape, array.dtype) != (run[0].shape, run[0].dtype) or len(run) * array.nbytes > _STACK_BYTES
        ):
            yield np.stack(run)
            run = []
        run.append(array)
    yield np.stack(run) if len(run) > 1 else run[0][None]


def _block_columns(block: Block, step_type: Any) -> dict[str, npt.NDArray[Any]]:
    steps = block.steps if step_type is not object else [to_json(step) for step in block.steps]
    return {
        "steps": np.array(steps, dtype=step_type),
        "times": block.times,
        "lines": np.array(block.lines, np.int64),
        "ranks": np.array(block.ranks, np.int64),
    }


def _step_type(steps: list[Any]) -> Any:
    """One type for every part and block: that of numbers if all steps are numbers, else JSON."""
    recorded = [step for step in steps if step is not None]
    if recorded and all(type(step) in (int, float) for step in recorded):
        dtype = np.array(recorded).dtype
        if len(recorded) < len(steps):
            return np.float64  # NaN before the first step
        return dtype.type if dtype.kind in "if" else object
    return object

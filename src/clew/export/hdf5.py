"""HDF5: one group a name, with `values` and beside it `steps`, `times`, `lines`, `ranks`, as long as `values`.

Everything can grow. `values` is (N, *shape) and as wide as the largest value; what a smaller one leaves free holds the
number in the attribute `fill` (NaN for floats, else 0), and `shapes` (N, ndim) says how large each value is. A dataset
has one number of dimensions and one dtype, and its attribute `kind` says what is in it: `array`, `text` or `json`.
The first kind of value a name has is in `values`; others in `values_2d` (another number of dimensions),
`values_1d_int64` (another dtype), `values_text`, `values_json`, and beside these `steps_2d`, `shapes_2d` and so on.

A slash in a name would make a group: names are percent-encoded, and stand in the attribute `name` as they are.
`HDF5Saver` writes the same layout, with `iterations` and `ranks` beside the values.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from clew.errors import MissingLibraryError
from clew.export.files import blocks, chosen, sayable, total, whole_file
from clew.export.json import text
from clew.history.series import as_array
from clew.records import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from clew.export import Progress
    from clew.export.files import Block
    from clew.history.run import Run

BLOCK = 1_000
NUMBERS = 50_000  # a block of plain numbers
_AT_ONCE = 8 << 20  # bytes of small values written together
_CHUNK = 256 << 10
_LARGEST_CHUNK = 1 << 20
_ALONE = 4 << 10  # compressed values of this size have chunks of their own, which are written once and never moved
_ROWS = 1024  # a chunk is on disk in full from its first row on: scalars must not take 256 KiB a name
_MOST_DIMENSIONS = 31  # HDF5 has 32, and the first counts the values
_READABLE = " []()'\"=,+*<>!@:;&|^~"


class Item(NamedTuple):
    """A value as it will be written."""

    kind: str  # array, text, json
    data: Any  # a NumPy array; for text and json a str
    given: str = ""  # the dtype it came in


class Store:
    """One group, and how datasets are made in it."""

    def __init__(self, group: Any, **options: Any) -> None:
        self.group = group
        self._options = options  # compression and the like

    def holds(self, dtype: Any) -> bool:
        """Whether HDF5 has a type for it: numbers, booleans, complex numbers, records of these."""
        fields = dtype.fields
        if dtype.subdtype is not None or not dtype.itemsize:
            return False
        return dtype.kind in "fiubc" or (bool(fields) and all(self.holds(field[0]) for field in fields.values()))

    def attribute(self, number: Any) -> Any:
        """A number of a dataset as an attribute."""
        return number

    def reserve(self, size: int) -> None:
        """So many bytes are about to be written; who minds a full disk says so now."""

    def create(self, key: str, shape: tuple[int, ...], dtype: Any, fill: Any) -> Any:
        """An empty dataset for values of about that shape; dtype None is for texts."""
        import h5py

        kind = h5py.string_dtype() if dtype is None else dtype
        chunks = chunk(shape, 16 if dtype is None else dtype.itemsize)
        options = self._options if key.startswith("values") else {}  # columns stay readable whatever becomes of values
        if options.get("compression") is not None and dtype is not None and dtype.itemsize * math.prod(shape) >= _ALONE:
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
    """One dataset of values, and the columns beside it: they grow together."""

    def __init__(self, store: Store, suffix: str, kind: str) -> None:
        self.values = store.group[f"values{suffix}"]
        self.kind = kind
        self.suffix = suffix
        self.count: int = self.values.shape[0]  # rows that are whole; a failure may have left more
        self._store = store
        self._columns: dict[str, Any] = {}

    @classmethod
    def new(cls, store: Store, suffix: str, like: Item, shape: tuple[int, ...]) -> Part:
        dtype = like.data.dtype if like.kind == "array" else None
        fill = None if dtype is None or dtype.fields is not None else fill_of(dtype)
        values = store.create(f"values{suffix}", shape, dtype, fill)
        values.attrs["kind"] = like.kind
        if shape and fill is not None:
            values.attrs["fill"] = store.attribute(fill)
        if dtype is not None and like.given not in ("", str(dtype)):
            values.attrs["converted_from"] = like.given
        return cls(store, suffix, like.kind)

    def holds(self, item: Item) -> bool:
        """Whether that value can be a row of it, exactly."""
        if item.kind != self.kind or item.kind != "array":
            return item.kind == self.kind
        mine, its = self.values.dtype, item.data.dtype
        if self.values.ndim != 1 + item.data.ndim:
            return False
        kinds = its.kind + mine.kind
        if mine == its or (kinds in ("ff", "ii", "uu", "ui", "cc") and np.can_cast(its, mine, "safe")):
            return True
        return kinds in ("if", "uf") and _whole_in(item.data, 2 ** (np.finfo(mine).nmant + 1))

    def append(self, items: list[Item], columns: dict[str, npt.NDArray[Any]]) -> None:
        """Values in order; a row of each column belongs to each."""
        begin = 0
        for block in _runs(items):
            mine = {key: column[begin : begin + len(block)] for key, column in columns.items()}
            self.append_block(block, mine)
            begin += len(block)

    def append_block(self, block: npt.NDArray[Any], columns: dict[str, npt.NDArray[Any]]) -> None:
        """Values of one shape."""
        self._place(self.values, block)
        shape = block.shape[1:]
        if shape:
            columns = {**columns, "shapes": np.tile(np.array(shape, np.int64), (len(block), 1))}
        for key, column in columns.items():
            self._place(self._column(key, column), column)
        self.count += len(block)

    def back_to(self, count: int) -> None:
        """Forget the rows after the first `count`."""
        self.count = count
        for dataset in (self.values, *self._columns.values()):
            if dataset.shape[0] > count:
                dataset.resize((count, *dataset.shape[1:]))

    def open_columns(self, keys: tuple[str, ...]) -> None:
        """Take up a part that is in the file already."""
        for key in keys:
            if key + self.suffix in self._store.group:
                self._columns[key] = self._store.group[key + self.suffix]
        self.back_to(min(dataset.shape[0] for dataset in (self.values, *self._columns.values())))

    def _place(self, dataset: Any, block: npt.NDArray[Any]) -> None:
        if dataset.ndim > block.ndim:
            block = block[:, None]
        end = self.count + len(block)
        size = (end, *map(max, dataset.shape[1:], block.shape[1:]))
        self._store.reserve(_cost(dataset, self.count, block))
        if size != dataset.shape:
            dataset.resize(size)
        if block.size:
            dataset[(slice(self.count, end), *(slice(0, side) for side in block.shape[1:]))] = block

    def _column(self, key: str, like: npt.NDArray[Any]) -> Any:
        found = self._columns.get(key)
        if found is not None and found.ndim >= like.ndim:
            return found
        texts = like.dtype.kind == "O"
        dtype, fill = (None, None) if texts else (like.dtype, -1 if like.dtype.kind == "i" else 0)
        made = self._store.create(f"{key}{self.suffix}{'' if found is None else '~'}", like.shape[1:], dtype, fill)
        if found is not None:  # it had one number a row, and now has several
            made.resize((self.count, *like.shape[1:]))
            made[:, 0] = found[: self.count]
            del self._store.group[key + self.suffix]
            self._store.group.move(f"{key}{self.suffix}~", key + self.suffix)
        self._columns[key] = made
        return made


class Parts:
    """Every part of one name."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.all: list[Part] = []

    def append(self, items: list[Item], columns: dict[str, npt.NDArray[Any]]) -> None:
        """Each value to the part that holds its kind; parts come into being as they are needed."""
        places: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault(self._part_of(item, items), []).append(place)
        for number, mine in places.items():
            self.all[number].append([items[place] for place in mine], {key: c[mine] for key, c in columns.items()})

    def add(self, like: Item, shape: tuple[int, ...]) -> Part:
        part = Part.new(self.store, self._suffix(like), like, shape)
        self.all.append(part)
        return part

    def _part_of(self, item: Item, items: list[Item]) -> int:
        for number, part in enumerate(self.all):
            if part.holds(item):
                return number
        shape: tuple[int, ...] = ()
        if item.kind == "array":  # as wide as the widest that is known, so that chunks are not too small
            alike = [i.data.shape for i in items if i.kind == "array" and i.data.ndim == item.data.ndim]
            shape = tuple(map(max, *alike)) if len(alike) > 1 else item.data.shape
        self.add(item, shape)
        return len(self.all) - 1

    def _suffix(self, like: Item) -> str:
        if not self.all:
            return ""
        if like.kind != "array":
            return f"_{like.kind}"
        taken = {part.suffix for part in self.all}
        first = f"_{like.data.ndim}d"
        if all(part.kind != "array" or part.values.ndim != 1 + like.data.ndim for part in self.all):
            return first
        names = (f"{first}_{like.data.dtype.name}{number}" for number in ("", *range(2, 10_000)))
        return next(name for name in names if name not in taken)


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Groups under `/changes`; the run's metadata as JSON in the attribute `run`. Deletions are left out."""
    try:
        import h5py
    except ImportError as error:
        raise MissingLibraryError("missing-library", "Export to HDF5 needs h5py.", "pip install h5py") from error
    count, done = total(run, names), 0
    with whole_file(target) as draft, h5py.File(draft, "w") as file:
        file.attrs["run"] = text({**run.meta, "status": run.status})
        changes = file.create_group("changes")
        for name in chosen(run, names):
            write_series(Store(changes.create_group(group_name(name))), run, name)
            done += len(run[name])
            progress(done, count)
    return target


def write_series(store: Store, run: Run, name: str) -> None:
    """One name: its group's datasets and attributes."""
    store.group.attrs["name"] = sayable(name)
    kept, table, parts, done = run[name].without_deletions(), run.tables.table, Parts(store), 0
    step_type = _step_type(kept.steps)
    numbers = kept.to_numpy() if set(kept.kinds()) <= {Kind.FLOAT, Kind.INT, Kind.BOOL} else None
    if numbers is not None:  # also when there is none
        parts.add(Item("array", np.zeros((), numbers.dtype)), ())
    for block in blocks(run, name, BLOCK if numbers is None else NUMBERS):
        stays = table.gather("kind", block.rows) != Kind.DELETED
        columns = {key: column[stays] for key, column in _columns(block, step_type).items()}
        count = int(stays.sum())
        if numbers is None:
            parts.append([item_of(value, store) for value in table.values(block.rows[stays])], columns)
        else:
            parts.all[0].append_block(numbers[done : done + count], columns)
        done += count


def group_name(name: str) -> str:
    """A name as one step of an HDF5 path. `%` alone, for a name without a letter, is the code of no other name."""
    if not name:
        return "%"
    return quote(name, safe=_READABLE, errors="backslashreplace") if name.strip(".") else name.replace(".", "%2E")


def fill_of(dtype: Any) -> Any:
    return dtype.type(np.nan if dtype.kind == "f" else 0)


def chunk(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """About 256 KiB: many small values, or one; a part of one that is over 1 MiB."""
    sides = [max(1, side) for side in shape]
    for axis in range(len(sides)):
        while itemsize * math.prod(sides) > _LARGEST_CHUNK and sides[axis] > 1:
            sides[axis] = (sides[axis] + 1) // 2
    return max(1, min(_ROWS, _CHUNK // (itemsize * math.prod(sides)))), *sides


def item_of(value: Any, store: Store) -> Item:
    """An array, a text, or JSON for everything else."""
    array = array_of(value)
    if array is not None and store.holds(array.dtype) and array.ndim <= _MOST_DIMENSIONS:
        return Item("array", array, str(getattr(value, "dtype", "")).removeprefix("torch."))
    if isinstance(value, str) and "\0" not in value and sayable(value) == value:
        return Item("text", str(value))
    return Item("json", text(value))


def array_of(value: Any) -> npt.NDArray[Any] | None:
    """Numbers, arrays and every tensor NumPy can take in some way, as an array."""
    array = as_array(value)
    if array is not None:
        return array
    if isinstance(value, int) and not isinstance(value, bool):
        fitting = (kind for kind in (np.int64, np.uint64) if np.iinfo(kind).min <= value <= np.iinfo(kind).max)
        kind = next(fitting, None)
        return None if kind is None else np.array(value, kind)
    if isinstance(value, (bool, float, complex)):
        return np.array(value)
    return _tensor(value)


def _tensor(value: Any) -> npt.NDArray[Any] | None:
    """A sparse tensor made dense, float8 made float32 (which holds it exactly), a subclass taken as a tensor."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    try:
        tensor = value.detach()
        dense = (tensor if tensor.layout == torch.strided else tensor.to_dense()).as_subclass(torch.Tensor)
        return as_array(dense.float() if dense.is_floating_point() and dense.element_size() == 1 else dense)
    except (TypeError, RuntimeError):
        return None


def _cost(dataset: Any, begin: int, block: npt.NDArray[Any]) -> int:
    """At most so many bytes are needed on disk: whole chunks, and the texts themselves."""
    first, *sides = dataset.chunks
    rows = (begin + len(block) - 1) // first - begin // first + 1
    covered = math.prod(-(-side // each) for side, each in zip(block.shape[1:], sides, strict=True))
    texts = sum(4 * len(text) + 32 for text in block.flat) if block.dtype.kind == "O" else 0
    return int(rows * covered * math.prod(dataset.chunks) * max(dataset.dtype.itemsize, 16 if texts else 1)) + texts


def _whole_in(numbers: npt.NDArray[Any], limit: int) -> bool:
    """Whether a float that counts to `limit` holds these exactly."""
    return numbers.size == 0 or (-limit <= int(numbers.min()) and int(numbers.max()) <= limit)


def _runs(items: list[Item]) -> Iterator[npt.NDArray[Any]]:
    """Neighbours of one shape and dtype as one array, unless that copies much."""
    if items[0].kind != "array":
        yield np.array([item.data for item in items], dtype=object)
        return
    run: list[Any] = []
    for array in (item.data for item in items):
        if run and ((array.shape, array.dtype) != (run[0].shape, run[0].dtype) or len(run) * array.nbytes > _AT_ONCE):
            yield np.stack(run)
            run = []
        run.append(array)
    yield np.stack(run) if len(run) > 1 else run[0][None]


def _columns(block: Block, step_type: Any) -> dict[str, npt.NDArray[Any]]:
    steps = block.steps if step_type is not object else [text(step) for step in block.steps]
    return {
        "steps": np.array(steps, dtype=step_type),
        "times": block.times,
        "lines": np.array(block.lines, np.int64),
        "ranks": np.array(block.ranks, np.int64),
    }


def _step_type(steps: list[Any]) -> Any:
    """One type for every part and block: numbers if all of them are, else JSON."""
    known = [step for step in steps if step is not None]
    if known and all(type(step) in (int, float) for step in known):
        found = np.array(known).dtype
        if len(known) < len(steps):
            return np.float64  # NaN before the first step
        return found.type if found.kind in "if" else object
    return object

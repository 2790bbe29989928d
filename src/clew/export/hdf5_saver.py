"""HDF5Saver: a callback of ModelTracer that moves values from memory into an HDF5 file."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clew.errors import MissingLibraryError, OptionError, nearest
from clew.export.hdf5 import Item, Part, Parts, Store, encode_name, item_of
from clew.export.json import to_json
from clew.export.whole_files import escape_surrogates
from clew.trouble import report

if TYPE_CHECKING:
    from types import TracebackType

    import numpy.typing as npt

Batch = tuple[Parts, list[Item], dict[str, "npt.NDArray[Any]"]]
Existing = Literal["error", "replace", "append"]
_MODES = {"error": "x", "replace": "w", "append": "a"}
_FOR_METADATA = 256 << 10
_RESERVED_AHEAD = 1 << 20
_CANNOT_RESERVE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)  # the file system does not support it


class HDF5Saver:
    """Appends every value to a dataset of its name in an HDF5 file, and empties the lists.

        with clew.HDF5Saver("trace.h5", float_dtype="float16") as saver:
            with clew.ModelTracer(model, ["encoder.*"], post_gather=saver):
                train(model)
            saver.datasets["encoder.0"][-1]

    The file has one group for each name, also for names with dots; a slash is percent-encoded, and the attribute `name`
    has the original name. The datasets of a group all grow:

    - `values` (N, *shape), as wide as the largest value. The rest of a smaller value holds the number in the
      attribute `fill` (NaN for floats, else 0), and `shapes` (N, ndim) is the shape of each value;
    - `iterations` and `ranks` (N,). Where the values were stacked, so that several iterations or ranks belong to one
      value, these are (N, k), padded with -1. If their number is neither that of the values nor is there a single
      value, nothing tells which belongs to which, and each value has all of them.

    A dataset has one number of dimensions and one dtype. `values` takes the kind that comes first; another number of
    dimensions goes to `values_<n>d`, numbers that its dtype does not hold exactly to `values_<n>d_<dtype>`, texts to
    `values_text`, and any other value to `values_json`, as JSON. Each has its own columns: `iterations_<n>d`,
    `ranks_<n>d`, `shapes_<n>d`. The attribute `kind` is `array`, `text` or `json`.

    `float_dtype` and `int_dtype` convert numbers; integers that do not fit keep their own dtype, and clew reports it.
    bfloat16 and float8 become float32 unless `float_dtype` is given (attribute `converted_from`). `compression`,
    `compression_opts` and `shuffle` are h5py's.

    The file is opened with the first value, so that only a process that writes creates one. It is complete after
    `close()`, at the end of the `with` block and at a normal exit of the program. Each call ends with a flush, before
    the lists are emptied: a program killed between two calls (`kill -9`) leaves a file that opens and has every value
    taken out of the lists. A kill during a call may do damage: with `compression`, values under 4 KiB share chunks
    that are rewritten, and the last one may be lost; without, no damage was seen in trials, but HDF5 does not promise
    it. A loss of power may damage the file at any time.

    A full disk, or any other problem with the file, is reported once on stderr; the values then stay in the lists, and
    the next call tries again.
    """

    _column_keys: tuple[str, ...] = ("iterations", "ranks", "shapes")  # columns that grow with the values

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        float_dtype: Any = None,
        int_dtype: Any = None,
        compression: str | int | None = None,
        compression_opts: Any = None,
        shuffle: bool = False,
        existing: Existing = "error",
    ) -> None:
        _h5py()
        if existing not in _MODES:
            raise OptionError("hdf5-option", f"existing={existing!r} is unknown;", nearest(str(existing), _MODES))
        self.path = Path(path).absolute()  # a later os.chdir must not move it
        self._float = parse_dtype("float_dtype", float_dtype, "f")
        self._int = parse_dtype("int_dtype", int_dtype, "iu")
        self._options = _check_options(compression, compression_opts, shuffle)
        _check_target(self.path, existing)
        self._mode = _MODES[existing]
        self._file: Any = None
        self._names: dict[str, Parts] = {}
        self._safe_rows: dict[str, dict[str, int]] = {}  # name → suffix → rows that are in the file for certain
        self._space = _ReservedSpace()
        self._lock = threading.RLock()
        self._pid = 0  # of the process that opened the file
        self._finalizer: weakref.finalize[..., HDF5Saver] | None = None

    @property
    def datasets(self) -> Mapping[str, Any]:
        """The open h5py dataset `values` of each name. Once the saver is closed, open the file with h5py instead."""
        return _OpenDatasets(self._names)

    def __call__(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any]) -> None:
        """Write the values of a name, and empty the three lists."""
        if not values:
            return
        with self._lock:
            try:
                self._write(name, values, iterations, ranks)
            except Exception as error:
                self._report_failure(error)
                return
        values.clear()
        iterations.clear()
        ranks.clear()

    def close(self) -> None:
        """Close the file. Later values open it again, and are appended."""
        with self._lock:
            self._names.clear()
            self._file = None
            finalizer, self._finalizer = self._finalizer, None
            if finalizer is not None:
                finalizer()

    def __enter__(self) -> HDF5Saver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"HDF5Saver({str(self.path)!r})"

    def _write(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any]) -> None:
        """Write all values or, if that fails, leave the file with the rows it had."""
        if self._file is None:
            self._open()
        elif self._pid != os.getpid():
            raise OSError("the process from which this one was forked has it open")
        self._space.begin(self._file)
        changed_parts: list[Parts] = []
        try:
            for name_parts, items, columns in self._make_batches(name, values, iterations, ranks):
                changed_parts.append(name_parts)
                name_parts.append(items, columns)
            self._file.flush()
        except BaseException:  # also Ctrl-C: the lists are still full and will be written again
            self._roll_back(changed_parts)
            raise
        for name_parts in changed_parts:
            self._safe_rows[_recorded_name(name_parts)] = {part.suffix: part.count for part in name_parts.all}

    def _make_batches(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any]) -> Iterator[Batch]:
        """The parts to append to, each with its items and columns."""
        parts = self._parts_of(name)
        items = [self._make_item(value, parts.store) for value in values]
        count = len(values)
        yield parts, items, {"iterations": number_column(iterations, count), "ranks": number_column(ranks, count)}

    def _roll_back(self, changed_parts: list[Parts]) -> None:
        """Restore the rows as they were. If even that fails, HDF5 will never write the file again: open it anew."""
        try:
            for parts in changed_parts:
                safe_rows = self._safe_rows.get(_recorded_name(parts), {})
                for part in parts.all:
                    part.truncate(safe_rows.get(part.suffix, 0))
            self._file.flush()
        except Exception:
            self.close()

    def _make_item(self, value: Any, store: Store) -> Item:
        try:
            item = item_of(value, store)
        except Exception as error:  # the user's own __str__ or the like must not keep other values from being written
            why = f"{type(error).__name__}: {error}"
            return Item("json", to_json({"not_kept": type(value).__qualname__, "why": why}))
        if item.kind != "array":
            return item
        original_dtype = item.original_dtype or item.data.dtype.name
        if self._float is not None and item.data.dtype.kind == "f":
            return Item("array", self._convert_float(item.data), original_dtype)
        if self._int is not None and item.data.dtype.kind in "iu":
            return Item("array", self._convert_int(item.data), original_dtype)
        return item

    def _convert_float(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        try:
            with np.errstate(over="raise", under="ignore"):
                return array.astype(self._float)
        except FloatingPointError:
            message = f"{self.path.name}: numbers too large for {self._float} became infinite"
            report(f"hdf5-overflow {self.path}", message, "Choose a wider float_dtype.")
            with np.errstate(all="ignore"):
                return array.astype(self._float)

    def _convert_int(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        limits = np.iinfo(self._int)
        if array.size == 0 or (limits.min <= int(array.min()) and int(array.max()) <= limits.max):
            return array.astype(self._int)
        message = f"{self.path.name}: integers that do not fit into {self._int} keep their own dtype {array.dtype}"
        report(f"hdf5-overflow {self.path}", message, "Choose a wider int_dtype.")
        return array

    def _parts_of(self, name: str) -> Parts:
        key = escape_surrogates(name)
        if key not in self._names:
            self._names[key] = Parts(self._make_store(self._group_of(name)))
        return self._names[key]

    def _group_of(self, name: str) -> Any:
        group = self._file.require_group(encode_name(name))
        group.attrs["name"] = escape_surrogates(name)
        return group

    def _existing_groups(self) -> Iterator[Any]:
        """The groups that are in the file already."""
        for group in map(self._file.get, self._file):  # a broken link is None
            if isinstance(group, _h5py().Group) and "name" in group.attrs and "values" in group:
                yield group

    def _open(self) -> None:
        if _is_open_here(self.path):
            raise OSError("it is open elsewhere in this program")
        file = _h5py().File(self.path, self._mode)
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _close_file, file, self._pid, str(self.path))
        self._file, self._mode = file, "a"
        _write_metadata_only_when_flushed(file)
        for group in self._existing_groups():
            name = str(group.attrs["name"])
            parts = reopen_parts(self._make_store(group), self._safe_rows.get(name), self._column_keys)
            self._names[name] = parts
            self._safe_rows[name] = {part.suffix: part.count for part in parts.all}

    def _make_store(self, group: Any) -> Store:
        return _SavingStore(group, self._space, self._options)

    def _report_failure(self, error: Exception) -> None:
        remedy = "The values stay in memory; each call tries again."
        # h5py also raises RuntimeError and ValueError for failed writes
        internal = not isinstance(error, (OSError, RuntimeError, ValueError))
        report(f"hdf5saver {self.path}", f"{self.path} could not be written", remedy, error, internal=internal)


def _recorded_name(parts: Parts) -> str:
    return str(parts.store.group.attrs["name"])


class _OpenDatasets(Mapping[str, Any]):
    """The open datasets by name."""

    def __init__(self, names: dict[str, Parts]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Any:
        parts = self._names[escape_surrogates(name)].all
        if not parts:
            raise KeyError(name)
        return parts[0].values

    def __iter__(self) -> Iterator[str]:
        return (name for name, parts in list(self._names.items()) if parts.all)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def number_column(entries: list[Any], count: int) -> npt.NDArray[np.int64]:
    """Iterations or ranks as a column of `count` rows, which has several numbers in each row if a value has several."""
    rows = [flat_numbers(entry) for entry in entries] if len(entries) == count else [flat_numbers(entries)] * count
    width = max(map(len, rows))
    if width <= 1:
        return np.array([row[0] if row else -1 for row in rows], np.int64)
    column = np.full((count, width), -1, np.int64)
    for place, row in enumerate(rows):
        column[place, : len(row)] = row
    return column


def flat_numbers(entry: Any) -> list[int]:
    """All numbers in a nested entry; -1 for anything else."""
    if hasattr(entry, "tolist"):
        entry = entry.tolist()
    if isinstance(entry, (list, tuple)):
        return [number for item in entry for number in flat_numbers(item)]
    return [entry if isinstance(entry, int) and abs(entry) < 2**63 else -1]


def reopen_parts(store: Store, safe_rows: dict[str, int] | None, columns: tuple[str, ...]) -> Parts:
    """The parts of a group that is in the file already, `values` first; incomplete rows are removed if known."""
    parts = Parts(store)
    for key in sorted(key for key in store.group if key == "values" or key.startswith("values_")):
        part = Part(store, key.removeprefix("values"), str(store.group[key].attrs.get("kind", "array")))
        part.open_columns(columns)
        if safe_rows is not None:
            part.truncate(min(part.count, safe_rows.get(part.suffix, 0)))
        parts.all.append(part)
    return parts


class _ReservedSpace:
    """Reserves disk space before it is used, because HDF5 cannot continue with a file once a write has failed.

    A little more is reserved, and released when the file is closed; HDF5 accepts a file that is too long.
    """

    def __init__(self) -> None:
        self._handle = -1
        self._begin = self._end = 0

    def begin(self, file: Any) -> None:
        """Begin a call: reserve space for its metadata; `grow` reserves more."""
        self._handle = file.id.get_vfd_handle()
        self._begin = self._end = int(file.id.get_filesize())
        self.grow(_FOR_METADATA)

    def grow(self, size: int) -> None:
        self._end += size
        if os.fstat(self._handle).st_size >= self._end:
            return
        try:
            os.posix_fallocate(self._handle, self._begin, self._end - self._begin + _RESERVED_AHEAD)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                os.posix_fallocate(self._handle, self._begin, self._end - self._begin)

    @staticmethod
    def release(file: Any) -> None:
        """Release the unused space of a file that was flushed."""
        size = int(file.id.get_filesize())
        if os.fstat(file.id.get_vfd_handle()).st_size > size:
            os.ftruncate(file.id.get_vfd_handle(), size)


class _SavingStore(Store):
    def __init__(self, group: Any, room: _ReservedSpace, options: dict[str, Any]) -> None:
        super().__init__(group, **options)
        self._space = room

    def reserve(self, size: int) -> None:
        self._space.grow(size)


def _write_metadata_only_when_flushed(file: Any) -> None:
    """HDF5 may write its metadata in any order at any time; a kill in between would leave an unreadable file."""
    config = file.id.get_mdc_config()
    config.evictions_enabled = False
    config.incr_mode = config.flash_incr_mode = config.decr_mode = 0  # then HDF5 requires a cache of fixed size
    file.id.set_mdc_config(config)


def _close_file(file: Any, pid: int, path: str) -> None:
    if pid != os.getpid():
        return  # a forked child must not write its parent's cache
    try:
        file.flush()
        _ReservedSpace.release(file)
    except Exception:
        pass  # if a file cannot be flushed, closing it fails too, which is reported below
    try:
        file.close()
    except Exception as error:
        report(f"hdf5saver {path}", f"{path} could not be closed", "What was not flushed is lost.", error)


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingLibraryError("missing-library", "HDF5Saver needs h5py.", "pip install h5py") from error
    return h5py


def parse_dtype(option: str, value: Any, kinds: str) -> Any:
    """An option's value, which may be a dtype of torch, as a dtype of NumPy."""
    if value is None:
        return None
    try:
        dtype = np.dtype(str(value).removeprefix("torch.") if type(value).__module__ == "torch" else value)
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in kinds:
        kind = "a float type" if kinds == "f" else "an integer type"
        examples = "float16, float32 or float64" if kinds == "f" else "int8, int16, int32, int64 or an unsigned one"
        raise OptionError("hdf5-option", f"{option}={value!r} is not {kind}.", f"Give {examples}.")
    return dtype


def _check_options(compression: Any, compression_opts: Any, shuffle: bool) -> dict[str, Any]:
    """h5py's options, tried on a file in memory, so that a wrong one is reported now and not while the program runs."""
    options = {"compression": compression, "compression_opts": compression_opts, "shuffle": shuffle}
    h5py = _h5py()
    try:
        with h5py.File("options", "w", driver="core", backing_store=False) as file:
            file.create_dataset("values", shape=(0,), maxshape=(None,), chunks=(16,), dtype="f4", **options)
    except Exception as error:
        remedy = 'Give "gzip" with a level from 0 to 9, "lzf", or another filter of h5py.'
        raise OptionError("hdf5-option", f"h5py does not accept {options} ({error}).", remedy) from error
    return options


def _check_target(path: Path, existing: str) -> None:
    if not path.parent.is_dir():
        raise OptionError("no-folder", f"There is no folder {path.parent}.", "Create it, or choose another.")
    if path.is_dir():
        raise OptionError("export-target", f"{path} is a folder.", "Give the name of a file.")
    if not path.exists():
        return
    if existing == "error":
        remedy = 'Choose another name, or give existing="append" or existing="replace".'
        raise OptionError("hdf5-exists", f"{path} exists.", remedy)
    h5py = _h5py()
    if existing == "append" and not h5py.is_hdf5(path):
        remedy = 'Choose another name, or give existing="replace".'
        raise OptionError("hdf5-open", f"{path} is not an HDF5 file.", remedy)
    if h5py.is_hdf5(path):
        _try_to_open(path)


def _try_to_open(path: Path) -> None:
    try:
        if _is_open_here(path):
            raise OSError("this program has it open")
        _h5py().File(path, "r+").close()
    except OSError as error:
        remedy = "Is it open elsewhere, in a notebook or another process? Close it there, or choose another name."
        raise OptionError("hdf5-open", f"{path} cannot be opened for writing ({error}).", remedy) from error


def _is_open_here(path: Path) -> bool:
    """HDF5 lets one program open a file twice; two savers would overwrite each other's rows."""
    h5f = _h5py().h5f
    names = [os.fsdecode(file.name) for file in h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE)]
    return path.exists() and any(os.path.exists(name) and os.path.samefile(name, path) for name in names)

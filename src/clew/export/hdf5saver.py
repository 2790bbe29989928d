"""HDF5Saver: a callback of ModelTracer that moves values out of memory into an HDF5 file."""

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
from clew.export.files import sayable
from clew.export.hdf5 import Item, Part, Parts, Store, group_name, item_of
from clew.export.json import text
from clew.trouble import report

if TYPE_CHECKING:
    from types import TracebackType

    import numpy.typing as npt

Batch = tuple[Parts, list[Item], dict[str, "npt.NDArray[Any]"]]
Existing = Literal["error", "replace", "append"]
_MODES = {"error": "x", "replace": "w", "append": "a"}
_FOR_METADATA = 256 << 10
_AHEAD = 1 << 20
_CANNOT_RESERVE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system without such a thing


class HDF5Saver:
    """Appends every value to a dataset of its name in an HDF5 file, and empties the lists: the values live there now.

        with clew.HDF5Saver("trace.h5", float_dtype="float16") as saver:
            with clew.ModelTracer(model, ["encoder.*"], post_gather=saver):
                train(model)
            saver.datasets["encoder.0"][-1]

    The file has one group a name, whatever dots are in it; a slash is percent-encoded, and the attribute `name` has the
    name as it is. In the group, all of them growing:

    - `values` (N, *shape), as wide as the largest value. What a smaller one leaves free holds the number in the
      attribute `fill` (NaN for floats, else 0), and `shapes` (N, ndim) says how large each value is;
    - `iterations` and `ranks` (N,). Where the values were stacked, so that several iterations or ranks belong to one
      value, these are (N, k), padded with -1. If there are neither as many as values nor a single value, nobody can
      say which belongs to which, and each value has all of them.

    A dataset has one number of dimensions and one dtype. `values` takes the kind met first; another number of
    dimensions goes to `values_<n>d`, numbers that its dtype does not hold exactly to `values_<n>d_<dtype>`, texts to
    `values_text`, and what is no number, array or text to `values_json`, as JSON. Each has its own columns:
    `iterations_<n>d`, `ranks_<n>d`, `shapes_<n>d`. The attribute `kind` says `array`, `text` or `json`.

    `float_dtype` and `int_dtype` convert numbers; integers that do not fit keep their own dtype, and clew says so.
    bfloat16 and float8 become float32 unless `float_dtype` is given (attribute `converted_from`). `compression`,
    `compression_opts` and `shuffle` are h5py's.

    The file is opened with the first value, so that only a process that writes makes one. It is whole after `close()`,
    at the end of the `with` block and at a normal exit of the program. Each call ends with a flush, before the lists
    are emptied: killed between two calls (`kill -9`), the program leaves a file that opens and has every value taken
    out of the lists. A kill during a call may do damage: with `compression`, values under 4 KiB
    share chunks that are rewritten, and the last one may be lost; without, none was seen in trials, but HDF5 does not
    promise it. A loss of power may damage the file at any time.

    A full disk, or any other trouble with the file, is said once on stderr; the values then stay in the lists, and the
    next call tries again.
    """

    _beside: tuple[str, ...] = ("iterations", "ranks", "shapes")  # columns that grow with the values

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
            raise OptionError("hdf5-option", f"existing={existing!r} is not known;", nearest(str(existing), _MODES))
        self.path = Path(path).absolute()  # a later os.chdir must not move it
        self._float = typed("float_dtype", float_dtype, "f")
        self._int = typed("int_dtype", int_dtype, "iu")
        self._options = _options(compression, compression_opts, shuffle)
        _check_target(self.path, existing)
        self._mode = _MODES[existing]
        self._file: Any = None
        self._names: dict[str, Parts] = {}
        self._kept: dict[str, dict[str, int]] = {}  # name → suffix → rows that are safely in the file
        self._room = _Room()
        self._lock = threading.RLock()
        self._pid = 0  # of the process that opened the file
        self._finalizer: weakref.finalize[..., HDF5Saver] | None = None

    @property
    def datasets(self) -> Mapping[str, Any]:
        """name → its open h5py dataset `values`. Open the file with h5py once the saver is closed."""
        return _Datasets(self._names)

    def __call__(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any]) -> None:
        """Write the values of a name, and empty the three lists."""
        if not values:
            return
        with self._lock:
            try:
                self._write(name, values, iterations, ranks)
            except Exception as error:
                self._trouble(error)
                return
        values.clear()
        iterations.clear()
        ranks.clear()

    def close(self) -> None:
        """Close the file. Values that come later open it again, and are appended."""
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
        """All of it or nothing: after a failure the file has the rows it had."""
        if self._file is None:
            self._open()
        elif self._pid != os.getpid():
            raise OSError("the process this one was forked from has it open")
        self._room.begin(self._file)
        touched: list[Parts] = []
        try:
            for parts, items, columns in self._batches(name, values, iterations, ranks):
                touched.append(parts)
                parts.append(items, columns)
            self._file.flush()
        except BaseException:  # also Ctrl-C: the lists are still full, and will be written again
            self._take_back(touched)
            raise
        for parts in touched:
            self._kept[_name_of(parts)] = {part.suffix: part.count for part in parts.all}

    def _batches(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any]) -> Iterator[Batch]:
        """What is to be written where."""
        parts = self._parts(name)
        items = [self._item(value, parts.store) for value in values]
        count = len(values)
        yield parts, items, {"iterations": numbers(iterations, count), "ranks": numbers(ranks, count)}

    def _take_back(self, touched: list[Parts]) -> None:
        """The rows as they were. If the file refuses even that, HDF5 will never write it again: open it anew."""
        try:
            for parts in touched:
                kept = self._kept.get(_name_of(parts), {})
                for part in parts.all:
                    part.back_to(kept.get(part.suffix, 0))
            self._file.flush()
        except Exception:
            self.close()

    def _item(self, value: Any, store: Store) -> Item:
        try:
            item = item_of(value, store)
        except Exception as error:  # the user's own __str__ or the like; the others must not be held up by it
            why = f"{type(error).__name__}: {error}"
            return Item("json", text({"not_kept": type(value).__qualname__, "why": why}))
        if item.kind != "array":
            return item
        given = item.given or item.data.dtype.name
        if self._float is not None and item.data.dtype.kind == "f":
            return Item("array", self._as_float(item.data), given)
        if self._int is not None and item.data.dtype.kind in "iu":
            return Item("array", self._as_int(item.data), given)
        return item

    def _as_float(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        try:
            with np.errstate(over="raise", under="ignore"):
                return array.astype(self._float)
        except FloatingPointError:
            what = f"{self.path.name}: numbers too large for {self._float} became infinite"
            report(f"hdf5-overflow {self.path}", what, "Choose a wider float_dtype.")
            with np.errstate(all="ignore"):
                return array.astype(self._float)

    def _as_int(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        range = np.iinfo(self._int)
        if array.size == 0 or (range.min <= int(array.min()) and int(array.max()) <= range.max):
            return array.astype(self._int)
        what = f"{self.path.name}: integers that do not fit into {self._int} keep their own dtype {array.dtype}"
        report(f"hdf5-overflow {self.path}", what, "Choose a wider int_dtype.")
        return array

    def _parts(self, name: str) -> Parts:
        found = self._names.get(sayable(name))
        if found is None:
            found = self._names[sayable(name)] = Parts(self._store(self._group(name)))
        return found

    def _group(self, name: str) -> Any:
        group = self._file.require_group(group_name(name))
        group.attrs["name"] = sayable(name)
        return group

    def _groups(self) -> Iterator[Any]:
        """Those that are in the file already."""
        for group in map(self._file.get, self._file):  # a broken link is None
            if isinstance(group, _h5py().Group) and "name" in group.attrs and "values" in group:
                yield group

    def _open(self) -> None:
        if _is_open_here(self.path):
            raise OSError("it is open elsewhere in this program")
        file = _h5py().File(self.path, self._mode)
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _close, file, self._pid, str(self.path))
        self._file, self._mode = file, "a"
        _write_metadata_only_when_flushed(file)
        for group in self._groups():
            name = str(group.attrs["name"])
            found = self._names[name] = reopened(self._store(group), self._kept.get(name), self._beside)
            self._kept[name] = {part.suffix: part.count for part in found.all}

    def _store(self, group: Any) -> Store:
        return _SavingStore(group, self._room, self._options)

    def _trouble(self, error: Exception) -> None:
        remedy = "The values stay in memory; each call tries again."
        # h5py tells of failed writes as RuntimeError and ValueError too
        internal = not isinstance(error, (OSError, RuntimeError, ValueError))
        report(f"hdf5saver {self.path}", f"{self.path} could not be written", remedy, error, internal=internal)


def _name_of(parts: Parts) -> str:
    return str(parts.store.group.attrs["name"])


class _Datasets(Mapping[str, Any]):
    """The open datasets by name."""

    def __init__(self, names: dict[str, Parts]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Any:
        parts = self._names[sayable(name)].all
        if not parts:
            raise KeyError(name)
        return parts[0].values

    def __iter__(self) -> Iterator[str]:
        return (name for name, parts in list(self._names.items()) if parts.all)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def numbers(entries: list[Any], count: int) -> npt.NDArray[np.int64]:
    """Iterations or ranks as a column of `count` rows; one with several numbers a row if a value has several."""
    rows = [flat_numbers(entry) for entry in entries] if len(entries) == count else [flat_numbers(entries)] * count
    width = max(map(len, rows))
    if width <= 1:
        return np.array([row[0] if row else -1 for row in rows], np.int64)
    out = np.full((count, width), -1, np.int64)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out


def flat_numbers(entry: Any) -> list[int]:
    """-1 for what is no number."""
    if hasattr(entry, "tolist"):
        entry = entry.tolist()
    if isinstance(entry, (list, tuple)):
        return [number for item in entry for number in flat_numbers(item)]
    return [entry if isinstance(entry, int) and abs(entry) < 2**63 else -1]


def reopened(store: Store, kept: dict[str, int] | None, columns: tuple[str, ...]) -> Parts:
    """The parts of a group that is in the file already, `values` first; without rows that are known to be half done."""
    parts = Parts(store)
    for key in sorted(key for key in store.group if key == "values" or key.startswith("values_")):
        part = Part(store, key.removeprefix("values"), str(store.group[key].attrs.get("kind", "array")))
        part.open_columns(columns)
        if kept is not None:
            part.back_to(min(part.count, kept.get(part.suffix, 0)))
        parts.all.append(part)
    return parts


class _Room:
    """Space on the disk taken before it is used: HDF5 cannot go on with a file once a write has failed.

    A little is taken ahead, and given back when the file is closed; HDF5 does not mind a file that is too long.
    """

    def __init__(self) -> None:
        self._handle = -1
        self._begin = self._end = 0

    def begin(self, file: Any) -> None:
        """Another call: room for its metadata, then for what `grow` is told of."""
        self._handle = file.id.get_vfd_handle()
        self._begin = self._end = int(file.id.get_filesize())
        self.grow(_FOR_METADATA)

    def grow(self, size: int) -> None:
        self._end += size
        if os.fstat(self._handle).st_size >= self._end:
            return
        try:
            os.posix_fallocate(self._handle, self._begin, self._end - self._begin + _AHEAD)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                os.posix_fallocate(self._handle, self._begin, self._end - self._begin)

    @staticmethod
    def give_back(file: Any) -> None:
        """Of a file that was flushed."""
        size = int(file.id.get_filesize())
        if os.fstat(file.id.get_vfd_handle()).st_size > size:
            os.ftruncate(file.id.get_vfd_handle(), size)


class _SavingStore(Store):
    def __init__(self, group: Any, room: _Room, options: dict[str, Any]) -> None:
        super().__init__(group, **options)
        self._room = room

    def reserve(self, size: int) -> None:
        self._room.grow(size)


def _write_metadata_only_when_flushed(file: Any) -> None:
    """HDF5 may write its metadata in any order at any time; a kill in between would leave a file nobody can open."""
    config = file.id.get_mdc_config()
    config.evictions_enabled = False
    config.incr_mode = config.flash_incr_mode = config.decr_mode = 0  # HDF5 wants the size of the cache fixed then
    file.id.set_mdc_config(config)


def _close(file: Any, pid: int, path: str) -> None:
    if pid != os.getpid():
        return  # a forked child must not write what its parent has in the cache
    try:
        file.flush()
        _Room.give_back(file)
    except Exception:
        pass  # a file that cannot be flushed is told of when it cannot be closed
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


def typed(option: str, given: Any, kinds: str) -> Any:
    """NumPy's dtype of what was given, which may also be torch's."""
    if given is None:
        return None
    try:
        found = np.dtype(str(given).removeprefix("torch.") if type(given).__module__ == "torch" else given)
    except TypeError:
        found = None
    if found is None or found.kind not in kinds:
        such = "float16, float32, float64" if kinds == "f" else "int8, int16, int32, int64 or unsigned ones"
        raise OptionError("hdf5-option", f"{option}={given!r} is no such type.", f"There is {such}.")
    return found


def _options(compression: Any, compression_opts: Any, shuffle: bool) -> dict[str, Any]:
    """h5py's options, tried on a file in memory: a wrong one is said now, not while the program runs."""
    options = {"compression": compression, "compression_opts": compression_opts, "shuffle": shuffle}
    h5py = _h5py()
    try:
        with h5py.File("options", "w", driver="core", backing_store=False) as file:
            file.create_dataset("values", shape=(0,), maxshape=(None,), chunks=(16,), dtype="f4", **options)
    except Exception as error:
        remedy = 'There is "gzip" with levels 0 to 9, "lzf", and what h5py has filters for.'
        raise OptionError("hdf5-option", f"h5py does not take {options} ({error}).", remedy) from error
    return options


def _check_target(path: Path, existing: str) -> None:
    if not path.parent.is_dir():
        raise OptionError("no-folder", f"There is no folder {path.parent}.", "Make it, or choose another.")
    if path.is_dir():
        raise OptionError("export-target", f"{path} is a folder.", "Give the name of a file.")
    if not path.exists():
        return
    if existing == "error":
        remedy = 'Choose another name, or say existing="append" or existing="replace".'
        raise OptionError("hdf5-exists", f"{path} exists.", remedy)
    h5py = _h5py()
    if existing == "append" and not h5py.is_hdf5(path):
        raise OptionError("hdf5-open", f"{path} is no HDF5 file.", 'Choose another name, or say existing="replace".')
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
    """HDF5 lets one program open a file twice; two savers would write over each other's rows."""
    h5f = _h5py().h5f
    names = [os.fsdecode(file.name) for file in h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE)]
    return path.exists() and any(os.path.exists(name) and os.path.samefile(name, path) for name in names)

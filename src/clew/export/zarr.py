"""Zarr: a folder in the layout of the HDF5 export, one group a name under `changes`.

The folder is a Zarr store of format 3. Records (structured arrays), which Zarr has no settled type for, are JSON.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import MissingLibraryError
from clew.export.files import chosen, total, whole_folder
from clew.export.hdf5 import Store, chunk, group_name, write_series
from clew.export.json import text
from clew.export.plain import plain

if TYPE_CHECKING:
    from clew.export import Progress
    from clew.history.run import Run

_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_LONGEST = 200  # bytes of a folder's name; most file systems end at 255


class ZarrStore(Store):
    """One group of a Zarr store, and how arrays are made in it."""

    def holds(self, dtype: Any) -> bool:
        return dtype.itemsize in _SIZES.get(dtype.kind, ())

    def attribute(self, number: Any) -> Any:
        return plain(number.item())  # JSON, which has no NaN

    def create(self, key: str, shape: tuple[int, ...], dtype: Any, fill: Any) -> Any:
        chunks = chunk(shape, 16 if dtype is None else dtype.itemsize)
        if dtype is None:
            return self.group.create_array(key, shape=(0, *shape), dtype="str", chunks=chunks)
        native = dtype.newbyteorder("=")
        return self.group.create_array(key, shape=(0, *shape), dtype=native, chunks=chunks, fill_value=fill)


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """The run's metadata is JSON in the attribute `run`. Deletions are left out. A folder that exists is refused."""
    try:
        import zarr
    except ImportError as error:
        raise MissingLibraryError("missing-library", "Export to Zarr needs zarr.", "pip install zarr") from error
    count, done = total(run, names), 0
    with whole_folder(target) as draft:
        root = zarr.open_group(str(draft), mode="w", zarr_format=3)
        root.attrs["run"] = text({**run.meta, "status": run.status})
        changes = root.create_group("changes")
        for name in chosen(run, names):
            write_series(ZarrStore(changes.create_group(folder_name(name))), run, name)
            done += len(run[name])
            progress(done, count)
    return target


def folder_name(name: str) -> str:
    """A name as one folder of the store; a very long one is cut, and told apart by its hash."""
    encoded = group_name(name)
    if encoded == "zarr.json" or encoded.startswith("__"):  # Zarr's own
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    if len(encoded) <= _LONGEST:
        return encoded
    mark = hashlib.sha256(encoded.encode()).hexdigest()[:16]
    return f"{encoded[: _LONGEST - 17].rstrip('%')}~{mark}"

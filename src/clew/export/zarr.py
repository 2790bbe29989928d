"""Exports to Zarr: a folder in the layout of the HDF5 export, with one group for each name under `changes`.

The folder is a Zarr store of format 3. Records (structured arrays) are JSON, as Zarr has no settled type for them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.errors import MissingLibraryError
from clew.export.hdf5 import Store, chunk_shape, encode_name, write_series
from clew.export.json import to_json
from clew.export.plain_data import to_plain
from clew.export.whole_files import count_changes, names_to_export, whole_folder

if TYPE_CHECKING:
    from clew.export import Progress
    from clew.reading.run import Run

_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_LONGEST = 200  # bytes of a folder's name; most file systems allow 255


class ZarrStore(Store):
    """One group of a Zarr store, in which it creates arrays."""

    def holds(self, dtype: Any) -> bool:
        return dtype.itemsize in _SIZES.get(dtype.kind, ())

    def attribute(self, number: Any) -> Any:
        return to_plain(number.item())  # JSON, which has no NaN

    def create(self, key: str, shape: tuple[int, ...], dtype: Any, fill: Any) -> Any:
        chunks = chunk_shape(shape, 16 if dtype is None else dtype.itemsize)
        if dtype is None:
            return self.group.create_array(key, shape=(0, *shape), dtype="str", chunks=chunks)
        native = dtype.newbyteorder("=")
        return self.group.create_array(key, shape=(0, *shape), dtype=native, chunks=chunks, fill_value=fill)


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Write all values without deletions; the attribute `run` is the run's metadata as JSON."""
    try:
        import zarr
    except ImportError as error:
        raise MissingLibraryError("missing-library", "Export to Zarr needs zarr.", "pip install zarr") from error
    total, count = count_changes(run, names), 0
    with whole_folder(target) as draft:
        root = zarr.open_group(str(draft), mode="w", zarr_format=3)
        root.attrs["run"] = to_json({**run.meta, "status": run.status})
        changes = root.create_group("changes")
        for name in names_to_export(run, names):
            write_series(ZarrStore(changes.create_group(folder_name(name))), run, name)
            count += len(run[name])
            progress(count, total)
    return target


def folder_name(name: str) -> str:
    """A name as one folder of the store. A very long one is cut, and its hash is added."""
    encoded = encode_name(name)
    if encoded == "zarr.json" or encoded.startswith("__"):  # reserved by Zarr
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    if len(encoded) <= _LONGEST:
        return encoded
    digest = hashlib.sha256(encoded.encode()).hexdigest()[:16]
    return f"{encoded[: _LONGEST - 17].rstrip('%')}~{digest}"

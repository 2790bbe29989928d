"""FlatHDF5Saver: HDF5Saver with TensorTracer's layout, one dataset a name at the top of the file.

    forward.x               (N, *shape), padded as HDF5Saver pads
    forward.x_shapes        (N, ndim): how large each value is
    forward.x_iterations    every iteration, in the order of the values; not (N,) where callbacks have stacked values
    forward.x_ranks         the same of ranks

Values of another kind than the first go to `forward.x_2d`, `forward.x_text` and so on, with their shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clew.export.files import sayable
from clew.export.hdf5 import Item, Parts, group_name
from clew.export.hdf5saver import Batch, HDF5Saver, flat_numbers, reopened, typed

_COLUMNS = ("iterations", "ranks")


class FlatHDF5Saver(HDF5Saver):
    """Its file is laid out as described above; everything else is HDF5Saver's."""

    _beside = ("shapes",)

    def __init__(self, path: Any, *, iteration_dtype: Any = "int64", **options: Any) -> None:
        super().__init__(path, **options)
        self._iteration_type = typed("iteration_dtype", iteration_dtype, "iu")
        self._columns: dict[str, Parts] = {}

    @property
    def file(self) -> Any:
        """The open h5py file; it is opened if it is not."""
        with self._lock:
            if self._file is None:
                self._open()
            return self._file

    def close(self) -> None:
        with self._lock:
            self._columns.clear()
            super().close()

    def _batches(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any]) -> Iterator[Batch]:
        parts = self._parts(name)
        yield parts, [self._item(value, parts.store) for value in values], {}
        for column, entries in zip(_COLUMNS, (iterations, ranks), strict=True):
            kind = self._iteration_type if column == "iterations" else np.dtype(np.int64)
            items = [Item("array", np.array(number, kind)) for number in flat_numbers(entries)] if entries else []
            yield self._column(f"{name}_{column}"), items, {}

    def _column(self, name: str) -> Parts:
        found = self._columns.get(name)
        if found is None:
            store = self._store(self._group(name))
            found = self._columns[name] = reopened(store, self._kept.get(sayable(name)), ())
        return found

    def _group(self, name: str) -> Any:
        return _FlatGroup(self._file, name)

    def _groups(self) -> Iterator[Any]:
        for key in list(self._file):
            name = self._file[key].attrs.get("name")
            if name is not None and f"{key}_iterations" in self._file:
                yield self._group(name)


class _FlatGroup:
    """The datasets of one name, as if they were in a group of their own: `values_2d` is `forward.x_2d`.

    Each has the name it belongs to as an attribute, and what it is there."""

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self._name = group_name(name)
        self.attrs = {"name": sayable(name)}

    def _path(self, key: str) -> str:
        return self._name + (key.removeprefix("values") if key.startswith("values") else f"_{key}")

    def __getitem__(self, key: str) -> Any:
        return self._file[self._path(key)]

    def __contains__(self, key: str) -> bool:
        return self._path(key) in self._file

    def create_dataset(self, key: str, **options: Any) -> Any:
        dataset = self._file.create_dataset(self._path(key), **options)
        dataset.attrs.update(self.attrs, key=key)
        return dataset

    def __iter__(self) -> Iterator[str]:
        for dataset in self._file.values():
            if dataset.attrs.get("name") == self.attrs["name"]:
                yield str(dataset.attrs["key"])

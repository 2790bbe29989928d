"""FlatHDF5Saver: HDF5Saver with TensorTracer's layout, one dataset for each name at the top level of the file.

    forward.x               (N, *shape), padded as HDF5Saver pads
    forward.x_shapes        (N, ndim): the shape of each value
    forward.x_iterations    all iterations, in the order of the values; not (N,) where callbacks have stacked values
    forward.x_ranks         the same for ranks

Values of another kind than the first go to `forward.x_2d`, `forward.x_text` and so on, with their shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clew.export.hdf5 import Item, Parts, encode_name
from clew.export.hdf5_saver import Batch, HDF5Saver, flat_numbers, parse_dtype, reopen_parts
from clew.export.whole_files import escape_surrogates

_COLUMNS = ("iterations", "ranks")


class FlatHDF5Saver(HDF5Saver):
    """An HDF5Saver whose file has the layout above."""

    _column_keys = ("shapes",)

    def __init__(self, path: Any, *, iteration_dtype: Any = "int64", **options: Any) -> None:
        super().__init__(path, **options)
        self._iteration_type = parse_dtype("iteration_dtype", iteration_dtype, "iu")
        self._columns: dict[str, Parts] = {}

    @property
    def file(self) -> Any:
        """The h5py file, which is opened if necessary."""
        with self._lock:
            if self._file is None:
                self._open()
            return self._file

    def close(self) -> None:
        with self._lock:
            self._columns.clear()
            super().close()

    def _make_batches(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any]) -> Iterator[Batch]:
        parts = self._parts_of(name)
        yield parts, [self._make_item(value, parts.store) for value in values], {}
        for column, entries in zip(_COLUMNS, (iterations, ranks), strict=True):
            dtype = self._iteration_type if column == "iterations" else np.dtype(np.int64)
            items = [Item("array", np.array(number, dtype)) for number in flat_numbers(entries)] if entries else []
            yield self._column(f"{name}_{column}"), items, {}

    def _column(self, name: str) -> Parts:
        if name not in self._columns:
            store = self._make_store(self._group_of(name))
            self._columns[name] = reopen_parts(store, self._safe_rows.get(escape_surrogates(name)), ())
        return self._columns[name]

    def _group_of(self, name: str) -> Any:
        return _FlatGroup(self._file, name)

    def _existing_groups(self) -> Iterator[Any]:
        for key in list(self._file):
            name = self._file[key].attrs.get("name")
            if name is not None and f"{key}_iterations" in self._file:
                yield self._group_of(name)


class _FlatGroup:
    """The datasets of one name as if they were in their own group: `values_2d` is `forward.x_2d`.

    Each has two attributes: the name it belongs to, and its key in that group."""

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self._name = encode_name(name)
        self.attrs = {"name": escape_surrogates(name)}

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

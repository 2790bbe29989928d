"""Results as columns: of a dictionary one a key, of several outputs one each; anything else is one column."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_OWN = ("index", "error")  # columns that every output has
_WRONG = (pa.ArrowException, TypeError, ValueError, OverflowError)


class Columns:
    """Rows that are held until they are written. Types grow with the results (an integer may become a float), and a
    result that has no place in them is refused, alone."""

    def __init__(self, description: dict[str, Any] | None) -> None:
        self._shape: str | None = description["shape"] if description else None
        self._names: dict[Any, str] = {}  # what a result calls it -> column
        self._types: dict[str, pa.DataType] = {}
        for key, name, hexed in (description or {}).get("columns", []):
            self._names[key] = name
            self._types[name] = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(hexed))).field(0).type
        self._large: set[str] = set((description or {}).get("large", []))  # columns of integers beyond a float's
        self._index: list[int] = []
        self._error: list[str | None] = []
        self._held: dict[str, list[pa.Array]] = {}
        self._count = 0

    @property
    def description(self) -> dict[str, Any]:
        """What a later job needs to go on."""
        columns = [
            (key, name, pa.schema([(name, self._types[name])]).serialize().to_pybytes().hex())
            for key, name in self._names.items()
        ]
        return {"shape": self._shape, "columns": columns, "large": sorted(self._large)}

    @property
    def schema(self) -> pa.Schema:
        own = [("index", pa.int64()), *self._types.items(), ("error", pa.string())]
        return pa.schema(own)

    def add(self, indices: Sequence[int], results: list[Any], errors: dict[int, str]) -> list[tuple[int, str]]:
        """Hold rows. Gives (place, why) of results that cannot be written; they have rows with that error instead."""
        errors = dict(errors)
        before = len(errors)
        cells = self._cells(results, errors)
        arrays = {name: self._array(name, values, errors) for name, values in cells.items()}
        refused = list(errors.items())[before:]
        if refused:  # a row that is wrong in one column has none of the others
            arrays = {name: _without(array, dict(refused)) for name, array in arrays.items()}
        for name in self._types:
            held = self._held.setdefault(name, [pa.nulls(self._count)] if self._count else [])
            held.append(arrays[name] if name in arrays else pa.nulls(len(results)))
        self._count += len(results)
        self._index.extend(indices)
        self._error.extend(errors.get(place) for place in range(len(results)))
        return refused

    def table(self) -> pa.Table:
        columns = {
            name: pa.concat_arrays([one.cast(kind) for one in self._held[name]]) for name, kind in self._types.items()
        }
        arrays = [pa.array(self._index, pa.int64()), *columns.values(), pa.array(self._error, pa.string())]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def clear(self) -> None:
        self._index, self._error, self._held, self._count = [], [], {}, 0

    # ---- from results to columns

    def _cells(self, results: list[Any], errors: dict[int, str]) -> dict[str, list[Any]]:
        if errors:
            results = [None if place in errors else result for place, result in enumerate(results)]
        if self._shape != "value" and len(errors) < len(results):
            self._shape = self._shape or _shape(next(result for n, result in enumerate(results) if n not in errors))
        if self._shape == "value":  # most are, and then there is nothing to sort out
            return {self._name("result"): results}
        cells: dict[Any, list[Any]] = {}
        for place, result in enumerate(results):
            if place in errors:
                continue
            shape = _shape(result)
            if shape != self._shape:
                errors[place] = f"the result is a {type(result).__name__}, and those before it were of another shape."
                continue
            for key, value in _members(shape, result):
                if key not in cells:
                    cells[key] = [None] * len(results)
                cells[key][place] = value
        return {self._name(key): values for key, values in cells.items()}

    def _name(self, key: Any) -> str:
        """The column of a key; a key that is called like a column of our own has another."""
        known = self._names.get(key)
        if known is None:
            known = f"result_{key}" if isinstance(key, int) or key in _OWN else str(key)
            while known in self._types:
                known += "_"
            self._names[key] = known
            self._types[known] = pa.null()
        return known

    def _array(self, name: str, values: list[Any], errors: dict[int, str]) -> pa.Array:
        try:
            array, kind = self._fitted(name, values)
        except _WRONG:
            return self._array_one_by_one(name, values, errors)
        self._types[name] = kind
        return array

    def _array_one_by_one(self, name: str, values: list[Any], errors: dict[int, str]) -> pa.Array:
        """Some value does not fit: which?"""
        fine: list[Any] = []
        for place, value in enumerate(values):
            try:
                value = plain(value)
                _, self._types[name] = self._fitted(name, [value])
                fine.append(value)
            except _WRONG as error:
                fine.append(None)
                errors.setdefault(place, f"the result has no place in column `{name}` ({self._types[name]}): {error}")
        return pa.array(fine, self._types[name])

    def _fitted(self, name: str, values: list[Any]) -> tuple[pa.Array, pa.DataType]:
        """Values as an array, and the type that holds them and what came before."""
        known = self._types[name]
        try:
            array = pa.array(values)
        except _WRONG:
            array = pa.array([plain(value) for value in values])
        if array.type != known:
            kind = _wider(known, array.type)
            if name in self._large and not pa.types.is_integer(kind):
                raise ValueError(f"it is {array.type}, and some before are integers that only an integer holds.")
            array = array.cast(kind)
        if pa.types.is_integer(array.type) and not _is_exact_as_a_float(array):
            self._large.add(name)
        return array, array.type


def _is_exact_as_a_float(array: pa.Array) -> bool:
    ends = pc.min_max(array)
    return all(end is None or -(2**53) <= end <= 2**53 for end in (ends["min"].as_py(), ends["max"].as_py()))


def _wider(known: pa.DataType, new: pa.DataType) -> pa.DataType:
    fields = [pa.schema([("x", known)]), pa.schema([("x", new)])]
    return pa.unify_schemas(fields, promote_options="permissive").field("x").type


def _without(array: pa.Array, places: dict[int, str]) -> pa.Array:
    """The array with nothing in these places."""
    return array.take(pa.array([None if place in places else place for place in range(len(array))], pa.int64()))


def _shape(result: Any) -> str:
    if type(result) is dict and result and all(type(key) is str for key in result):
        return "dict"
    return "tuple" if type(result) is tuple and result else "value"


def _members(shape: str, result: Any) -> Iterable[tuple[Any, Any]]:
    if shape == "dict":
        return result.items()  # type: ignore[no-any-return]
    return enumerate(result)


def plain(value: Any) -> Any:
    """Arrays and tensors, at any depth, as lists: what Arrow understands."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return [plain(item) for item in value]
    return value


# ---- and back --------------------------------------------------------------------------------------------------------


def read_rows(batches: Iterable[Any], description: dict[str, Any] | None) -> Iterator[tuple[int, Any, str | None]]:
    """(index, result, error) of rows as `Columns` wrote them."""
    shape = (description or {}).get("shape") or "value"
    keys = {name: key for key, name, _ in (description or {}).get("columns", [])}
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        index, error = columns.pop("index"), columns.pop("error")
        for place, number in enumerate(index):
            cells = {keys[name]: values[place] for name, values in columns.items()}
            yield number, _result(shape, cells) if error[place] is None else None, error[place]


def _result(shape: str, cells: dict[Any, Any]) -> Any:
    if shape == "dict":
        return cells
    if shape == "tuple":
        return tuple(cells.values())
    return cells.get("result")

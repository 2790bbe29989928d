"""Results as columns: of a dictionary one a key, of several outputs one each; anything else is one column."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_OWN = ("index", "error")  # columns that every output has
_FIXED = {getattr(pa.lib, f"Type_{name}") for name in ("BINARY", "UINT64", "TIMESTAMP", "DURATION", "TIME32", "TIME64")}
_BYTES = 4 << 20  # of Arrow's that are read at a time
_WRONG = (pa.ArrowException, TypeError, ValueError, OverflowError)


class _Held(NamedTuple):
    """Rows. A column that is not there has nothing in them."""

    indices: Sequence[int]
    arrays: dict[str, pa.Array]
    errors: list[str | None]


class Columns:
    """Rows that are held until they are written. Types grow with the results (an integer may become a float), and a
    result that has no place in them is refused, alone."""

    def __init__(self, description: dict[str, Any] | None) -> None:
        self._shape: str | None = description["shape"] if description else None
        self._names: dict[Any, str] = {}  # what a result calls it -> column
        self._types: dict[str, pa.DataType] = {}
        for key, name, hexed in (description or {}).get("columns", []):
            self._names[key] = name
            self._types[name] = _kind(hexed)
        self._carried: dict[str, str] = dict(
            (description or {}).get("carried", [])
        )  # what is carried through -> column
        for name, hexed in (description or {}).get("carried types", []):
            self._types[name] = _kind(hexed)
        self._large: set[str] = set((description or {}).get("large", []))  # columns of integers beyond a float's
        self._nones = bool((description or {}).get("nones"))  # some results were None: rows with nothing in them
        self._held: list[_Held] = []
        self.rows = self.nbytes = 0  # of what is held

    @property
    def description(self) -> dict[str, Any]:
        """What a later job needs to go on."""
        columns = [(key, name, _hexed(self._types[name])) for key, name in self._names.items()]
        return {
            "shape": self._shape,
            "columns": columns,
            "large": sorted(self._large),
            "nones": self._nones,
            "carried": list(self._carried.items()),
            "carried types": [(name, _hexed(self._types[name])) for name in self._carried.values()],
        }

    @property
    def schema(self) -> pa.Schema:
        """There is a column for the results even if none has come that was not None."""
        columns = dict(self._types) if self._names else {**self._types, "result": pa.null()}
        return pa.schema([("index", pa.int64()), *columns.items(), ("error", pa.string())])

    def add(
        self,
        indices: Sequence[int],
        results: list[Any],
        errors: dict[int, str],
        carried: dict[str, list[Any]] | None = None,
    ) -> list[tuple[int, str]]:
        """Hold rows. Gives (place, why) of results that cannot be written; they have rows with that error instead."""
        errors = dict(errors)
        before = len(errors)
        passed = {name: (self._carried_name(name), values) for name, values in (carried or {}).items()}
        passing = {column: self._array(column, values, errors) for column, values in passed.values()}
        cells = self._cells(results, errors)
        arrays = {name: self._array(name, values, errors) for name, values in cells.items()}
        refused = list(errors.items())[before:]
        if refused:  # a row that is wrong in one column has none of the others
            arrays = {name: _without(array, dict(refused)) for name, array in arrays.items()}
        arrays |= passing  # a row that failed has them all the same
        texts = [_text(errors[place]) if place in errors else None for place in range(len(results))]
        self._held.append(_Held(indices, arrays, texts))  # all at once: a Ctrl-C comes before it, or after
        self.rows += len(results)
        self.nbytes += sum(array.nbytes for array in arrays.values())
        return refused

    def table(self) -> pa.Table:
        columns = {"index": pa.array(chain.from_iterable(held.indices for held in self._held), pa.int64())}
        columns["error"] = pa.array(chain.from_iterable(held.errors for held in self._held), pa.string())
        for name, kind in self._types.items():
            arrays = [held.arrays.get(name, pa.nulls(len(held.errors))) for held in self._held]
            columns[name] = pa.concat_arrays([cast(one, kind) for one in arrays])
        if not self._names:
            columns["result"] = pa.nulls(len(columns["index"]))
        return pa.Table.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def clear(self) -> None:
        self._held, self.rows, self.nbytes = [], 0, 0

    # ---- from results to columns

    def _cells(self, results: list[Any], errors: dict[int, str]) -> dict[str, list[Any]]:
        """The values of each column. A None has none, and is of any shape."""
        if errors:
            results = [None if place in errors else result for place, result in enumerate(results)]
        if self._shape is None:
            self._shape = next((_shape(result) for result in results if result is not None), None)
        if self._shape == "value":  # most are, and then there is nothing to sort out
            return {self._name("result"): results}
        cells: dict[Any, list[Any]] = {}
        for place, result in enumerate(results):
            if result is None:
                self._nones = self._nones or place not in errors
            elif _shape(result) != self._shape:
                errors[place] = f"the result is a {type(result).__name__}, and those before it were of another shape."
            else:
                for key, value in _members(self._shape, result):
                    cells.setdefault(key, [None] * len(results))[place] = value
        return {self._name(key): values for key, values in cells.items()}

    def _name(self, key: Any) -> str:
        """The column of a key; a key that is called like a column of our own has another."""
        known = self._names.get(key)
        if known is None:
            known = _text(f"result_{key}" if isinstance(key, int) or key in _OWN else key)
            while known in self._types:
                known += "_"
            self._names[key] = known
            self._types[known] = pa.null()
        return known

    def _carried_name(self, name: str) -> str:
        """The column of what is carried through; it comes first, so that it has its name unless that is our own."""
        if name not in self._carried:
            self._carried[name] = column = f"kept_{name}" if name in (*_OWN, "result") else _text(name)
            self._types[column] = pa.null()
        return self._carried[name]

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
        if _is_mixed(array.type, values):
            raise ValueError("it is of several kinds that are not the same, such as texts and bytes.")
        if array.type != known:
            kind = _wider(known, array.type)
            if name in self._large and _rounds(known, kind):
                raise ValueError(f"it is {array.type}, and some before are integers that only an integer holds.")
            if not (_keeps(known, kind) and _keeps(array.type, kind)):
                raise ValueError(f"it is {array.type}, and those before are not.")
            array = cast(array, kind)
        if not all(map(_is_exact_as_a_float, _leaf_arrays(array))):
            self._large.add(name)
        return array, array.type


def _hexed(kind: pa.DataType) -> str:
    return str(pa.schema([("", kind)]).serialize().to_pybytes().hex())


def _kind(hexed: str) -> pa.DataType:
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(hexed))).field(0).type


def storable(kind: pa.DataType) -> pa.DataType:
    """The type that Parquet has for a type: its structures are never empty. A cast gives the other again."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(storable(field.type)) for field in kind] or [("", pa.null())])
    return pa.list_(storable(kind.value_type)) if pa.types.is_list(kind) else kind


def _leaf_arrays(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_nested(array.type):
        parts = array.flatten()
        for part in parts if isinstance(parts, list) else [parts]:
            yield from _leaf_arrays(part)
    elif pa.types.is_integer(array.type):
        yield array


def _is_exact_as_a_float(array: pa.Array) -> bool:
    ends = pc.min_max(array)
    return all(end is None or -(2**53) <= end <= 2**53 for end in (ends["min"].as_py(), ends["max"].as_py()))


def _wider(known: pa.DataType, new: pa.DataType) -> pa.DataType:
    fields = [pa.schema([("x", known)]), pa.schema([("x", new)])]
    return pa.unify_schemas(fields, promote_options="permissive").field("x").type


def _pairs(old: pa.DataType, new: pa.DataType) -> Iterator[tuple[pa.DataType, pa.DataType]]:
    """What is not nested in a type, with what becomes of it in a wider one."""
    if pa.types.is_struct(old):
        for field in old:
            yield from _pairs(field.type, new.field(field.name).type)
    elif pa.types.is_list(old):
        yield from _pairs(old.value_type, new.value_type)
    else:
        yield old, new


def _rounds(old: pa.DataType, new: pa.DataType) -> bool:
    return any(pa.types.is_integer(one) and not pa.types.is_integer(other) for one, other in _pairs(old, new))


def _keeps(old: pa.DataType, new: pa.DataType) -> bool:
    """False if Arrow would make a value into another (a text into bytes), or might find that it cannot, too late."""
    return not any(
        one not in (other, pa.null())
        and (_FIXED & {one.id, other.id} or pa.types.is_decimal(one) != pa.types.is_decimal(other))
        for one, other in _pairs(old, new)
    )


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as one of a wider type. Arrow's own cast breaks lists of nothing but nulls."""
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if not pa.types.is_nested(kind):
        return array.cast(kind)
    if array.offset:
        array = array.take(pa.array(range(len(array))))
    if pa.types.is_list(kind):
        values = cast(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    there = {field.name: number for number, field in enumerate(array.type)}
    children = [
        cast(array.field(there[field.name]), field.type) if field.name in there else pa.nulls(len(array), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _is_mixed(kind: pa.DataType, values: Iterable[Any]) -> bool:
    """True if Arrow has taken values of two kinds for one (a number for a date, a text for bytes). Where it never does
    that, nothing is looked at."""
    if not any(map(_hides, _leaves(kind))):
        return False
    given = [value for value in values if value is not None]
    if pa.types.is_struct(kind):
        return any(_is_mixed(field.type, [value.get(field.name) for value in given]) for field in kind)
    if pa.types.is_list(kind):
        return _is_mixed(kind.value_type, chain.from_iterable(given))
    return len(set(map(_python_kind, given))) > 1


def _hides(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_temporal(kind))


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(kind):
        yield kind
    for number in range(kind.num_fields):
        yield from _leaves(kind.field(number).type)


def _python_kind(value: Any) -> tuple[type, bool]:
    kind = bytes if isinstance(value, bytearray | memoryview) else type(value)
    return kind, isinstance(value, datetime) and value.tzinfo is not None


def _text(text: str) -> str:
    """What can be written: the name of a file, say, may hold bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def _without(array: pa.Array, places: dict[int, str]) -> pa.Array:
    """The array with nothing in these places."""
    return array.take(pa.array([None if place in places else place for place in range(len(array))], pa.int64()))


def _shape(result: Any) -> str:
    if type(result) is dict and all(type(key) is str for key in result):
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
    if isinstance(value, np.ndarray | np.datetime64 | np.timedelta64):
        return (value.astype(value.dtype.str[:2] + "8[us]") if value.dtype.kind in "mM" else value).tolist()
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return [plain(item) for item in value]
    return value


# ---- and back --------------------------------------------------------------------------------------------------------


def read_rows(batches: Iterable[Any], description: dict[str, Any] | None) -> Iterator[tuple[int, Any, str | None]]:
    """(index, result, error) of rows as `Columns` wrote them."""
    description = description or {}
    shape, nones = description.get("shape") or "value", bool(description.get("nones"))
    keys = {name: key for key, name, _ in description.get("columns", [])}
    kinds = {name: _kind(hexed) for _, name, hexed in description.get("columns", [])}
    for batch in chain.from_iterable(map(_small, batches)):
        columns = {name: cast(batch.column(name), kind).to_pylist() for name, kind in kinds.items()}
        index, error = batch.column("index").to_pylist(), batch.column("error").to_pylist()
        for place, number in enumerate(index):
            cells = {keys[name]: values[place] for name, values in columns.items()}
            nothing = error[place] is not None or (nones and all(cell is None for cell in cells.values()))
            yield number, None if nothing else _result(shape, cells), error[place]


def _small(batch: Any) -> Iterator[Any]:
    """A batch in pieces that are not too much for the memory: as Python's own values they are many times larger."""
    step = max(1, _BYTES * len(batch) // max(1, batch.nbytes))
    return (batch.slice(begin, step) for begin in range(0, len(batch), step))


def _result(shape: str, cells: dict[Any, Any]) -> Any:
    if shape == "dict":
        return cells
    if shape == "tuple":
        return tuple(cells.values())
    return cells.get("result")

"""What a value is like: its kind, type, dtype, shape, columns or keys, and what its elements are like.

Described by classes alone: nobody's own code is run for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from numbers import Number
from pathlib import PurePath
from typing import Any

_DEPTH = 4  # containers inside containers that are described
_DEEPEST_DATA = 50  # of what a page says: each level is written out within those around it
_MOST_KEYS = 100  # a dictionary of more is a table of values rather than a record of named ones


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a frame, or a key of a dictionary."""

    name: str
    specs: tuple[Spec, ...]
    always: bool = True  # False: some examples have it not


@dataclass(frozen=True, slots=True)
class Spec:
    """What a value is like."""

    kind: str  # one of KINDS
    type: str = ""  # the name of its class; "" where any class of the kind will do
    dtype: str = ""
    shape: tuple[int | None, ...] | None = None  # None in it: any size
    fields: tuple[Field, ...] = ()
    items: tuple[Spec, ...] = ()  # what the elements of a container are like

    def __str__(self) -> str:
        name = self.type.rpartition(".")[2] or ("" if self.dtype else self.kind)
        shape = (
            "" if self.shape is None else f"[{', '.join('*' if size is None else str(size) for size in self.shape)}]"
        )
        if self.kind == "frame":
            shape = ""  # the columns say it, and rows may be any number
        inside = f"[{in_words(self.items)}]" if self.items else ""
        if self.fields:
            inside = "{" + ", ".join(map(_field_in_words, self.fields)) + "}"
        return f"{name} {self.dtype}{shape}".strip() + inside if self.dtype else f"{name}{shape}{inside}"


def _field_in_words(field: Field) -> str:
    return f"{field.name}{'' if field.always else '?'}: {in_words(field.specs)}"


def in_words(specs: Iterable[Spec]) -> str:
    """Alternatives, in words."""
    return " | ".join(dict.fromkeys(map(str, specs))) or "anything"


ANYTHING = "anything"
KINDS = (
    "number", "text", "bytes", "path", "nothing", "array", "series", "frame", "mapping", "sequence", "set", "object",
    ANYTHING,
)  # fmt: skip

# ---- of values


def describe(value: Any, depth: int = _DEPTH) -> Spec:
    """What a value is like."""
    kind, cls = kind_of(value), type(value)
    name = (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"
    )
    if kind in ("array", "series"):
        return Spec(kind, name, dtype_of(value), shape_of(value))
    if kind == "frame":
        columns = tuple(Field(column, (Spec("array", "", dtype),)) for column, dtype in columns_of(value).items())
        return Spec(kind, name, "", (rows_of(value), len(columns)), columns)
    if kind == "mapping" and depth and issubclass(cls, dict):
        return _described_dict(value, name, depth)
    if kind in ("sequence", "set") and depth and issubclass(cls, (list, tuple, set, frozenset)):
        return Spec(kind, name, items=union(_described_items(cls.__iter__(value), depth)))
    return Spec(kind, "NoneType" if value is None else name)


def _described_dict(value: dict[Any, Any], name: str, depth: int) -> Spec:
    keys = list(dict.keys(value))
    if len(keys) > _MOST_KEYS or not all(type(key) is str for key in keys):
        return Spec("mapping", name, items=union(_described_items(dict.values(value), depth)))
    fields = (Field(key, (describe(item, depth - 1),)) for key, item in dict.items(value))
    return Spec("mapping", name, fields=tuple(fields))


def _described_items(items: Iterable[Any], depth: int) -> Iterator[Spec]:
    seen: set[type] = set()
    for item in items:
        cls = type(item)
        if cls in (int, float, str, bool, bytes, complex, type(None)):  # nothing more is to be said of another one
            if cls in seen:
                continue
            seen.add(cls)
        yield describe(item, depth - 1)


def kind_of(value: Any) -> str:
    """The coarse kind of a value, by its class."""
    cls = type(value)
    if value is None:
        return "nothing"
    if cls in _EXACT:
        return _EXACT[cls]
    root, name = cls.__module__.partition(".")[0], cls.__name__
    if (root, name) in _NAMED:
        return _NAMED[root, name]
    of_library = _kind_in_libraries(cls)
    if of_library is not None:
        return of_library
    for kind, classes in _CLASSES.items():
        if issubclass(cls, classes):
            return kind
    return "object"


_EXACT: dict[type, str] = {int: "number", float: "number", bool: "number", complex: "number", str: "text"}
_CLASSES: dict[str, tuple[type, ...]] = {
    "number": (Number,),
    "text": (str,),
    "bytes": (bytes, bytearray, memoryview),
    "path": (PurePath,),
    "mapping": (Mapping,),
    "sequence": (list, tuple, range),
    "set": (set, frozenset),
}
_NAMED = {
    ("tensorflow", "EagerTensor"): "array", ("jaxlib", "ArrayImpl"): "array", ("polars", "DataFrame"): "frame",
    ("polars", "Series"): "series", ("pyarrow", "Table"): "frame", ("pyarrow", "RecordBatch"): "frame",
    ("collections", "deque"): "sequence",
}  # fmt: skip
_NUMPY_SCALARS = {**dict.fromkeys("biufc", "number"), "U": "text", "S": "bytes"}


def _kind_in_libraries(cls: type) -> str | None:
    numpy, torch, pandas = (sys.modules.get(name) for name in ("numpy", "torch", "pandas"))
    if numpy is not None and issubclass(cls, numpy.ndarray):
        return "array"
    if numpy is not None and issubclass(cls, numpy.generic):
        return _NUMPY_SCALARS.get(numpy.dtype(cls).kind, "object")
    if torch is not None and hasattr(torch, "Tensor") and issubclass(cls, torch.Tensor):
        return "array"
    if pandas is not None and hasattr(pandas, "DataFrame"):
        if issubclass(cls, pandas.DataFrame):
            return "frame"
        if issubclass(cls, pandas.Series):
            return "series"
    return None


def dtype_of(value: Any) -> str:
    dtype = getattr(value, "dtype", "")
    named = getattr(dtype, "name", None)  # of NumPy and TensorFlow; torch says it with its own name
    return str(named if isinstance(named, str) else dtype).removeprefix("torch.")


def shape_of(value: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in value.shape)


def columns_of(frame: Any) -> dict[str, str]:
    """The columns of a frame, with their dtypes."""
    if hasattr(frame, "dtypes") and hasattr(frame, "iloc"):
        return {str(name): str(dtype) for name, dtype in zip(frame.columns, frame.dtypes, strict=True)}
    schema = frame.schema
    if hasattr(schema, "types"):
        return {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
    return {name: str(kind) for name, kind in schema.items()}


def rows_of(frame: Any) -> int:
    return int(frame.shape[0]) if hasattr(frame, "shape") else int(frame.num_rows)


# ---- several


def union(specs: Iterable[Spec]) -> tuple[Spec, ...]:
    """Alternatives, where those that differ in sizes or keys alone are one."""
    found: list[Spec] = []
    for spec in specs:
        place = next((place for place, known in enumerate(found) if _is_alike(known, spec)), None)
        if place is None:
            found.append(spec)
        elif found[place] != spec:
            found[place] = _joined(found[place], spec)
    return tuple(found)


def _is_alike(a: Spec, b: Spec) -> bool:
    ranks = (None if spec.shape is None or spec.kind == "frame" else len(spec.shape) for spec in (a, b))
    return (a.kind, a.type, a.dtype) == (b.kind, b.type, b.dtype) and len(set(ranks)) == 1


def _joined(a: Spec, b: Spec) -> Spec:
    shape = a.shape
    if a.shape is not None and b.shape is not None:
        shape = tuple(one if one == other else None for one, other in zip_longest(a.shape, b.shape))
    names = dict.fromkeys([field.name for field in (*a.fields, *b.fields)])
    fields = tuple(_joined_field(name, a.fields, b.fields) for name in names)
    return replace(a, shape=shape, fields=fields, items=union((*a.items, *b.items)))


def _joined_field(name: str, *sides: tuple[Field, ...]) -> Field:
    found = [field for fields in sides for field in fields if field.name == name]
    specs = union(spec for field in found for spec in field.specs)
    return Field(name, specs, len(found) == len(sides) and all(field.always for field in found))


# ---- as plain data


def to_data(spec: Spec) -> dict[str, Any]:
    """For graph.json."""
    said: dict[str, Any] = {"kind": spec.kind, "type": spec.type}
    if spec.dtype:
        said["dtype"] = spec.dtype
    if spec.shape is not None:
        said["shape"] = list(spec.shape)
    if spec.fields:
        said["fields"] = [[field.name, field.always, list(map(to_data, field.specs))] for field in spec.fields]
    if spec.items:
        said["items"] = list(map(to_data, spec.items))
    return said


def from_data(said: dict[str, Any]) -> Spec:
    """Of graph.json, which the schema has passed."""
    shape = said.get("shape")
    fields = (Field(name, tuple(map(from_data, specs)), always) for name, always, specs in said.get("fields", ()))
    items = tuple(map(from_data, said.get("items", ())))
    return Spec(
        said["kind"], said["type"], said.get("dtype", ""), None if shape is None else tuple(shape), tuple(fields), items
    )


def is_data(said: Any, depth: int = _DEEPEST_DATA) -> bool:
    """Whether something of a page, which anyone can have written, is the data of a specification."""
    if not depth or not isinstance(said, dict) or not {"kind", "type"} <= said.keys() <= _PARTS.keys():
        return False
    return all(_PARTS[name](value, depth - 1) for name, value in said.items())


def are_data(said: Any, depth: int = _DEEPEST_DATA) -> bool:
    return isinstance(said, list) and all(is_data(item, depth) for item in said)


def _is_text(value: Any, depth: int = 0) -> bool:
    return isinstance(value, str)


def _is_shape(value: Any, depth: int = 0) -> bool:
    return isinstance(value, list) and all(size is None or (type(size) is int and size >= 0) for size in value)


def _is_field(value: Any, depth: int) -> bool:
    return isinstance(value, list) and len(value) == 3 and _is_text(value[0]) and are_data(value[2], depth)


_PARTS: dict[str, Callable[[Any, int], bool]] = {
    "kind": lambda value, depth: value in KINDS,
    "type": _is_text,
    "dtype": _is_text,
    "shape": _is_shape,
    "fields": lambda value, depth: isinstance(value, list) and all(_is_field(field, depth) for field in value),
    "items": are_data,
}

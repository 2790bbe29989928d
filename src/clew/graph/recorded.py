"""What the inputs of a graph were recorded with: that decides what a row, and a batch of rows, becomes for them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Graph

UNKNOWN = "unknown"  # no example was kept, or the examples are of several kinds
CONTAINERS = ("frame", "series", "table", "array", "tensor")  # what can be cut into batches of rows


@dataclass(frozen=True)
class RecordedInput:
    """What the examples gave to one input."""

    name: str
    kind: str = UNKNOWN
    class_name: str = ""
    dtype: Any = None  # of an array, a tensor or a series
    dimensions: int | None = None  # of an array or a tensor, if all examples agree
    elements: frozenset[str] = frozenset()  # kinds of the elements of a list or tuple
    text_columns: frozenset[str] = frozenset()  # columns of a table of which it is given texts
    number_columns: frozenset[str] = frozenset()  # and those of which it is given numbers

    @property
    def article(self) -> str:
        return f"{'an' if self.class_name[:1].lower() in 'aeiou' else 'a'} {self.class_name}"


def kind_of(value: Any) -> str:
    """A coarse kind of a value, by its class alone: no code of the value's own runs."""
    for module, class_name, kind in _LIBRARY_KINDS:
        cls = getattr(sys.modules.get(module), class_name, None)
        if cls is not None and isinstance(value, cls):
            return kind
    for kind, classes in _PLAIN_KINDS.items():
        if isinstance(value, classes):
            return kind
    return "nothing" if value is None else "other"


_LIBRARY_KINDS = (
    ("pandas", "DataFrame", "frame"),
    ("pandas", "Series", "series"),
    ("torch", "Tensor", "tensor"),
    ("numpy", "ndarray", "array"),
    ("pyarrow", "Table", "table"),
)
_PLAIN_KINDS: dict[str, Any] = {
    "number": (Number,),
    "text": (str,),
    "bytes": (bytes, bytearray),
    "mapping": (Mapping,),
    "list": (list, tuple),
}


def recorded_inputs(graph: Graph) -> dict[str, RecordedInput]:
    """What each input was recorded with, by name: from the examples, or else from the signature."""
    parameters = getattr(getattr(graph, "signature", None), "inputs", {})
    examples = [example for example in _examples(graph) if isinstance(example, dict)]
    found = {}
    for name in graph.input_names:
        values = [example[name] for example in examples if name in example]
        found[name] = _recorded(name, values) if values or name not in parameters else _described(parameters[name])
    return found


def _described(parameter: Any) -> RecordedInput:
    """The same, of what a signature says of an input. There its default stands beside what the examples gave."""
    name, specs = parameter.name, list(parameter.specs)
    if parameter.optional:
        default = kind_of(parameter.default)
        specs = [spec for spec in specs if _kind_in_spec(spec) != default] or specs
    kinds = {_kind_in_spec(spec) for spec in specs}
    if len(kinds) != 1 or UNKNOWN in kinds:
        return RecordedInput(name)
    kind, first = kinds.pop(), specs[0]
    dimensions = {len(spec.shape) for spec in specs if spec.shape is not None} if kind in ("array", "tensor") else set()
    items = [item for spec in specs for item in spec.items]
    return RecordedInput(
        name,
        kind,
        first.type.rpartition(".")[2],
        _dtype(kind, first.dtype),
        dimensions.pop() if len(dimensions) == 1 else None,
        frozenset(map(_kind_in_spec, items)) if kind == "list" else frozenset(),
        _columns_in_specs(name, kind, specs, "text"),
        _columns_in_specs(name, kind, specs, "number"),
    )


def _kind_in_spec(spec: Any) -> str:
    root = spec.type.partition(".")[0]
    kinds = {
        "array": {"torch": "tensor", "numpy": "array"}.get(root, "other"),
        "frame": {"pandas": "frame", "pyarrow": "table"}.get(root, "other"),
        "sequence": "list" if spec.type in ("list", "tuple") else "other",
        "anything": UNKNOWN,
    }
    kept = ("number", "text", "bytes", "mapping", "series", "nothing")
    return kinds.get(spec.kind, spec.kind if spec.kind in kept else "other")


def _dtype(kind: str, name: str) -> Any:
    if kind == "tensor":
        return getattr(sys.modules.get("torch"), name, None)
    if kind == "array":
        import numpy as np

        return np.dtype(name)
    return None


def _columns_in_specs(name: str, kind: str, specs: Sequence[Any], content: str) -> frozenset[str]:
    if kind in ("mapping", "frame"):
        fields = [(field.name, one) for spec in specs for field in spec.fields for one in field.specs]
        return frozenset(column for column, one in fields if (_content(one) or one.kind) == content)
    held = [one for spec in specs for one in (spec, *spec.items)]
    return frozenset([name] if any((_content(one) or one.kind) == content for one in held) else [])


def _content(spec: Any) -> str:
    """What the cells of a column or array are."""
    if spec.dtype.startswith(("int", "uint", "float", "bool")):
        return "number"
    return "text" if spec.dtype in ("str", "string", "object") else ""


def _examples(graph: Graph) -> list[Any]:
    from clew.graph.bundle.kept_examples import of_graph

    try:
        return of_graph(graph)
    except Exception:  # of a class that cannot be made here: then nothing is known
        return []


def _recorded(name: str, values: list[Any]) -> RecordedInput:
    kinds = {kind_of(value) for value in values}
    if len(kinds) != 1:
        return RecordedInput(name)
    kind, first = kinds.pop(), values[0]
    dimensions = {value.ndim for value in values} if kind in ("array", "tensor") else set()
    return RecordedInput(
        name,
        kind,
        type(first).__name__,
        first.dtype if kind in ("array", "tensor", "series") else None,
        dimensions.pop() if len(dimensions) == 1 else None,
        frozenset(kind_of(item) for value in values for item in value) if kind == "list" else frozenset(),
        _columns_of(name, kind, values, str),
        _columns_of(name, kind, values, Number),
    )


def _columns_of(name: str, kind: str, values: list[Any], content: type) -> frozenset[str]:
    """The columns of a table that would hold values of this class for an input: its own, or those of a row or frame."""
    if kind == "mapping":
        return frozenset(
            key for value in values if type(value) is dict for key, item in value.items() if isinstance(item, content)
        )
    if kind == "frame":
        columns = {str(column): value[column] for value in values for column in value.columns}
        return frozenset(column for column, cells in columns.items() if any(isinstance(one, content) for one in cells))
    held = values if kind in ("text", "number") else [item for value in values for item in _few(kind, value)]
    return frozenset([name] if any(isinstance(value, content) for value in held) else [])


def _few(kind: str, value: Any) -> list[Any]:
    if kind == "tensor":
        return [0]
    return list(value[:100]) if kind in ("list", "array", "series") else []

"""The signature of a graph: what each input is like and what comes out, from its examples or as the caller says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.errors import GraphError, nearest

from .brief_values import words
from .specs import ANYTHING, Field, Spec, describe, from_data, in_words, to_data, union

RETURN = "return"  # what the output is called in a signature that is given, as in annotations
_TEXT = re.compile(r"(?:(?P<type>[\w.]+)\s+)?(?P<name>[\w.]+)\s*(?:\[(?P<shape>[^\]]*)\])?")
_DTYPE = re.compile(r"(u?int|float|bfloat|complex)\d+|bool|object|str|string|datetime64(\[\w+\])?|float8_\w+")
_PYTHON: dict[str, str] = {
    "int": "number", "float": "number", "bool": "number", "complex": "number", "str": "text", "bytes": "bytes",
    "list": "sequence", "tuple": "sequence", "set": "set", "frozenset": "set", "dict": "mapping", "None": "nothing",
    "NoneType": "nothing", "Path": "path", "ndarray": "array", "Tensor": "array", "DataFrame": "frame",
    "Series": "series", "any": ANYTHING, "Any": ANYTHING, "object": ANYTHING,
}  # fmt: skip
_CLASSES = {"ndarray": "numpy.ndarray", "Tensor": "torch.Tensor", "None": "NoneType"}


@dataclass(frozen=True)
class Parameter:
    """An input of a graph."""

    name: str
    specs: tuple[Spec, ...] = ()  # alternatives; none: nothing is known of it
    optional: bool = False
    default: Any = None
    strict: bool = False  # the caller has said what it is like

    def __str__(self) -> str:
        default = f" = {words(self.default)}" if self.optional else ""
        return f"{self.name}: {in_words(self.specs)}{default}"


@dataclass(frozen=True, repr=False)
class Signature:
    """What goes into a graph and what comes out."""

    inputs: dict[str, Parameter] = field(default_factory=dict)
    output: tuple[Spec, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*map(str, self.inputs.values()), f"→ {in_words(self.output)}"])

    __repr__ = __str__

    def with_specs(self, specs: Mapping[str, tuple[Spec, ...]], *, strict: bool) -> Signature:
        """The same, where these inputs are as they are said to be."""
        inputs = {
            name: Parameter(name, specs[name], known.optional, known.default, strict) if name in specs else known
            for name, known in self.inputs.items()
        }
        return Signature(inputs, specs.get(RETURN, self.output))


def described(example: Mapping[str, Any]) -> dict[str, Spec]:
    """What the inputs of an example are like."""
    return {name: describe(value) for name, value in example.items()}


def of_examples(inputs: Iterable[Any], examples: list[dict[str, Spec]], outputs: list[Spec]) -> Signature:
    """The signature that several examples have together; of each input, also its default."""
    found = {}
    for given in inputs:
        specs = [example[given.name] for example in examples if given.name in example]
        if given.has_default:
            specs.append(describe(given.default))
        found[given.name] = Parameter(given.name, union(specs), given.has_default, given.default)
    return Signature(found, union(outputs))


def unknown(inputs: Iterable[Any]) -> Signature:
    """Of a graph of which only the names of its inputs are known."""
    return Signature({one.name: Parameter(one.name, (), one.has_default, one.default) for one in inputs})


# ---- as the caller says it


def given(signature: Any, names: Iterable[str]) -> dict[str, tuple[Spec, ...]]:
    """Specifications of inputs by name, and of the output as "return"."""
    names = list(names)
    if not isinstance(signature, Mapping):
        what = f"signature= is a {type(signature).__name__}."
        raise GraphError("bad-option", what, 'Give a dictionary: {"x": "float32[*, 4]", "text": str}.')
    for name in signature:
        if name not in names and name != RETURN:
            what = f"signature= names `{name}`, which is no input of the graph;"
            raise GraphError("bad-option", what, f"{nearest(str(name), names)} It takes: {', '.join(names)}.")
    return {name: _specs(said, f"signature[{name!r}]") for name, said in signature.items()}


def _specs(said: Any, where: str) -> tuple[Spec, ...]:
    if said is None:
        return (Spec("nothing", "NoneType"),)
    if isinstance(said, str):
        return tuple(_of_text(part.strip(), where) for part in said.split("|"))
    if isinstance(said, tuple):
        return tuple(spec for one in said for spec in _specs(one, where))
    if isinstance(said, Mapping):
        fields = (Field(str(name), _specs(inner, f"{where}[{name!r}]")) for name, inner in said.items())
        return (Spec("mapping", "", fields=tuple(fields)),)
    if isinstance(said, list) and len(said) == 1:
        return (Spec("sequence", "list", items=_specs(said[0], where)),)
    if isinstance(said, type):
        return (_of_class(said),)
    what = f"{where} is {words(said)}, which says nothing about a value."
    raise GraphError("bad-option", what, f"Give {_WAYS}.")


_WAYS = 'a type, a text like "float32[*, 4]" or "str | None", a dictionary of columns or keys, or a tuple of such'


def _of_class(cls: type) -> Spec:
    kind = _PYTHON.get(cls.__name__, "object")
    if cls is object:
        return Spec(ANYTHING)
    home = cls.__module__.partition(".")[0]
    return Spec(kind, cls.__qualname__ if home == "builtins" else f"{home}.{cls.__qualname__}")


def _of_text(text: str, where: str) -> Spec:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise GraphError("bad-option", f"{where}: {text!r} is not understood.", f"Give {_WAYS}.")
    name, type_name = match["name"], match["type"] or ""
    shape = None if match["shape"] is None else tuple(_size(one.strip(), where) for one in match["shape"].split(","))
    if type_name or shape is not None or (_DTYPE.fullmatch(name) and name not in _PYTHON):
        kind = "series" if type_name.endswith("Series") else "array"
        return Spec(kind, _CLASSES.get(type_name, type_name), name, shape)
    kind = _PYTHON.get(name.rpartition(".")[2], "object")
    return Spec(kind, "" if kind == ANYTHING else _CLASSES.get(name, name))


def _size(text: str, where: str) -> int | None:
    """One size of a shape: a number, or `*` or a name for any."""
    if text.isdigit():
        return int(text)
    if text == "*" or text.isidentifier():
        return None
    raise GraphError("bad-option", f"{where}: {text!r} is no size.", "Give a number, or `*` for any size.")


# ---- in graph.json


def to_page(parameter: Parameter) -> dict[str, Any]:
    """What a page says of an input besides its name and default."""
    if not parameter.specs:
        return {}
    return {"like": list(map(to_data, parameter.specs)), **({"strict": True} if parameter.strict else {})}


def from_page(page: Mapping[str, Any], inputs: Iterable[Any]) -> Signature:
    """Of a bundle; older ones do not say it."""
    known = unknown(inputs)
    for said in page["inputs"]:
        if "like" in said:
            specs = tuple(map(from_data, said["like"]))
            known = known.with_specs({said["name"]: specs}, strict=said.get("strict", False))
    return Signature(known.inputs, tuple(map(from_data, page.get("output", ()))))

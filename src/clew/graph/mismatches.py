"""How far a value is from what a graph was recorded with, and in which words.

A graph runs what may work. Only what contradicts what was recorded is refused before it runs; other differences are
told if it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from .specs import ANYTHING, Spec, columns_of, describe, dtype_of, in_words, kind_of, shape_of


class Grade(IntEnum):
    """What a difference is worth."""

    NONE = 0
    NOTE = 1  # it may have to do with a failure
    SERIOUS = 2  # it explains a failure
    REFUSED = 3  # it is not run with this


@dataclass(frozen=True, slots=True)
class Mismatch:
    grade: Grade = Grade.NONE
    what: str = ""  # what came, in words


AGREES = Mismatch()

#: Values of these kinds, given for one of another kind, would fail or be taken for something else without a word: a
#: text that is gone through letter by letter, a dictionary that is gone through by its keys.
_REFUSED_FOR: dict[str, frozenset[str]] = {
    "number": frozenset({"text", "bytes", "path", "mapping", "sequence", "set", "frame"}),
    "text": frozenset({"number", "mapping", "frame", "set"}),
    "bytes": frozenset({"number", "mapping", "frame", "set"}),
    "path": frozenset({"number", "mapping", "frame", "set", "sequence"}),
    "array": frozenset({"text", "bytes", "path", "mapping", "set"}),
    "series": frozenset({"text", "bytes", "path", "set"}),
    "frame": frozenset({"text", "bytes", "path", "number", "set"}),
    "mapping": frozenset({"text", "bytes", "path", "number", "sequence", "set", "array"}),
    "sequence": frozenset({"text", "bytes", "path", "number", "mapping"}),
    "set": frozenset({"text", "bytes", "path", "number"}),
}
_LONGEST = 300  # characters of a description
_SHOWN = 20  # names of columns that are listed
_FLOATS, _INTEGERS = ("float", "bfloat", "half", "double"), ("int", "uint", "bool")


def mismatch(specs: tuple[Spec, ...], value: Any, needed: Iterable[str] = (), strict: bool = False) -> Mismatch:
    """How a value differs from the nearest of some alternatives.

    needed   the columns or keys that are certainly used; without the others it may work
    strict   the alternatives were given by the caller: what is not one of them is refused
    """
    best: Mismatch | None = None
    for spec in specs:
        found = _from_spec(spec, value, frozenset(needed), strict)
        if found.grade is Grade.NONE:
            return AGREES
        if best is None or found.grade < best.grade:
            best = found
    if best is None:
        return AGREES
    return Mismatch(Grade.REFUSED, best.what) if strict and best.grade >= Grade.SERIOUS else best


def _from_spec(spec: Spec, value: Any, needed: frozenset[str], strict: bool) -> Mismatch:
    if spec.kind in (ANYTHING, "nothing") and (spec.kind == ANYTHING or not strict or value is None):
        return AGREES
    kind = kind_of(value)
    if kind == "frame" and spec.kind == "mapping" and not spec.type:  # columns, as the caller has named them
        spec = replace(spec, kind="frame")
    if kind != spec.kind:
        return _of_other_kind(spec, kind, value, needed)
    look = _LOOKS.get(kind)
    return AGREES if look is None else look(spec, value, needed, strict)


def _of_other_kind(spec: Spec, kind: str, value: Any, needed: frozenset[str]) -> Mismatch:
    if kind in _REFUSED_FOR.get(spec.kind, ()) or (spec.kind == "array" and kind == "number" and spec.shape):
        return Mismatch(Grade.REFUSED, f"is {_in_words(value)}")
    if {kind, spec.kind} == {"mapping", "frame"}:
        missing = _missing(spec, _names_in(kind, value), needed)
        return Mismatch(Grade.SERIOUS, f"is {_in_words(value)}") if missing is None else missing
    return Mismatch(Grade.SERIOUS, f"is {_in_words(value)}")


def _in_words(value: Any) -> str:
    words = "None" if value is None else in_words([describe(value, depth=2)])
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


# ---- by kind


def _number(spec: Spec, value: Any, needed: frozenset[str], strict: bool) -> Mismatch:
    if not strict or spec.type not in ("int", "bool", "float"):
        return AGREES
    name = dtype_of(value) or type(value).__name__
    allowed = {"bool": ("bool",), "int": _INTEGERS, "float": (*_FLOATS, *_INTEGERS)}[spec.type]
    return AGREES if name.startswith(allowed) else Mismatch(Grade.SERIOUS, f"is {_in_words(value)}")


def _array(spec: Spec, value: Any, needed: frozenset[str], strict: bool) -> Mismatch:
    grade = _grade_of_array(spec, value, strict)
    return AGREES if grade is Grade.NONE else Mismatch(grade, f"is {_in_words(value)}")


def _grade_of_array(spec: Spec, value: Any, strict: bool) -> Grade:
    shape = shape_of(value)
    if spec.shape is not None and len(shape) != len(spec.shape):
        return Grade.REFUSED
    if spec.type and not any(_named_as(cls, spec.type) for cls in type(value).__mro__):
        return Grade.SERIOUS
    if spec.dtype and spec.dtype != dtype_of(value):
        return Grade.SERIOUS
    differs = [one is not None and one != size for one, size in zip(spec.shape or (), shape, strict=False)]
    if any(differs[1:]) or (strict and any(differs)):
        return Grade.SERIOUS
    return Grade.NOTE if any(differs) and len(shape) == 1 else Grade.NONE  # batches may be of any size


def _frame(spec: Spec, value: Any, needed: frozenset[str], strict: bool) -> Mismatch:
    columns = columns_of(value)
    missing = _missing(spec, columns, needed) or AGREES
    if missing.grade is Grade.REFUSED:
        return missing
    for field in spec.fields:
        expected, dtype = {one.dtype for one in field.specs}, columns.get(field.name)
        if dtype is not None and any(expected) and dtype not in expected:
            what = f"has the column `{field.name}` as {dtype}, not {in_words(field.specs)}"
            return Mismatch(Grade.SERIOUS, what)
    return missing


def _mapping(spec: Spec, value: Any, needed: frozenset[str], strict: bool) -> Mismatch:
    if not issubclass(type(value), dict):
        return AGREES
    missing = AGREES
    if not hasattr(type(value), "__missing__"):
        missing = _missing(spec, dict.keys(value), needed) or AGREES
    if missing.grade is Grade.REFUSED:
        return missing
    for field in spec.fields:
        if field.name in dict.keys(value):
            inner = mismatch(field.specs, dict.__getitem__(value, field.name), (), strict)
            if inner.grade >= Grade.SERIOUS:
                what = f"has the key `{field.name}`, which {inner.what}, not {in_words(field.specs)}"
                return Mismatch(Grade.SERIOUS, what)
    return missing


def _sequence(spec: Spec, value: Any, needed: frozenset[str], strict: bool) -> Mismatch:
    if not spec.items or not issubclass(type(value), (list, tuple)):
        return AGREES
    kinds = {one.kind for one in spec.items}
    others = {kind_of(item) for item in value} - kinds
    if others and ANYTHING not in kinds:
        return Mismatch(Grade.SERIOUS, f"is {_in_words(value)}")
    return AGREES


def _object(spec: Spec, value: Any, needed: frozenset[str], strict: bool) -> Mismatch:
    if not spec.type or any(_named_as(cls, spec.type) for cls in type(value).__mro__):
        return AGREES
    return Mismatch(Grade.SERIOUS if strict else Grade.NOTE, f"is {_in_words(value)}")


def _named_as(cls: type, name: str) -> bool:
    return name in (cls.__name__, f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}")


_LOOKS: dict[str, Callable[[Spec, Any, frozenset[str], bool], Mismatch]] = {
    "number": _number,
    "array": _array,
    "series": _array,
    "frame": _frame,
    "mapping": _mapping,
    "sequence": _sequence,
    "object": _object,
}


def _missing(spec: Spec, names: Iterable[Any], needed: frozenset[str]) -> Mismatch | None:
    """What of the columns or keys is not there: refused if it is certainly used."""
    there = {str(name) for name in names}
    absent = [field for field in spec.fields if field.always and field.name not in there]
    if not absent:
        return None
    first = min(absent, key=lambda field: field.name not in needed)
    grade = Grade.REFUSED if first.name in needed else Grade.SERIOUS
    word = "column" if spec.kind == "frame" else "key"
    listed = f"; it has {', '.join(f'`{name}`' for name in sorted(there)[:_SHOWN])}" if there else ""
    more = ", …" if len(there) > _SHOWN else ""
    return Mismatch(grade, f"lacks the {word} `{first.name}` ({in_words(first.specs)}){listed}{more}")


def _names_in(kind: str, value: Any) -> Iterable[Any]:
    if kind == "frame":
        return columns_of(value)
    return dict.keys(value) if issubclass(type(value), dict) else value.keys()

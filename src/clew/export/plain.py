"""Values read back, as plain data that JSON can say.

Lossy where JSON is: NaN and infinities become the texts "NaN", "Infinity", "-Infinity"; arrays become nested lists;
tuples and sets lists; what was not kept in full is an object that says so. Integers of more than `LONGEST_INTEGER` bits
are {"hex": "0x…"}: their decimal digits take quadratic time, and Python refuses them from 4,300 on.

What a value holds several times is written out several times: `REPEATED` items for each item that was there already,
and `ALWAYS` more. After that, and where something contains itself, {"left_out": why} stands in its place. So writing
takes time in proportion to the value.
"""

from __future__ import annotations

import base64
import dataclasses
import fractions
import math
import types
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from clew.records import DELETED, NotKept, Object, Summary

LONGEST_INTEGER: Final = 2000  # bits; 603 digits, fewer than the least that Python can be told to allow
REPEATED: Final = 10
ALWAYS: Final = 1000
_AS_THEY_ARE: Final = frozenset([bool, str, type(None)])
_SEQUENCES: Final = frozenset([list, tuple, set, frozenset, deque])
_BUFFERS: Final = frozenset([bytes, bytearray])


def plain(value: Any) -> Any:
    """`value` as lists, dictionaries, numbers, texts, booleans and None."""
    simple = _simple(value)
    return Plain().of(value, 0) if simple is NOT_SIMPLE else simple


NOT_SIMPLE: Final = object()


def _simple(value: Any) -> Any:
    """A number or a text; `NOT_SIMPLE` of anything else."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if value.bit_length() <= LONGEST_INTEGER else {"hex": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else _named(value)
    return {"deleted": True} if value is DELETED else NOT_SIMPLE


def _named(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class Plain:
    """One value on its way; counts what is written out again."""

    deepest = 150  # json itself recurses

    def __init__(self) -> None:
        self._around: set[int] = set()  # what is being written, by id
        self._written: dict[int, Any] = {}  # held on to, so that ids stay theirs
        self._room = ALWAYS  # how many items more are written out again

    def of(self, value: Any, depth: int) -> Any:
        simple = self.simple(value)
        if simple is not NOT_SIMPLE:
            return simple
        if depth > self.deepest:
            return {"left_out": f"deeper than {self.deepest}"}
        if id(value) in self._around:
            return {"left_out": "it contains itself"}
        if id(value) in self._written:
            self._room -= 1 + _size(value)
            if self._room < 0:
                return {"left_out": "it stands here before, and what stands in many places is not written out in all"}
        else:
            self._room += REPEATED * (1 + _size(value))
            self._written[id(value)] = value
        self._around.add(id(value))
        found = self.content(value, depth + 1)
        self._around.discard(id(value))
        return found

    def simple(self, value: Any) -> Any:
        return _simple(value)

    def content(self, value: Any, depth: int) -> Any:
        """What is written of a value that is not simple; `depth` is that of its items."""
        kind = type(value)
        if kind in _SEQUENCES:
            return self.list_of(value, depth)
        if isinstance(value, dict | types.MappingProxyType):
            return self.mapping(value, depth)
        if isinstance(value, Object):
            return {"type": value.type, "attributes": self.mapping(value.attributes, depth)}
        if isinstance(value, NotKept):
            return self._not_kept(value, depth)
        if kind is types.SimpleNamespace:
            return self.mapping(vars(value), depth)
        if kind in _BUFFERS:
            return {"base64": base64.b64encode(value).decode("ascii")}
        if kind is memoryview:
            return {"base64": base64.b64encode(value.tobytes()).decode("ascii")}
        if kind is complex:
            return {"real": _simple(value.real), "imag": _simple(value.imag)}
        parts = _integers_in(value)
        if parts is not None:
            return {name: self.of(part, depth) for name, part in parts.items()}
        return self._array(value, depth)

    def list_of(self, items: Iterable[Any], depth: int) -> list[Any]:
        return [self.of(item, depth) for item in items]

    def mapping(self, value: Any, depth: int) -> Any:
        if all(type(key) is str for key in value):
            return {key: self.of(item, depth) for key, item in value.items()}
        return [[self.of(key, depth), self.of(item, depth)] for key, item in value.items()]

    def _not_kept(self, value: NotKept, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {"not_kept": value.type, "why": value.why, "summary": summary_dict(value.summary)}
        if value.part is not None:
            out["part"] = self.of(value.part, depth)
        return out

    def _array(self, value: Any, depth: int) -> Any:
        from clew.history.series import as_array

        array = as_array(value)
        if array is None:
            return self._table(value, depth) if _is_table(value) else _text(value)
        if array.ndim == 0:
            item = array.item()
            return str(item) if type(item) is type(value) else self.of(item, depth)  # a long double is its own item
        content = self.of(array.tolist(), depth)
        return {"dtype": str(value.dtype), "shape": list(array.shape), "values": content}

    def _table(self, table: Any, depth: int) -> Any:
        """A table, column or index of pandas' own: its text, unless a cell or a label may be of any size."""
        columns = [table.iloc[:, place] for place in range(table.shape[1])] if table.ndim == 2 else [table]
        labels = [getattr(table, "columns", None), getattr(table, "index", None)]
        if not any(_holds_objects(part) for part in (*columns, *labels)):
            return _text(table)
        return {
            "type": f"pandas.{type(table).__name__}",
            "values": [self.of(column.tolist(), depth) for column in columns],
        }


def _is_table(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(
        value, "dtype" if getattr(value, "ndim", 0) == 1 else "iloc"
    )


def _holds_objects(part: Any) -> bool:
    """Whether anything but numbers, dates and texts is in a column or an index, or names it."""
    if part is None:
        return False
    names = [*getattr(part, "names", ()), getattr(part, "name", None)]
    if not all(type(name) in (str, type(None)) or (type(name) is int and _is_short(name)) for name in names):
        return True
    return bool(part.dtype == object) and not all(type(item) in (str, type(None)) for item in part.tolist())


def _text(value: Any) -> Any:
    """The text of a value of a known type, if that type has one for it."""
    try:
        return str(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return {"left_out": f"a {type(value).__name__} that has no text"}


def _size(value: Any) -> int:
    """How many items, numbers or bytes writing it again takes, but for what is inside its items."""
    if isinstance(value, Object):
        return len(value.attributes)
    if type(value) is types.SimpleNamespace:
        return len(vars(value))
    if type(value).__module__.partition(".")[0] in ("numpy", "torch", "pandas"):
        size = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
        return int(size)
    return len(value) if hasattr(type(value), "__len__") and type(value) is not range else 1


def _integers_in(value: Any) -> dict[str, Any] | None:
    """The integers that a fraction, a range or a slice consists of, if one is too long for a text; else None."""
    names = _PARTS.get(type(value))
    parts = {name: getattr(value, name) for name in names or ()}
    if names is None or (type(value) is not slice and all(_is_short(part) for part in parts.values())):
        return None
    return parts


_PARTS: Final[dict[type, tuple[str, ...]]] = {
    fractions.Fraction: ("numerator", "denominator"),
    range: ("start", "stop", "step"),
    slice: ("start", "stop", "step"),
}


def _is_short(part: Any) -> bool:
    return type(part) is not int or part.bit_length() <= LONGEST_INTEGER


def summary_dict(summary: Summary) -> dict[str, Any]:
    """What is known, without what is not."""
    told = dataclasses.asdict(summary)
    return {key: plain(list(item) if key == "shape" else item) for key, item in told.items() if item is not None}

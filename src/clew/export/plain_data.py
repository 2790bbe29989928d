"""Converts values to plain data that JSON can hold.

The conversion is lossy where JSON is: NaN and infinities become the texts "NaN", "Infinity", "-Infinity";
arrays become nested lists; tuples and sets become lists; a value that was not kept in full becomes an
object that says so. Integers of more than `LONGEST_INTEGER` bits are {"hex": "0x…"}: their decimal
digits take quadratic time, and Python refuses more than 4,300.

What a value holds several times is written several times: `REPEATED` items for each item written once, and
`ALWAYS` more. After that, and where an object contains itself, {"left_out": why} takes its place. So the
conversion takes time in proportion to the value.
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

LONGEST_INTEGER: Final = 2000  # bits; 603 digits, fewer than the lowest limit that Python can be set to
REPEATED: Final = 10
ALWAYS: Final = 1000
_UNCHANGED: Final = frozenset([bool, str, type(None)])
_SEQUENCES: Final = frozenset([list, tuple, set, frozenset, deque])
_BUFFERS: Final = frozenset([bytes, bytearray])


def to_plain(value: Any) -> Any:
    """`value` as lists, dictionaries, numbers, texts, booleans and None."""
    simple = _convert_simple(value)
    return PlainConverter().convert(value, 0) if simple is NOT_SIMPLE else simple


NOT_SIMPLE: Final = object()


def _convert_simple(value: Any) -> Any:
    """The plain form of a number, a text, None or a deletion; `NOT_SIMPLE` for anything else."""
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    if kind is int:
        return value if value.bit_length() <= LONGEST_INTEGER else {"hex": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else _name_nonfinite(value)
    return {"deleted": True} if value is DELETED else NOT_SIMPLE


def _name_nonfinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class PlainConverter:
    """Converts one value, and counts the items that are written more than once."""

    deepest = 150  # json itself recurses

    def __init__(self) -> None:
        self._open_ids: set[int] = set()  # the objects around the current one
        self._written: dict[int, Any] = {}  # by id; the references keep ids from being reused
        self._repeats_left = ALWAYS

    def convert(self, value: Any, depth: int) -> Any:
        simple = self.convert_simple(value)
        if simple is not NOT_SIMPLE:
            return simple
        if depth > self.deepest:
            return {"left_out": f"deeper than {self.deepest}"}
        if id(value) in self._open_ids:
            return {"left_out": "it contains itself"}
        if id(value) in self._written:
            self._repeats_left -= 1 + _size(value)
            if self._repeats_left < 0:
                return {"left_out": "it stands here before, and what stands in many places is not written out in all"}
        else:
            self._repeats_left += REPEATED * (1 + _size(value))
            self._written[id(value)] = value
        self._open_ids.add(id(value))
        content = self.convert_content(value, depth + 1)
        self._open_ids.discard(id(value))
        return content

    def convert_simple(self, value: Any) -> Any:
        return _convert_simple(value)

    def convert_content(self, value: Any, depth: int) -> Any:
        """The plain form of a value that is not simple; `depth` is that of its items."""
        kind = type(value)
        if kind in _SEQUENCES:
            return self.convert_items(value, depth)
        if isinstance(value, dict | types.MappingProxyType):
            return self.convert_mapping(value, depth)
        if isinstance(value, Object):
            return {"type": value.type, "attributes": self.convert_mapping(value.attributes, depth)}
        if isinstance(value, NotKept):
            return self._convert_not_kept(value, depth)
        if kind is types.SimpleNamespace:
            return self.convert_mapping(vars(value), depth)
        if kind in _BUFFERS:
            return {"base64": base64.b64encode(value).decode("ascii")}
        if kind is memoryview:
            return {"base64": base64.b64encode(value.tobytes()).decode("ascii")}
        if kind is complex:
            return {"real": _convert_simple(value.real), "imag": _convert_simple(value.imag)}
        parts = _long_integer_parts(value)
        if parts is not None:
            return {name: self.convert(part, depth) for name, part in parts.items()}
        return self._convert_array(value, depth)

    def convert_items(self, items: Iterable[Any], depth: int) -> list[Any]:
        return [self.convert(item, depth) for item in items]

    def convert_mapping(self, value: Any, depth: int) -> Any:
        if all(type(key) is str for key in value):
            return {key: self.convert(item, depth) for key, item in value.items()}
        return [[self.convert(key, depth), self.convert(item, depth)] for key, item in value.items()]

    def _convert_not_kept(self, value: NotKept, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {"not_kept": value.type, "why": value.why, "summary": summary_dict(value.summary)}
        if value.part is not None:
            data["part"] = self.convert(value.part, depth)
        return data

    def _convert_array(self, value: Any, depth: int) -> Any:
        from clew.reading.series import as_array

        array = as_array(value)
        if array is None:
            return self._convert_table(value, depth) if _is_table(value) else _to_text(value)
        if array.ndim == 0:
            item = array.item()
            # the item of a long double is a long double again
            return str(item) if type(item) is type(value) else self.convert(item, depth)
        content = self.convert_rows(array.tolist(), array.ndim, depth)
        return {"dtype": str(value.dtype), "shape": list(array.shape), "values": content}

    def convert_rows(self, rows: list[Any], dimensions: int, depth: int) -> list[Any]:
        """The lists that stand for an array's dimensions are new each time: only what they hold can be repeated."""
        if dimensions == 1:
            return self.convert_items(rows, depth)
        return [self.convert_rows(row, dimensions - 1, depth) for row in rows]

    def _convert_table(self, table: Any, depth: int) -> Any:
        """A table, column or index of pandas as its text, unless a cell or a label may be of any size."""
        columns = [table.iloc[:, place] for place in range(table.shape[1])] if table.ndim == 2 else [table]
        labels = [getattr(table, "columns", None), getattr(table, "index", None)]
        if not any(_holds_objects(part) for part in (*columns, *labels)):
            return _to_text(table)
        return {
            "type": f"pandas.{type(table).__name__}",
            "values": [self.convert_items(column.tolist(), depth) for column in columns],
        }


def _is_table(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(
        value, "dtype" if getattr(value, "ndim", 0) == 1 else "iloc"
    )


def _holds_objects(part: Any) -> bool:
    """Whether a column or an index, or its names, hold anything but numbers, dates and texts."""
    if part is None:
        return False
    names = [*getattr(part, "names", ()), getattr(part, "name", None)]
    if not all(type(name) in (str, type(None)) or (type(name) is int and _is_short(name)) for name in names):
        return True
    return bool(part.dtype == object) and not all(type(item) in (str, type(None)) for item in part.tolist())


def _to_text(value: Any) -> Any:
    """The text of a value of a known type, if it has one."""
    try:
        return str(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return {"left_out": f"a {type(value).__name__} that has no text"}


def _size(value: Any) -> int:
    """The number of items, numbers or bytes of a value, without those inside its items."""
    if isinstance(value, Object):
        return len(value.attributes)
    if type(value) is types.SimpleNamespace:
        return len(vars(value))
    if type(value).__module__.partition(".")[0] in ("numpy", "torch", "pandas"):
        size = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
        return int(size)
    return len(value) if hasattr(type(value), "__len__") and type(value) is not range else 1


def _long_integer_parts(value: Any) -> dict[str, Any] | None:
    """The parts of a fraction, a range or a slice, if one of them is too long for a text; else None."""
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
    """The known fields of a summary."""
    fields = dataclasses.asdict(summary)
    return {key: to_plain(list(item) if key == "shape" else item) for key, item in fields.items() if item is not None}

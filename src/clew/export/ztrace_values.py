"""Converts values as ztrace writes them: what `json.dumps` makes of them, arrays and tensors as nested lists.

Values that `json.dumps` refuses are written readably: sets as lists, bytes as their text (`b'ab'`), objects with
their attributes, and the rest as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from clew.export.plain_data import PlainConverter
from clew.records import Kept, NotKept, Object

_LONGEST_INTEGER: Final = 14_000  # bits: Python writes 4,300 digits
_KEYS: Final = (str, int, float, bool, type(None))  # json turns these into text itself
_BASES: Final = (tuple, list, dict, str, int, float)  # json writes subclasses of these as their base


def json_value(value: Any) -> Any:
    """`value` as lists, dictionaries, numbers, texts, booleans and None. NaN and the infinities are numbers."""
    return _JsonValue().convert(value, 0)


class _JsonValue(PlainConverter):
    deepest = 300

    def convert_simple(self, value: Any) -> Any:
        kind = type(value)
        if kind is float or (kind is int and value.bit_length() <= _LONGEST_INTEGER):
            return value
        return super().convert_simple(value)

    def convert_content(self, value: Any, depth: int) -> Any:
        if isinstance(value, tuple):
            return self.convert_items(value, depth)
        if isinstance(value, set | frozenset):
            return self.convert_items(_sort_items(value), depth)
        if isinstance(value, bytes | bytearray | memoryview):
            return repr(bytes(value))
        if isinstance(value, Object):
            return self._convert_object(value, depth)
        if isinstance(value, NotKept) and type(value.part) is str and value.kept is Kept.OPAQUE:
            return f"<{value.type} {value.part}>"  # a function, class or module
        if type(value).__module__.partition(".")[0] in ("numpy", "torch") and hasattr(value, "tolist"):
            return self._convert_array_items(value, depth)
        return super().convert_content(value, depth)

    def convert_mapping(self, value: Any, depth: int) -> Any:
        return {self._convert_key(key, depth): self.convert(item, depth) for key, item in value.items()}

    def _convert_key(self, key: Any, depth: int) -> Any:
        key_form = key if type(key) in _KEYS else self.convert(key, depth)
        return key_form if type(key_form) in _KEYS else str(key)

    def _convert_array_items(self, value: Any, depth: int) -> Any:
        items = value.tolist()
        if type(items) is list:
            return self.convert_rows(items, value.ndim, depth)
        # the item of a long double is a long double again
        return float(items) if type(items) is type(value) else self.convert(items, depth)

    def _convert_object(self, value: Object, depth: int) -> Any:
        cls = _class_of(value.type)
        if cls is not None and issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self.convert_items(value.attributes.values(), depth)
        if cls is not None and "value" in value.attributes:  # a subclass, or a member of an enum
            return self.convert(value.attributes["value"], depth)
        return super().convert_content(value, depth)


def _sort_items(items: Any) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:  # of several types
        return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def _class_of(name: str) -> type | None:
    """The class of a recorded name, if the running program has it and it is a subclass of one of json's types."""
    return next((cls for base in _BASES for cls in _all_subclasses(base) if _recorded_name(cls) == name), None)


def _recorded_name(cls: type) -> str:
    """The name of a class as it is recorded, read past any metaclass."""
    module, name = type.__getattribute__(cls, "__module__"), type.__getattribute__(cls, "__qualname__")
    return name if module in ("__main__", "builtins") else f"{module}.{name}"


def _all_subclasses(cls: type) -> Iterator[type]:
    subclasses: list[type] = type.__subclasses__(cls)
    for subclass in subclasses:
        yield subclass
        yield from _all_subclasses(subclass)

"""Values read back as ztrace writes them: what `json.dumps` makes of them, arrays and tensors as nested lists.

What `json.dumps` refuses is written readably: sets as lists, bytes as their text (`b'ab'`), objects with their
attributes, and what has no better form as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from clew.export.plain import Plain
from clew.records import Kept, NotKept, Object

_LONGEST_INTEGER: Final = 14_000  # bits: Python writes 4,300 digits
_KEYS: Final = (str, int, float, bool, type(None))  # json turns these into text by itself
_BASES: Final = (tuple, list, dict, str, int, float)  # of a subclass json writes what the base holds


def json_value(value: Any) -> Any:
    """`value` as lists, dictionaries, numbers, texts, booleans and None. NaN and the infinities are numbers."""
    return _JsonValue().of(value, 0)


class _JsonValue(Plain):
    deepest = 300

    def simple(self, value: Any) -> Any:
        kind = type(value)
        if kind is float or (kind is int and value.bit_length() <= _LONGEST_INTEGER):
            return value
        return super().simple(value)

    def content(self, value: Any, depth: int) -> Any:
        if isinstance(value, tuple):
            return self.list_of(value, depth)
        if isinstance(value, set | frozenset):
            return self.list_of(_in_order(value), depth)
        if isinstance(value, bytes | bytearray | memoryview):
            return repr(bytes(value))
        if isinstance(value, Object):
            return self._object(value, depth)
        if isinstance(value, NotKept) and type(value.part) is str and value.kept is Kept.OPAQUE:
            return f"<{value.type} {value.part}>"  # a function, class or module
        if type(value).__module__.partition(".")[0] in ("numpy", "torch") and hasattr(value, "tolist"):
            return self._array_items(value, depth)
        return super().content(value, depth)

    def mapping(self, value: Any, depth: int) -> Any:
        return {self._key(key, depth): self.of(item, depth) for key, item in value.items()}

    def _key(self, key: Any, depth: int) -> Any:
        written = key if type(key) in _KEYS else self.of(key, depth)
        return written if type(written) in _KEYS else str(key)

    def _array_items(self, value: Any, depth: int) -> Any:
        content = value.tolist()
        return float(content) if type(content) is type(value) else self.of(content, depth)  # a long double is its item

    def _object(self, value: Object, depth: int) -> Any:
        cls = _class_of(value.type)
        if cls is not None and issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self.list_of(value.attributes.values(), depth)
        if cls is not None and "value" in value.attributes:  # a subclass, or a member of an enum
            return self.of(value.attributes["value"], depth)
        return super().content(value, depth)


def _in_order(items: Any) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:  # of several types
        return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def _class_of(name: str) -> type | None:
    """The recorded class, if it is a subclass of one of json's types. It is a class of the program that runs."""
    return next((cls for base in _BASES for cls in _subclasses(base) if _name_of(cls) == name), None)


def _name_of(cls: type) -> str:
    """As it is recorded, asked past what a metaclass may do."""
    module, name = type.__getattribute__(cls, "__module__"), type.__getattribute__(cls, "__qualname__")
    return name if module in ("__main__", "builtins") else f"{module}.{name}"


def _subclasses(cls: type) -> Iterator[type]:
    subclasses: list[type] = type.__subclasses__(cls)
    for each in subclasses:
        yield each
        yield from _subclasses(each)

"""Picks one row out of a batch, wherever its nested containers hold rows.

Only exact known types and the stand-ins for user classes are opened, so no user code runs.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any, Final

from clew.records import NotKept, Object

MAPPINGS: Final = (dict, OrderedDict, defaultdict)
_ORDERED: Final = (list, tuple)
_DEEPEST: Final = 16  # levels of nesting; a list may contain itself
_NUMBERS: Final = (int, float, bool, complex, type(None))

Step = tuple[str, Any]  # "[" with a key or an index, "." with the name of an attribute


def library_of(value: Any) -> str:
    """The library of an array, tensor or table: "numpy", "torch" or "pandas"; "" for other types and user subclasses.

    For a value that was not kept in full, it is the library the value came from.
    """
    cls = type(value)
    if cls is NotKept:
        library = value.type.partition(".")[0]
        return library if value.summary.shape is not None and library in ("numpy", "torch", "pandas") else ""
    torch, numpy, pandas = (sys.modules.get(name) for name in ("torch", "numpy", "pandas"))
    if numpy is not None and (cls in (numpy.ndarray, numpy.memmap) or issubclass(cls, numpy.generic)):
        return "numpy" if cls.__module__ == "numpy" else ""
    if torch is not None and cls in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return "torch"
    if pandas is not None and cls in (pandas.DataFrame, pandas.Series):
        return "pandas"
    return ""


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, tensor or table; None for other types."""
    if type(value) is NotKept:
        return None if value.summary.shape is None else tuple(value.summary.shape)
    library = library_of(value)
    if library == "torch":
        with sys.modules["torch"]._C.DisableTorchFunction():
            return tuple(value.shape)
    return tuple(value.shape) if library else None


def unwrapped(value: Any) -> Any:
    """The content of a stand-in for a tensor or dict subclass or a `UserDict`; other values unchanged."""
    for _ in range(4):
        if type(value) is not Object:
            break
        if "value" in value.attributes:
            value = value.attributes["value"]
        elif list(value.attributes) == ["data"] and type(value.attributes["data"]) in MAPPINGS:
            value = value.attributes["data"]
        else:
            break
    return value


def contents_of(value: Any) -> Iterable[tuple[Step, Any]] | None:
    """The items of a container or stand-in object, each with its step; None for other values."""
    if type(value) in MAPPINGS:
        return ((("[", key), item) for key, item in value.items())
    if type(value) in _ORDERED:
        return ((("[", place), item) for place, item in enumerate(value))
    if type(value) is Object:
        return (((".", name), item) for name, item in value.attributes.items())
    return None


def is_by_row(value: Any, count: int) -> bool:
    """Whether this is an array, tensor or table with `count` rows, or a list with `count` entries."""
    shape = shape_of(value)
    if shape is not None:
        return len(shape) > 0 and shape[0] == count
    return type(value) is list and len(value) == count


def row_of(value: Any, row: int, count: int) -> Any:
    """The part of a value that belongs to one of `count` rows: the row within its containers, or the whole value."""
    return _RowPicker(row, count).pick(value, 0)


class _RowPicker:
    """Picks one row out of everything a value holds. Each container is picked once, however often it occurs: lists that
    hold another list twice, thirty levels deep, have a thousand million paths."""

    def __init__(self, row: int, count: int) -> None:
        self._row = row
        self._count = count
        self._picked: dict[tuple[int, int], Any] = {}  # by id and depth

    def pick(self, value: Any, depth: int) -> Any:
        if depth >= _DEEPEST:
            return value
        key = id(value), depth
        if key not in self._picked:
            self._picked[key] = self._pick_uncached(value, depth)
        return self._picked[key]

    def _pick_uncached(self, wrapped: Any, depth: int) -> Any:
        value = unwrapped(wrapped)
        if type(value) in MAPPINGS:
            return {key: self.pick(item, depth + 1) for key, item in value.items()}
        if type(value) is Object:
            return Object(value.type, {name: self.pick(item, depth + 1) for name, item in value.attributes.items()})
        if not is_sequence(value):
            return _row_of_array(wrapped, value, self._row, self._count)
        if holds_rows(value, self._count):
            return value[self._row]
        # the columns of a batch, as default_collate makes them
        return type(value)(self.pick(item, depth + 1) for item in value)


def is_sequence(value: Any) -> bool:
    return type(value) in _ORDERED


def holds_rows(value: Any, count: int) -> bool:
    """Whether a list or tuple holds the rows themselves rather than the columns of a batch.

    Three images of three channels could be either. Items that differ in form are columns. Otherwise the number of axes
    decides: images and vectors are rows, while columns of tokens or images are batches with one axis more.
    """
    if not is_sequence(value) or len(value) != count:
        return False
    if type(value) is tuple and all(type(item) in _NUMBERS or _has_length(item, count) for item in value):
        return False  # a size, a pair of losses, or columns made by `tuple(zip(*samples))`
    rowless: set[tuple[int, int]] = set()
    count_with_rows = sum(_has_rows(item, count, rowless) for item in value)
    if not count_with_rows:
        return True
    form_numbers: dict[Any, int] = {}
    if len({_form(item, form_numbers) for item in value}) > 1:
        return False
    shape = shape_of(unwrapped(value[0]))
    if count_with_rows < count or shape is None:
        return True
    return len(shape) in (1, 3) and (type(value) is list or count > 2)


def _has_length(value: Any, count: int) -> bool:
    return is_sequence(value) and len(value) == count


def _has_rows(value: Any, count: int, rowless: set[tuple[int, int]], depth: int = 0) -> bool:
    """Whether a value holds rows; `rowless` collects containers, by id and depth, that turned out to hold none."""
    value = unwrapped(value)
    if is_by_row(value, count):
        return True
    contents = contents_of(value) if depth < _DEEPEST and (id(value), depth) not in rowless else None
    has_rows = any(_has_rows(item, count, rowless, depth + 1) for _, item in contents or ())
    if contents is not None and not has_rows:
        rowless.add((id(value), depth))
    return has_rows


def _form(value: Any, numbers: dict[Any, int], depth: int = 0) -> Any:
    """What rows share and columns do not: types, keys and the number of axes.

    Forms of containers are numbered in `numbers`, so that shared containers are compared only once.
    """
    value = unwrapped(value)
    shape = shape_of(value)
    if shape is not None:
        return library_of(value), len(shape), _dtype(value)
    if depth >= _DEEPEST or not (type(value) in MAPPINGS or type(value) is Object):
        return type(value).__name__
    if (id(value), depth) not in numbers:
        contents = contents_of(value) or ()
        form = type(value).__name__, tuple((_name(step[1]), _form(item, numbers, depth + 1)) for step, item in contents)
        numbers[id(value), depth] = numbers.setdefault(form, len(numbers))
    return numbers[id(value), depth]


def _name(key: Any) -> str:
    from clew.text.brief import brief

    return key[:40] if type(key) is str else brief(key, 40)


def _dtype(value: Any) -> str:
    if type(value) is NotKept or library_of(value) == "pandas":
        return ""
    return str(value.dtype)


def _row_of_array(wrapped: Any, value: Any, row: int, count: int) -> Any:
    library = library_of(value)
    if not library or type(value) is NotKept or not is_by_row(value, count):
        return wrapped
    if library == "torch":
        torch: Any = sys.modules["torch"]
        with torch._C.DisableTorchFunction(), torch.no_grad():
            return value[row]
    return value.iloc[row] if library == "pandas" else value[row]

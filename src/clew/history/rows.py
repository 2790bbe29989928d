"""One row of a batch, wherever in nested containers the batch holds its rows.

Only exact known types are looked into, and what was read back in place of a user's class: no user code runs.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any, Final

from clew.records import NotKept, Object

MAPPINGS: Final = (dict, OrderedDict, defaultdict)
_ORDERED: Final = (list, tuple)
_DEEPEST: Final = 16  # containers inside containers; a list may hold itself
_NUMBERS: Final = (int, float, bool, complex, type(None))

Step = tuple[str, Any]  # "[" and a key or a place, "." and the name of an attribute


def library_of(value: Any) -> str:
    """Whose array, tensor or table it is: "numpy", "torch", "pandas"; "" of anything else, also of a user's subclass.

    Of a value that was not kept in full it is the library it came from.
    """
    kind = type(value)
    if kind is NotKept:
        home = value.type.partition(".")[0]
        return home if value.summary.shape is not None and home in ("numpy", "torch", "pandas") else ""
    torch, numpy, pandas = (sys.modules.get(name) for name in ("torch", "numpy", "pandas"))
    if numpy is not None and (kind in (numpy.ndarray, numpy.memmap) or issubclass(kind, numpy.generic)):
        return "numpy" if kind.__module__ == "numpy" else ""
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return "torch"
    if pandas is not None and kind in (pandas.DataFrame, pandas.Series):
        return "pandas"
    return ""


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, tensor or table; None of anything else."""
    if type(value) is NotKept:
        return None if value.summary.shape is None else tuple(value.summary.shape)
    library = library_of(value)
    if library == "torch":
        with sys.modules["torch"]._C.DisableTorchFunction():
            return tuple(value.shape)
    return tuple(value.shape) if library else None


def unwrapped(value: Any) -> Any:
    """What an instance of a subclass of tensors or dicts, or of a `UserDict`, holds; anything else as it is."""
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
    """What a container, or an object that was read back, holds, and where; None of anything else."""
    if type(value) in MAPPINGS:
        return ((("[", key), item) for key, item in value.items())
    if type(value) in _ORDERED:
        return ((("[", place), item) for place, item in enumerate(value))
    if type(value) is Object:
        return (((".", name), item) for name, item in value.attributes.items())
    return None


def is_by_row(value: Any, count: int) -> bool:
    """Whether this is an array, tensor or table with so many rows, or a list with so many entries."""
    shape = shape_of(value)
    if shape is not None:
        return len(shape) > 0 and shape[0] == count
    return type(value) is list and len(value) == count


def row_of(value: Any, row: int, count: int) -> Any:
    """What of a value belongs to one of `count` rows: the row itself, in the containers it lies in; or all of it."""
    return _Picking(row, count).of(value, 0)


class _Picking:
    """One row out of everything a value holds. What stands in several places is picked once, and stands in them again:
    a list that holds another one twice, thirty deep, has a thousand million paths."""

    def __init__(self, row: int, count: int) -> None:
        self._row = row
        self._count = count
        self._picked: dict[tuple[int, int], Any] = {}  # by id and depth

    def of(self, whole: Any, depth: int) -> Any:
        if depth >= _DEEPEST:
            return whole
        key = id(whole), depth
        if key not in self._picked:
            self._picked[key] = self._of_new(whole, depth)
        return self._picked[key]

    def _of_new(self, whole: Any, depth: int) -> Any:
        value = unwrapped(whole)
        if type(value) in MAPPINGS:
            return {key: self.of(item, depth + 1) for key, item in value.items()}
        if type(value) is Object:
            return Object(value.type, {name: self.of(item, depth + 1) for name, item in value.attributes.items()})
        if not is_sequence(value):
            return _row_of_array(whole, value, self._row, self._count)
        if holds_rows(value, self._count):
            return value[self._row]
        # default_collate makes columns of samples
        return type(value)(self.of(item, depth + 1) for item in value)


def is_sequence(value: Any) -> bool:
    return type(value) in _ORDERED


def holds_rows(value: Any, count: int) -> bool:
    """Whether a list or a tuple is the rows themselves, and not the columns of a batch.

    Three images of three channels could be either. What is not alike are columns; of what is alike, the number of axes
    tells: images and vectors come one by one, columns of tokens and of whole images come as batches.
    """
    if not is_sequence(value) or len(value) != count:
        return False
    if type(value) is tuple and all(type(item) in _NUMBERS or _has_length(item, count) for item in value):
        return False  # a size, a pair of losses; or columns, as `tuple(zip(*samples))` makes them
    known: set[tuple[int, int]] = set()
    having = sum(_has_rows(item, count, known) for item in value)
    if not having:
        return True
    looks: dict[Any, int] = {}
    if len({_look(item, looks) for item in value}) > 1:
        return False
    shape = shape_of(unwrapped(value[0]))
    if having < count or shape is None:
        return True
    return len(shape) in (1, 3) and (type(value) is list or count > 2)


def _has_length(value: Any, count: int) -> bool:
    return is_sequence(value) and len(value) == count


def _has_rows(value: Any, count: int, known: set[tuple[int, int]], depth: int = 0) -> bool:
    """`known` are containers, by id and depth, that were looked into and have none."""
    value = unwrapped(value)
    if is_by_row(value, count):
        return True
    inside = contents_of(value) if depth < _DEEPEST and (id(value), depth) not in known else None
    found = any(_has_rows(item, count, known, depth + 1) for _, item in inside or ())
    if inside is not None and not found:
        known.add((id(value), depth))
    return found


def _look(value: Any, known: dict[Any, int], depth: int = 0) -> Any:
    """What rows have in common, and columns have not: types, keys and the number of axes.

    Looks at containers are numbered in `known`: one that holds others twice is as quickly compared as any.
    """
    value = unwrapped(value)
    shape = shape_of(value)
    if shape is not None:
        return library_of(value), len(shape), _dtype(value)
    if depth >= _DEEPEST or not (type(value) in MAPPINGS or type(value) is Object):
        return type(value).__name__
    if (id(value), depth) not in known:
        inside = contents_of(value) or ()
        look = type(value).__name__, tuple((_name(step[1]), _look(item, known, depth + 1)) for step, item in inside)
        known[id(value), depth] = known.setdefault(look, len(known))
    return known[id(value), depth]


def _name(key: Any) -> str:
    from clew.show.text import brief

    return key[:40] if type(key) is str else brief(key, 40)


def _dtype(value: Any) -> str:
    if type(value) is NotKept or library_of(value) == "pandas":
        return ""
    return str(value.dtype)


def _row_of_array(whole: Any, value: Any, row: int, count: int) -> Any:
    library = library_of(value)
    if not library or type(value) is NotKept or not is_by_row(value, count):
        return whole
    if library == "torch":
        torch: Any = sys.modules["torch"]
        with torch._C.DisableTorchFunction(), torch.no_grad():
            return value[row]
    return value.iloc[row] if library == "pandas" else value[row]

"""Containers of the pipeline's own, and the recorded values in them: found, taken out, copied, compared."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

from .traced import Traced, raw

LISTS = (list, tuple, set, frozenset)
PLAIN = (*LISTS, dict, slice)
CHANGING = (list, dict, set)  # plain containers that can be changed
COLLECTIONS = (OrderedDict, defaultdict, deque, Counter)
ITERATORS = (
    GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    reversed,
    *map(type, (iter([]), iter(()), iter({}), iter(set()))),
)
_DEEP = 4  # how far objects are looked into


def within(value: Any) -> Iterator[Any]:
    """What a plain container holds."""
    kind = type(value)
    if kind in LISTS:
        yield from value
    elif kind is dict:
        yield from value
        yield from value.values()
    elif kind is slice:
        yield from (value.start, value.stop, value.step)
    elif kind in COLLECTIONS:
        if isinstance(value, dict):
            yield from dict.keys(value)
            yield from dict.values(value)
        else:
            yield from deque.__iter__(value)


def traced_in(value: Any) -> Iterator[Traced]:
    """The recorded values in a value: itself, or in plain containers of any depth."""
    if type(value) is Traced:
        yield value
    elif type(value) in PLAIN or type(value) in COLLECTIONS:
        for item in within(value):
            yield from traced_in(item)


def holds_traced(value: Any) -> bool:
    return any(True for _ in traced_in(value))


def hides(value: Any, depth: int = _DEEP) -> bool:
    """Whether an object, a function or an iterator of the pipeline's own holds recorded values out of sight."""
    kind = type(value)
    if kind is Traced:
        return True
    if depth == 0 or kind in (str, bytes, int, float, bool, type(None), type, ModuleType, BuiltinFunctionType):
        return False
    return any(hides(part, depth - 1) for part in _hidden_parts(value, kind))


def _hidden_parts(value: Any, kind: type) -> Iterator[Any]:
    if kind in PLAIN or kind in COLLECTIONS:
        yield from within(value)
    elif kind is FunctionType:
        yield from (cell.cell_contents for cell in value.__closure__ or () if is_filled(cell))
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
    elif kind is MethodType:
        yield value.__self__
    elif kind is partial:
        yield from (value.func, *value.args, *value.keywords.values())
    elif issubclass(kind, tuple):
        yield from tuple.__iter__(value)
    else:
        try:
            yield from object.__getattribute__(value, "__dict__").values()
        except (AttributeError, TypeError):
            return


def is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


Handed = list[tuple[Any, Any]]  # a container of the pipeline's own, and what was given instead of it


def handed(value: Any, pairs: Handed | None = None) -> Any:
    """The value without recorded ones in it. With `pairs`, all that could be changed is given as a copy."""
    kind = type(value)
    if kind is Traced:
        return raw(value)
    if kind not in PLAIN and kind not in COLLECTIONS:
        return value
    for own, given in pairs or ():
        if own is value:
            return given
    if kind not in CHANGING and not _is_concerned(value, pairs):
        return value
    if pairs is None and not holds_traced(value):
        return value
    given = _taken_out(value, kind, pairs)
    if pairs is not None and kind in CHANGING:
        pairs.append((value, given))
    return given


def _is_concerned(value: Any, pairs: Handed | None) -> bool:
    return holds_traced(value) or (pairs is not None and any(type(item) in PLAIN for item in within(value)))


def _taken_out(value: Any, kind: Any, pairs: Handed | None) -> Any:
    if kind is slice:
        return slice(*(handed(part, pairs) for part in within(value)))
    if isinstance(value, dict):
        items = [(handed(key, pairs), handed(item, pairs)) for key, item in value.items()]
        if isinstance(value, defaultdict):
            return defaultdict(value.default_factory, items)
        return Counter(dict(items)) if kind is Counter else kind(items)
    parts = [handed(item, pairs) for item in value]
    return deque(parts, value.maxlen) if kind is deque else kind(parts)


def copied(value: Any, copies: dict[int, Any] | None = None) -> Any:
    """A copy of plain containers, as deep as they are; what is in them is the same, and what is shared stays shared."""
    kind = type(value)
    if kind in COLLECTIONS:
        return _taken_out(value, kind, [])
    if kind not in LISTS and kind not in (dict, bytearray):
        return value
    copies = {} if copies is None else copies
    if id(value) not in copies:
        if kind is dict:
            copies[id(value)] = {key: copied(item, copies) for key, item in value.items()}
        elif kind is bytearray:
            copies[id(value)] = bytearray(value)
        else:
            copies[id(value)] = kind([copied(item, copies) for item in value])
    return copies[id(value)]


def alike(a: Any, b: Any) -> bool:
    """Whether two plain containers hold the same objects in the same places."""
    if a is b and type(a) not in PLAIN:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if type(a) is dict:
        return len(a) == len(b) and all(map(alike, a, b)) and all(map(alike, a.values(), b.values()))
    if type(a) in COLLECTIONS:
        return alike(list(within(a)), list(within(b)))
    if type(a) in (set, frozenset):
        return bool(a == b)
    return type(a) in (str, int, float, bytes) and repr(a) == repr(b)


def size(value: Any, most: int) -> int:
    """How many things a plain container holds, as far as that matters."""
    if type(value) not in LISTS and type(value) is not dict:
        return 1
    count = len(value)
    for item in within(value):
        if count > most:
            return count
        if type(item) in LISTS or type(item) is dict:
            count += size(item, most - count)
    return count


def shallow(value: Any) -> Any:
    """What a container holds now, in its order."""
    return list(value.items()) if isinstance(value, dict) else list(value)


def untouched(value: Any, was: list[Any]) -> bool:
    """Whether a container holds the very same things as before."""
    now = shallow(value)
    if len(now) != len(was):
        return False
    if isinstance(value, dict):
        return all(a[0] is b[0] and a[1] is b[1] for a, b in zip(now, was, strict=True))
    return all(a is b for a, b in zip(now, was, strict=True))


def found_in(parts: list[Any], value: Any, depth: int = _DEEP) -> list[Any]:
    """Those of some objects that a value is, or holds."""
    found = [part for part in parts if part is value]
    kind = type(value)
    if depth == 0 or not parts or kind in (str, bytes, int, float, bool, type(None), type, FunctionType):
        return found
    for item in _hidden_parts(value, kind):
        found += found_in(parts, item, depth - 1)
    return found

"""Containers of the pipeline's own, and the recorded values in them: found, taken out, copied, compared."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

from clew.graph.recording.traced_values import Traced, raw

LISTS = (list, tuple, set, frozenset)
PLAIN = (*LISTS, dict, slice)
CHANGING = (list, dict, set)  # plain containers that can be changed
COLLECTIONS = (OrderedDict, defaultdict, deque, Counter)
CONTAINERS = frozenset((*PLAIN, *COLLECTIONS))
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


def things_in(value: Any) -> Iterator[Any]:
    """A value, and all that is in plain containers of any depth; what a container holds is given once."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        thing = stack.pop()
        yield thing
        if type(thing) in CONTAINERS and id(thing) not in seen:
            seen.add(id(thing))
            stack.extend(reversed(list(within(thing))))


def traced_in(value: Any) -> Iterator[Traced]:
    """The recorded values in a value: itself, or in plain containers of any depth."""
    return (thing for thing in things_in(value) if type(thing) is Traced)


def holds_traced(value: Any) -> bool:
    return any(type(thing) is Traced for thing in things_in(value))


def hides(value: Any, depth: int = _DEEP) -> bool:
    """Whether an object, a function or an iterator of the pipeline's own holds recorded values out of sight."""
    return _hides(value, depth, {})


def _hides(value: Any, depth: int, seen: dict[int, int]) -> bool:
    kind = type(value)
    if kind is Traced:
        return True
    if depth == 0 or kind in (str, bytes, int, float, bool, type(None), type, ModuleType, BuiltinFunctionType):
        return False
    if seen.get(id(value), 0) >= depth:
        return False
    seen[id(value)] = depth
    return any(_hides(part, depth - 1, seen) for part in _hidden_parts(value, kind))


def _hidden_parts(value: Any, kind: type) -> Iterator[Any]:
    if kind in CONTAINERS:
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


def handed(value: Any) -> Any:
    """The value without recorded ones in it."""
    if type(value) is Traced:
        return raw(value)
    return StandIns(copies=False).of(value) if holds_traced(value) else value


Pairs = list[tuple[Any, Any]]  # containers of the pipeline's own, and what was given instead of them


class StandIns:
    """What is given instead of the pipeline's own containers: the same without recorded values.

    copies   all that could be changed is given as a copy, and stands in `pairs`
    """

    def __init__(self, *, copies: bool = True) -> None:
        self.pairs: Pairs = []
        self._copies = copies
        self._made: dict[int, tuple[Any, Any]] = {}  # by identity of the own one: what is shared stays shared

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind is Traced:
            return raw(value)
        if kind not in CONTAINERS:
            return value
        if id(value) not in self._made:
            self._make(value, kind)
        return self._made[id(value)][1]

    def _make(self, value: Any, kind: type) -> None:
        if not self._copies or kind not in CHANGING:
            parts = list(within(value))
            given = [self.of(part) for part in parts]
            is_same = all(part is one for part, one in zip(parts, given, strict=True))
            self._made[id(value)] = value, value if is_same else filled(value, given)
            return
        copy: Any = kind()
        self._made[id(value)] = value, copy  # before what it holds, which may be itself
        if kind is dict:
            copy.update((self.of(key), self.of(item)) for key, item in value.items())
        elif kind is set:
            copy.update(map(self.of, value))
        else:
            copy.extend(map(self.of, value))
        self.pairs.append((value, copy))


def filled(container: Any, parts: list[Any]) -> Any:
    """A container like this one, which holds these parts, in the order in which `within` gives them."""
    kind: Any = type(container)
    if kind is slice:
        return slice(*parts)
    if isinstance(container, dict):
        items = list(zip(parts[: len(container)], parts[len(container) :], strict=True))
        if isinstance(container, defaultdict):
            return defaultdict(container.default_factory, items)
        return Counter(dict(items)) if kind is Counter else kind(items)
    return deque(parts, container.maxlen) if kind is deque else kind(parts)


def copied(value: Any, copies: dict[int, Any] | None = None) -> Any:
    """A copy of plain containers, as deep as they are; what is in them is the same, and what is shared stays shared."""
    kind = type(value)
    if kind is bytearray:
        return bytearray(value)
    if kind not in CONTAINERS or kind is slice:
        return value
    copies = {} if copies is None else copies
    if id(value) not in copies:
        if kind is dict:
            copies[id(value)] = {key: copied(item, copies) for key, item in value.items()}
        elif kind in LISTS:
            copies[id(value)] = kind([copied(item, copies) for item in value])
        else:
            copies[id(value)] = filled(value, [copied(part, copies) for part in within(value)])
    return copies[id(value)]


def alike(a: Any, b: Any, met: set[tuple[int, int]] | None = None) -> bool:
    """Whether two plain containers hold the same objects in the same places."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) not in CONTAINERS or type(a) is slice:
        return type(a) in (str, int, float, bytes) and repr(a) == repr(b)
    if type(a) in (set, frozenset):
        return bool(a == b)
    met = set() if met is None else met  # each pair is looked at once, however often it stands there
    if (id(a), id(b)) in met:
        return True
    met.add((id(a), id(b)))
    inside, other = list(within(a)), list(within(b))
    return len(inside) == len(other) and all(alike(x, y, met) for x, y in zip(inside, other, strict=True))


def size(value: Any, most: int) -> int:
    """How many things a plain container holds, as far as that matters: each container that it holds counts once."""
    if type(value) not in LISTS and type(value) is not dict:
        return 1
    count = 0
    seen: set[int] = set()
    stack = [value]
    while stack and count <= most:
        thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        count += len(thing)
        stack.extend(item for item in within(thing) if type(item) in LISTS or type(item) is dict)
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


def found_in(parts: list[Any], value: Any) -> list[Any]:
    """Those of some objects that a value is, or holds."""
    found: list[Any] = []
    if parts:
        _find_in({id(part) for part in parts}, value, _DEEP, {}, found)
    return found


def _find_in(wanted: set[int], value: Any, depth: int, seen: dict[int, int], found: list[Any]) -> None:
    if id(value) in wanted:
        found.append(value)
    kind = type(value)
    if depth == 0 or kind in (str, bytes, int, float, bool, type(None), type, FunctionType):
        return
    if seen.get(id(value), 0) < depth:
        seen[id(value)] = depth
        for item in _hidden_parts(value, kind):
            _find_in(wanted, item, depth - 1, seen, found)

"""Which values of a pipeline's variables a loop's step can be given: not those that it would change unseen."""

from __future__ import annotations

import dis
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import BuiltinMethodType, CellType, CodeType, CoroutineType, FunctionType, MethodType, ModuleType
from typing import Any

from clew.graph.parts import CHANGING, COLLECTIONS, CONTAINERS, ITERATORS, hides, is_filled, things_in, within
from clew.graph.recording import lift, outside_changes
from clew.graph.recording.in_place_changes import can_change
from clew.graph.recording.session import Session
from clew.graph.recording.traced_values import is_traced
from clew.values import SCALARS

VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_PLAIN_RESULTS = (*CONTAINERS, *SCALARS, type(None))
_SETTING = ("STORE_DEREF", "DELETE_DEREF")


def can_be_changed(value: Any) -> bool:
    return any(type(thing) in (*CHANGING, *COLLECTIONS) for thing in things_in(value))


def is_flat(value: Any) -> bool:
    """Whether nothing in a container can be changed, recorded values aside: they see to it themselves."""
    if type(value) not in CONTAINERS:
        return True
    return not any(can_be_changed(item) or _is_object(item) for item in within(value))


def _is_object(value: Any) -> bool:
    return not is_traced(value) and not callable(value) and outside_changes.is_object(value)


def is_given_leaf(value: Any) -> bool:
    return is_given(value) and (type(value) not in CONTAINERS or is_flat(value))


def is_given(value: Any) -> bool:
    """Whether a step can be given the value of a variable: not if it holds recorded values out of sight."""
    kind = type(value)
    if is_traced(value):
        return True
    if kind in ITERATORS or kind in VIEWS or kind is CoroutineType or hasattr(kind, "__next__"):
        return False
    if kind in CONTAINERS:
        return all(_is_given_part(part) for part in all_within(value) if type(part) not in CONTAINERS)
    if issubclass(kind, (list, dict, set, deque)) and any(map(is_traced, _content(value))):
        return False
    if kind is FunctionType:
        return _only_looks(value, [])
    if isinstance(value, type):
        return not any(_is_rewritten(part) for part in vars(value).values())
    if isinstance(value, (MethodType, BuiltinMethodType)):  # `push = out.append`
        owner = value.__self__
        return isinstance(owner, ModuleType) or (is_given(owner) and not is_traced(owner) and not can_be_changed(owner))
    if kind is partial:
        return all(is_given(one) and not can_be_changed(one) for one in _parts_of(value)) and not hides(value)
    return not hides(value)


def _parts_of(value: partial[Any]) -> tuple[Any, ...]:
    return (value.func, *value.args, *value.keywords.values())


def all_within(value: Any) -> Iterator[Any]:
    return islice(things_in(value), 1, None)


def _content(value: Any) -> Iterator[Any]:
    """What an object of a class below list or dict holds, asked without its own methods."""
    kinds: tuple[Any, ...] = (dict, list, set, deque)
    for kind in kinds:
        if isinstance(value, kind):
            yield from kind.__iter__(value)
    if isinstance(value, dict):
        yield from dict.values(value)


def _is_given_part(value: Any) -> bool:
    return is_given(value) and not _is_object(value) and (type(value) is not FunctionType or not hides(value))


def _is_rewritten(part: Any) -> bool:
    part = getattr(part, "__func__", getattr(part, "fget", part))
    return isinstance(part, FunctionType) and lift.is_rewritten(part)


def _only_looks(function: FunctionType, outer: list[FunctionType]) -> bool:
    """Whether a function inside the pipeline only looks at what it sees, and sees nothing that would be copied."""
    if not lift.is_rewritten(function):
        return not hides(function)
    whole, cells = lift.original(function), function.__closure__ or ()
    if whole is function or function in outer or not all(map(is_filled, cells)) or _sets_outer_names(whole.__code__):
        return False
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if any(map(hides, defaults)):
        return False
    return all(_is_seen_safely(cell.cell_contents, [*outer, function]) for cell in cells)


def _is_seen_safely(value: Any, outer: list[FunctionType]) -> bool:
    if is_traced(value):
        return True
    if type(value) is FunctionType:
        return _only_looks(value, outer)
    if isinstance(value, type):
        return is_given(value)
    return type(value) not in ITERATORS and not can_be_changed(value) and not _is_object(value) and not hides(value)


def _sets_outer_names(code: CodeType) -> bool:
    sets = any(one.opname in _SETTING and one.argval in code.co_freevars for one in dis.get_instructions(code))
    return sets or any(_sets_outer_names(const) for const in code.co_consts if isinstance(const, CodeType))


# ---- objects of the pipeline's own ---------------------------------------------------------------------------------


def noted(session: Session, result: Any) -> Any:
    """What a call of the pipeline gave. An object that nobody else has was made by it."""
    if type(result) in _PLAIN_RESULTS or is_traced(result) or sys.getrefcount(result) > _FRESH:
        return result
    if can_change(result) and not isinstance(result, (FunctionType, ModuleType)):
        session.own_objects[id(result)] = result
    return result


# ---- other references ------------------------------------------------------------------------------------------------


def is_alone(session: Session, cell: CellType) -> bool:
    """Whether a container is known to its variable alone, and what is in it to itself."""
    references = sys.getrefcount(cell.cell_contents)
    if references > _IN_CELL + session.holds_constant(cell.cell_contents):
        return False
    return all(count <= _INSIDE for count in _references_inside(cell.cell_contents))


def _references_inside(value: Any) -> Iterator[int]:
    for item in list(within(value)):
        if not is_traced(item) and can_be_changed(item):
            yield sys.getrefcount(item)
            yield from _references_inside(item)


def _references(result: Any) -> int:
    return sys.getrefcount(result)


_FRESH = _references(object())
_cell = CellType([])
_IN_CELL = sys.getrefcount(_cell.cell_contents)
_INSIDE = next(_references_inside([[]]))

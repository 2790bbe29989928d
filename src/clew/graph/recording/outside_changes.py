"""What a pipeline changes outside itself while it is recorded: its graph will not, and the user is told."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from clew.graph.parts import CHANGING, COLLECTIONS, alike, copied, hides, size
from clew.instrument.engine import original_code
from clew.instrument.library_code import is_library

from .purity import changed_globals
from .traced_values import Traced, raw

_SCALARS = (int, float, str, bytes, bool, type(None), complex)
_LARGE = 10_000
_LOOKED_INTO = 1000  # of longer containers the objects in them are not looked into
_WRITTEN = (0, "")  # beside the names that are seen: those that operators write
_BY_PIPELINE = "the pipeline changed {} while it was recorded, and the graph will not"
_BY_OPERATOR = "an operator changes {}, and what the pipeline itself reads of it is a constant of the graph"
_here = threading.local()


def begin() -> None:
    """A recording begins, perhaps inside another."""
    _here.__dict__.setdefault("seen", []).append({})


def note(function: FunctionType, owner: Any = None) -> None:
    """A function of the pipeline: what it can reach besides its arguments, as it is now."""
    stack = _here.__dict__.get("seen")
    if not stack:
        return
    seen = stack[-1]
    for holder, name, value in _reached(function, owner):
        if type(value) in _SCALARS or (type(value) in CHANGING and size(value, _LARGE) <= _LARGE) or is_object(value):
            seen.setdefault((id(holder), name), (holder, value, _as_it_is(value)))


def note_operator(target: Any) -> None:
    """An operator is called: the names of its module that it changes, each time."""
    stack, function = _here.__dict__.get("seen"), getattr(target, "__func__", target)
    if stack and isinstance(function, FunctionType):
        scope = function.__globals__
        changed = {(id(scope), name) for name in changed_globals(function) if not is_object(scope.get(name))}
        stack[-1][_WRITTEN] = stack[-1].get(_WRITTEN, set()) | changed


def settle(is_owner: Callable[[Any], bool]) -> list[str]:
    """What has changed since, or is changed by operators, in words; recorded values left in it are made plain."""
    seen = _here.__dict__["seen"].pop()
    written = seen.pop(_WRITTEN, set())
    changed = {name: _BY_OPERATOR for scope, name in seen if (scope, name) in written}
    for (_, name), (holder, value, was) in seen.items():
        now = _now(holder, name, value)
        said = f"{holder.__name__}.{name}" if isinstance(holder, type) else name
        if said not in changed and not is_owner(value) and (now is not value or not alike(_as_it_is(value), was)):
            changed[said] = _BY_PIPELINE
        if type(now) is Traced:
            _put_back(holder, name, raw(now))
        elif hides(now, 3):
            _cleaned(now, 3)
    return [words.format(name) for name, words in changed.items()]


def _now(holder: Any, name: str, value: Any) -> Any:
    if isinstance(holder, type):
        return vars(holder).get(name, value)
    return holder.get(name, value) if isinstance(holder, dict) else value


def _put_back(holder: Any, name: str, value: Any) -> None:
    if isinstance(holder, type):
        type.__setattr__(holder, name, value)
    elif isinstance(holder, dict):
        holder[name] = value


def _reached(function: FunctionType, owner: Any) -> Iterator[tuple[Any, str, Any]]:
    scope = function.__globals__
    for name in original_code(function).co_names:
        if name in scope:
            yield scope, name, scope[name]
            yield from _attributes(scope[name], original_code(function).co_names)
    for cell, name in zip(function.__closure__ or (), original_code(function).co_freevars, strict=True):
        try:
            yield cell, name, cell.cell_contents
        except ValueError:
            continue
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield function, "a default argument", default
    if owner is not None:
        yield owner, "self", owner


def _attributes(value: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, str, Any]]:
    """Those of a module or a class of the user's own that a function may name."""
    if isinstance(value, ModuleType) and not is_library(str(getattr(value, "__file__", None) or os.__file__)):
        yield from ((vars(value), name, vars(value)[name]) for name in names if name in vars(value))
    elif isinstance(value, type) and is_users(value):
        yield from ((value, name, vars(value)[name]) for name in names if name in vars(value))


def is_users(kind: type) -> bool:
    """Whether a class is of the user's own code."""
    return not is_library(_file_of(kind))


def is_object(value: Any) -> bool:
    """An object of a class of the user's own."""
    kind = type(value)
    if kind is Traced or isinstance(value, (type, ModuleType, FunctionType)) or not is_users(kind):
        return False
    if any("__clew_op__" in vars(base) for base in type.mro(kind)):  # what an operator does to its object is its own
        return False
    return hasattr(value, "__dict__")


def _as_it_is(value: Any, depth: int = 5, known: dict[int, Any] | None = None) -> Any:
    """What an object, or a container, holds now; each object in it once."""
    known = {} if known is None else known
    is_container = type(value) in (list, tuple, dict) and len(value) <= _LOOKED_INTO
    if depth == 0 or id(value) in known or len(known) > _LARGE or not (is_container or is_object(value)):
        return copied(value)
    known[id(value)] = value
    held = value if is_container else object.__getattribute__(value, "__dict__")
    parts = held.items() if isinstance(held, dict) else enumerate(held)
    return {key: _as_it_is(part, depth - 1, known) for key, part in parts}


def _file_of(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    return str(getattr(module, "__file__", None) or (os.__file__ if kind.__module__ == "builtins" else ""))


def _cleaned(value: Any, depth: int) -> None:
    """The container, with the values themselves in place of recorded ones."""
    if depth == 0:
        return
    if isinstance(value, list):
        value[:] = [raw(item) for item in list.__iter__(value)]
    elif isinstance(value, dict):
        items = [(raw(key), raw(item)) for key, item in dict.items(value)]
        dict.clear(value)
        dict.update(value, items)
    elif type(value) in (set, COLLECTIONS[2]):
        items = [raw(item) for item in value]
        value.clear()
        value.extend(items) if hasattr(value, "extend") else value.update(items)
    elif is_object(value):
        _cleaned(object.__getattribute__(value, "__dict__"), depth)
        return
    else:
        return
    for item in value.values() if isinstance(value, dict) else value:
        _cleaned(item, depth - 1)

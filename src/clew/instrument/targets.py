"""From what a user decorates to the functions whose code is exchanged."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from clew.errors import TargetError

from . import source


def functions_of(target: Any) -> list[FunctionType]:
    """The Python functions behind a function, method, property, partial or other wrapper."""
    found = list(_unwrap(target, 0))
    if not found:
        raise TargetError(
            "not-watchable",
            f"clew.watch() cannot watch {describe(target)}: there is no Python code in it.",
            "Put it on a Python function, method or class.",
        )
    return found


def python_functions(target: Any) -> list[FunctionType]:
    """The same; none if there is no Python code in it."""
    return list(_unwrap(target, 0))


def functions_of_class(cls: type) -> list[FunctionType]:
    """The functions a class defines itself, inherited ones aside."""
    found: list[FunctionType] = []
    for value in list(vars(cls).values()):
        for function in _unwrap(value, 0):
            own = function.__module__ == cls.__module__ and source.is_written(function.__code__)
            if own and function not in found:
                found.append(function)
    return found


def _unwrap(target: Any, depth: int) -> Iterator[FunctionType]:
    if depth > 50:  # wrappers that wrap each other
        return
    if isinstance(target, FunctionType):
        inner = inspect.unwrap(target)
        if isinstance(inner, FunctionType):
            yield inner
        else:
            yield from _unwrap(inner, depth + 1)
    elif isinstance(target, staticmethod | classmethod | MethodType):
        yield from _unwrap(target.__func__, depth + 1)
    elif isinstance(target, property):
        for part in (target.fget, target.fset, target.fdel):
            if part is not None:
                yield from _unwrap(part, depth + 1)
    elif isinstance(target, functools.partial | functools.partialmethod | functools.cached_property):
        yield from _unwrap(target.func, depth + 1)
    elif not isinstance(target, type) and "__wrapped__" in getattr(target, "__dict__", {}):
        yield from _unwrap(target.__wrapped__, depth + 1)


def describe(target: Any) -> str:
    """What somebody tried to watch or follow, in words."""
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    kind = type(target).__name__
    return f"the {kind} {name}" if isinstance(name, str) else f"a {kind}"

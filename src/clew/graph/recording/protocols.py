"""What Python calls by itself: `__add__`, `__bool__`, properties of the user's classes.

No call in the pipeline says so: the code of these functions is exchanged for seen-through code while anybody records.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from clew.instrument.library_code import is_library

from . import lift
from .outside_changes import is_users
from .traced_values import Traced

#: of classes, not of objects; or called when nobody knows
_LEFT_ALONE = {"__init_subclass__", "__set_name__", "__class_getitem__", "__prepare__", "__del__"}
_lock = threading.Lock()
_known: dict[int, type] = {id(Traced): Traced}  # classes that were looked at since the first of the open recordings
_exchanged: list[tuple[FunctionType, CodeType]] = []


def see_through(cls: type, hooks: Any) -> None:
    """The pipeline has to do with objects of a class."""
    if id(cls) in _known:
        return
    with _lock:
        for base in type.mro(cls):
            if id(base) not in _known:
                _known[id(base)] = base
                _exchange(base, hooks)


def put_back(is_over: Callable[[], bool]) -> None:
    """A recording has ended: if it was the last, every class is as it was."""
    with _lock:
        if not is_over():
            return
        while _exchanged:
            function, code = _exchanged.pop()
            function.__code__ = code
        _known.clear()
        _known[id(Traced)] = Traced


def _exchange(cls: type, hooks: Any) -> None:
    if not is_users(cls):
        return
    for function in _protocol(cls):
        if "__clew_op__" in vars(function) or lift.is_rewritten(function) or is_library(function.__code__.co_filename):
            continue
        through = lift.seen_through(function, hooks)
        if through is not None:
            _exchanged.append((function, function.__code__))
            function.__code__ = through.__code__


def _protocol(cls: type) -> Iterator[FunctionType]:
    """The functions of a class that are called without a call."""
    for name, part in list(vars(cls).items()):
        found: tuple[Any, ...] = ()
        if isinstance(part, property):
            found = (part.fget, part.fset, part.fdel)
        elif isinstance(part, cached_property):
            found = (part.func,)
        elif name.startswith("__") and name.endswith("__") and name not in _LEFT_ALONE:
            found = (getattr(part, "__func__", part),)
        elif _is_descriptor(part):
            found = tuple(vars(type(part)).get(name) for name in ("__get__", "__set__", "__delete__"))
        yield from (function for function in found if type(function) is FunctionType)


def _is_descriptor(part: Any) -> bool:
    return hasattr(type(part), "__get__") and is_users(type(part))

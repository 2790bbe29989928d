"""A function called under the debugger, which stops at its first line."""

from __future__ import annotations

import bdb
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any


class _Pdb:
    """Begins to trace, so that the next function stops at its first line: `pdb.runcall`, in two halves.

    In halves, because a coroutine or a generator runs later than it is called.
    """

    def __init__(self, kind: type[bdb.Bdb]) -> None:
        # clew's own functions begin before the first line of a function that is watched
        self._pdb = kind(skip=["clew", "clew.*"])
        self._before: Any = None

    def __call__(self) -> None:
        self._before = sys.gettrace()
        self._pdb.reset()
        sys.settrace(self._pdb.trace_dispatch)

    def end(self) -> None:
        self._pdb.quitting = True
        sys.settrace(self._before)


def _debugger() -> Any:
    """What `breakpoint()` would open, and None where the user has switched it off.

    Of pdb and its kin the debugger itself is taken, which can stop at the function's first line. Of others only the
    hook is known: it opens right before the call, and one step goes into the function.
    """
    hook: Any = sys.breakpointhook
    home: Any = sys.modules.get(getattr(hook, "__module__", None) or "")
    if hook is sys.__breakpointhook__:
        wanted = os.environ.get("PYTHONBREAKPOINT") or "pdb.set_trace"
        if wanted == "0":
            return None
        name, _, attribute = wanted.rpartition(".")
        home = importlib.import_module(name or "builtins")
        hook = getattr(home, attribute)
    kind = getattr(home, "Pdb", None)
    return _Pdb(kind) if isinstance(kind, type) and issubclass(kind, bdb.Bdb) else hook


def call_in_debugger(function: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
    start = _debugger()
    if start is None:
        return function(*args, **kwargs)
    end = start.end if isinstance(start, _Pdb) else _nothing
    if inspect.iscoroutinefunction(function):
        return _debugged_coroutine(start, end, function(*args, **kwargs))
    if inspect.isgeneratorfunction(function):
        return _debugged_generator(start, end, function(*args, **kwargs))
    if inspect.isasyncgenfunction(function):
        return _debugged_async_generator(start, end, function(*args, **kwargs))
    try:
        start()
        return function(*args, **kwargs)  # a debugger that stands here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


def _nothing() -> None:
    pass


async def _debugged_coroutine(start: Callable[[], object], end: Callable[[], None], coroutine: Any) -> Any:
    try:
        start()
        return await coroutine  # a debugger that stands here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


def _debugged_generator(start: Callable[[], object], end: Callable[[], None], generator: Any) -> Any:
    try:
        start()
        return (yield from generator)  # a debugger that stands here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


async def _debugged_async_generator(start: Callable[[], object], end: Callable[[], None], generator: Any) -> Any:
    try:
        start()
        async for item in generator:  # a debugger that stands here: step into the function
            yield item
    except bdb.BdbQuit:
        return
    finally:
        end()

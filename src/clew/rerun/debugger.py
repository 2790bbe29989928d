"""Calls a function under the debugger, which stops at its first line."""

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
    """Begins to trace, so that the next function stops at its first line; `end` restores the trace function.

    `pdb.runcall` does the same in one step, but a coroutine or a generator runs later than it is called.
    """

    def __init__(self, debugger: type[bdb.Bdb]) -> None:
        # in a watched function, clew's own functions run before the first line
        self._pdb = debugger(skip=["clew", "clew.*"])
        self._previous_trace: Any = None

    def __call__(self) -> None:
        self._previous_trace = sys.gettrace()
        self._pdb.reset()
        sys.settrace(self._pdb.trace_dispatch)

    def end(self) -> None:
        self._pdb.quitting = True
        sys.settrace(self._previous_trace)


def _find_debugger() -> Any:
    """The debugger that `breakpoint()` would open; None if the user has switched it off.

    pdb and debuggers like it are started directly, and can stop at the function's first line. Others only have a
    hook: it opens right before the call, and one step leads into the function.
    """
    hook: Any = sys.breakpointhook
    module: Any = sys.modules.get(getattr(hook, "__module__", None) or "")
    if hook is sys.__breakpointhook__:
        setting = os.environ.get("PYTHONBREAKPOINT") or "pdb.set_trace"
        if setting == "0":
            return None
        name, _, attribute = setting.rpartition(".")
        module = importlib.import_module(name or "builtins")
        hook = getattr(module, attribute)
    debugger = getattr(module, "Pdb", None)
    return _Pdb(debugger) if isinstance(debugger, type) and issubclass(debugger, bdb.Bdb) else hook


def call_in_debugger(function: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
    start = _find_debugger()
    if start is None:
        return function(*args, **kwargs)
    end = start.end if isinstance(start, _Pdb) else _do_nothing
    if inspect.iscoroutinefunction(function):
        return _debugged_coroutine(start, end, function(*args, **kwargs))
    if inspect.isgeneratorfunction(function):
        return _debugged_generator(start, end, function(*args, **kwargs))
    if inspect.isasyncgenfunction(function):
        return _debugged_async_generator(start, end, function(*args, **kwargs))
    try:
        start()
        return function(*args, **kwargs)  # if the debugger stops here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


def _do_nothing() -> None:
    pass


async def _debugged_coroutine(start: Callable[[], object], end: Callable[[], None], coroutine: Any) -> Any:
    try:
        start()
        return await coroutine  # if the debugger stops here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


def _debugged_generator(start: Callable[[], object], end: Callable[[], None], generator: Any) -> Any:
    try:
        start()
        return (yield from generator)  # if the debugger stops here: step into the function
    except bdb.BdbQuit:
        return None
    finally:
        end()


async def _debugged_async_generator(start: Callable[[], object], end: Callable[[], None], generator: Any) -> Any:
    try:
        start()
        async for item in generator:  # if the debugger stops here: step into the function
            yield item
    except bdb.BdbQuit:
        return
    finally:
        end()

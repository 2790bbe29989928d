"""Keeps `torch.compile` away from instrumented code, which it could not read: a watched function runs as it stands.

What the function calls is compiled as before. Told to torch only once its compiler is loaded.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from clew import trouble
from clew.instrument import pickling

_COMPILER = "torch._dynamo.eval_frame"
_RULES = "torch._dynamo.trace_rules"
_MARK = "_torchdynamo_disable"  # what torch looks for when another compiled function calls this one

_codes: weakref.WeakSet[Any] = weakref.WeakSet()
_functions: weakref.WeakSet[FunctionType] = weakref.WeakSet()
_listeners: list[Callable[[], None]] = []
_waiting = False


def exempt(code: CodeType, function: FunctionType | None = None) -> None:
    """Leave this code out of compilation, now or when there is a compiler."""
    _codes.add(code)
    if function is not None:
        _functions.add(function)
    if not wait() and (compiler := sys.modules.get(_COMPILER)) is not None:
        _tell(compiler)


def wait() -> bool:
    """Wait for a compiler to be loaded; False if that was begun before."""
    global _waiting
    if _waiting:
        return False
    import wrapt

    _waiting = True
    wrapt.register_post_import_hook(_tell, _COMPILER)  # at once, if it is loaded already
    wrapt.register_post_import_hook(_leave_clew_alone, _RULES)
    return True


def is_loaded() -> bool:
    return _COMPILER in sys.modules


def on_load(tell: Callable[[], None]) -> Callable[[], None]:
    """Call a function when a compiler is loaded while clew waits for it."""
    _listeners.append(tell)
    return tell


def readmit(function: FunctionType) -> None:
    """A function runs as it was written again, and may be compiled again."""
    _functions.discard(function)
    function.__dict__.pop(_MARK, None)


def _tell(compiler: Any) -> None:
    try:
        for code in list(_codes):
            compiler.skip_code(code)
            _codes.discard(code)
        for function in list(_functions):
            _mark(function)
        for tell in _listeners:
            tell()
    except Exception as error:  # another version of torch
        trouble.report(
            "torch-compile",
            "torch.compile could not be told to leave watched functions alone",
            "If compiling fails, watch a function that is not compiled.",
            error,
        )


def _mark(function: FunctionType) -> None:
    function.__dict__[_MARK] = True
    pickling.remember_mark(function)


def _leave_clew_alone(rules: Any) -> None:
    """What watched functions call is compiled, but not clew."""
    try:
        rules.add("clew")
    except Exception as error:
        trouble.report("torch-compile-rules", "torch.compile could not be told to leave clew alone", "", error)


def switch(on: bool) -> None:
    """While watching is off, functions are compiled like any other."""
    if sys.modules.get(_COMPILER) is not None:
        for function in list(_functions):
            if on:
                _mark(function)
            else:
                function.__dict__.pop(_MARK, None)

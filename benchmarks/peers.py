"""Other ways to see variables change, each as a decorator of a function: the tools, and the methods behind them."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
import textwrap
from collections.abc import Callable
from types import FrameType
from typing import Any

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]


def smallest_settrace(function: Function) -> Function:
    """A trace function that does nothing: what `sys.settrace` costs before anything is looked at."""

    def each(frame: FrameType, event: str, argument: Any) -> Any:
        return each

    return _under_settrace(function, each)


def ztrace_method(*names: str) -> Decorator:
    """ztrace's method, as its README tells it: after each line, `repr(last_var) == repr(cur_var)` of each variable.

    A variable may be `arr[1]` or `obj["a"]`, so each is evaluated; it may be mutable, so a copy is kept.
    """

    def decorator(function: Function) -> Function:
        code = function.__code__
        last: dict[str, Any] = {}
        expressions = {name: compile(name, "<watched>", "eval") for name in names}
        found: dict[str, list[Any]] = {name: [] for name in names}

        def each(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code is not code:
                return None
            for name, expression in expressions.items():
                try:
                    value = eval(expression, frame.f_globals, frame.f_locals)
                except Exception:  # not there yet
                    continue
                if name not in last or repr(last[name]) != repr(value):
                    last[name] = copy.deepcopy(value)
                    found[name].append(last[name])
            return each

        return _under_settrace(function, each)

    return decorator


def _under_settrace(function: Function, each: Any) -> Function:
    @functools.wraps(function)
    def traced(*args: Any) -> Any:
        before = sys.gettrace()
        sys.settrace(each)
        try:
            return function(*args)
        finally:
            sys.settrace(before)

    return traced


def pysnooper(*names: str) -> Decorator:
    """PySnooper, its output thrown away as it comes. (It has no way to look at some variables only.)"""
    import pysnooper as tool

    decorator: Decorator = tool.snoop(output=lambda text: None, color=False)
    return decorator


def snoop(*names: str) -> Decorator:
    """snoop, its output thrown away as it comes."""
    from snoop.configuration import Config

    decorator: Decorator = Config(out=lambda text: None, color=False).snoop
    return decorator


def viztracer(*names: str) -> Decorator:
    """VizTracer's own logging of variables (`--log_var`), alone: its tracing of calls is switched off."""
    from viztracer import VizTracer
    from viztracer.code_monkey import CodeMonkey

    tracer = VizTracer(verbose=0, max_stack_depth=0, ignore_c_function=True, tracer_entries=200_000)

    def decorator(function: Function) -> Function:
        monkey = CodeMonkey("loop.py")
        monkey.add_instrument("log_var", {"varnames": list(names)})  # type: ignore[dict-item]
        scope: dict[str, Any] = {}
        exec(monkey.compile(textwrap.dedent(inspect.getsource(function)), "loop.py", "exec"), scope)
        instrumented = scope[function.__name__]

        def traced(*args: Any) -> Any:
            tracer.clear()
            tracer.start()
            try:
                return instrumented(*args)
            finally:
                tracer.stop()

        return traced

    return decorator


def quiet() -> None:
    """Let nothing a tool prints reach the terminal."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for the life of the process

"""A function's code exchanged for a trampoline, so that every reference to the function leads to us, and back again.

Nothing is put around a function: while no trace is open it is exactly what it was, at no cost, and pickles by its name.
"""

from __future__ import annotations

import ast
import inspect
import threading
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any, Protocol

from clew.instrument import parsing, pickling
from clew.instrument.silent_compilation import no_warnings
from clew.recorder.fingerprints import original_code_finders

from .call_guard import call_once, leave_no_frames


class Passing(Protocol):
    """Who is told of calls."""

    @property
    def rank(self) -> int:
        """Of several that want a call, the one of the highest rank gets it; among those, the one that came last."""

    def wants(self, args: tuple[Any, ...]) -> bool:
        """Whether a call with these arguments is meant."""

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call."""


_MARK, _LEAVE = "clew:passing", "clew:leaving"
_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_BODIES = {
    inspect.CO_GENERATOR: """
    def trampoline(*args, **kwargs):
        try:
            return (yield from {mark}(args, kwargs))
        except BaseException:
            {leave}()
            raise""",
    inspect.CO_COROUTINE: """
    async def trampoline(*args, **kwargs):
        try:
            return await {mark}(args, kwargs)
        except BaseException:
            {leave}()
            raise""",
    inspect.CO_ASYNC_GENERATOR: """
    async def trampoline(*args, **kwargs):
        try:
            async for item in {mark}(args, kwargs):
                yield item
        except BaseException:
            {leave}()
            raise""",
}
_PLAIN = """
    def trampoline(*args, **kwargs):
        try:
            return {mark}(args, kwargs)
        except BaseException:
            {leave}()
            raise"""


@cache
def _template(flags: int, free: int) -> CodeType:
    """A trampoline for functions of this kind, with so many variables of functions around it."""
    body = next((text for flag, text in _BODIES.items() if flags & flag), _PLAIN).format(
        mark=repr(_MARK), leave=repr(_LEAVE)
    )
    names = ", ".join(f"free_{number}" for number in range(free))
    # Named in code that never runs, the variables are the trampoline's too: its frame must hold what it says it holds.
    text = f"def around({names}):\n{body}\n" + (f"        if 0: {names}\n" if free else "")
    tree = parsing.parse(text)
    for node in ast.walk(tree):  # in a traceback all of it stands at the line of the function
        if hasattr(node, "lineno"):
            ast.copy_location(node, ast.Constant(0, lineno=1, end_lineno=1, col_offset=0, end_col_offset=0))
    with no_warnings():  # "'str' object is not callable": it is exchanged for one that is
        module = compile(tree, "<clew>", "exec")
    around = next(const for const in module.co_consts if isinstance(const, CodeType))
    return next(const for const in around.co_consts if isinstance(const, CodeType))


def trampoline(original: CodeType, passing: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> CodeType:
    """Code that stands where `original` stood, and hands its arguments to `passing`."""
    code = _template(original.co_flags & _FLAGS, len(original.co_freevars))
    ours = {_MARK: passing, _LEAVE: leave_no_frames}
    return code.replace(
        co_consts=tuple(ours.get(const, const) if type(const) is str else const for const in code.co_consts),
        co_freevars=original.co_freevars,
        co_filename=original.co_filename,
        co_firstlineno=original.co_firstlineno,
        co_name=original.co_name,
        co_qualname=original.co_qualname,
        co_flags=code.co_flags | (original.co_flags & inspect.CO_NESTED),
    )


def twin_of(function: FunctionType) -> FunctionType:
    """The same function under another identity: what the trampoline leads to."""
    twin = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__ = function.__qualname__
    twin.__dict__.update(function.__dict__)
    return twin


class Swap:
    """One function whose code is exchanged while anybody wants that."""

    _all: dict[FunctionType, Swap] = {}  # noqa: RUF012  (functions hash by identity)
    _lock = threading.RLock()

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.before = function.__code__
        self.users: list[Passing] = []
        self.twin = twin_of(function)
        self.code = trampoline(self.before, self._arrive)

    def _arrive(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call_once(self._pass, self.twin, args, kwargs)

    def _pass(self, twin: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for user in self.users:
            if user.wants(args):
                return user(twin, args, kwargs)
        return twin(*args, **kwargs)

    @classmethod
    def add(cls, function: FunctionType, passing: Passing) -> None:
        with cls._lock:
            swap = cls._all.get(function)
            if swap is None:
                swap = cls._all[function] = cls(function)
                pickling.remember(swap.code, swap.before)
                function.__code__ = swap.code
            swap.users.insert(sum(user.rank > passing.rank for user in swap.users), passing)

    @classmethod
    def remove(cls, function: FunctionType, passing: Passing) -> None:
        with cls._lock:
            swap = cls._all.get(function)
            if swap is None or passing not in swap.users:
                return
            swap.users.remove(passing)
            if not swap.users:
                del cls._all[function]
                if function.__code__ is swap.code:  # else somebody has exchanged it since, and knows why
                    function.__code__ = swap.before


def _code_before(function: FunctionType) -> CodeType | None:
    swap = Swap._all.get(function)
    return None if swap is None else swap.before


original_code_finders.append(_code_before)

"""The exchange of a function's code: every kind of function, and back again."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
from types import FunctionType
from typing import Any

import pytest

from clew.instrument.code_swap import Swap, trampoline


class Counting:
    """Counts the calls it wants, and makes them."""

    rank = 0

    def __init__(self, wanted: object = None) -> None:
        self.wanted = wanted
        self.calls: list[tuple[Any, ...]] = []

    def wants(self, args: tuple[Any, ...]) -> bool:
        return self.wanted is None or (len(args) > 0 and args[0] is self.wanted)

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.calls.append((args, kwargs))
        return twin(*args, **kwargs)


def kinds() -> dict[str, Any]:
    outer, other = 10, 20

    def plain(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> int:
        return a + b + sum(rest) + c + outer

    def generator(n: int) -> Any:
        yield n + outer
        return other

    async def coroutine(n: int) -> int:
        return n + other

    async def async_generator(n: int) -> Any:
        yield n + outer + other

    return {f.__name__: f for f in (plain, generator, coroutine, async_generator)}


@pytest.mark.parametrize("name", ["plain", "generator", "coroutine", "async_generator"])
def test_a_function_stays_of_its_kind_and_gets_its_own_code_back(name: str) -> None:
    function, counting = kinds()[name], Counting()
    code, flags = function.__code__, function.__code__.co_flags
    Swap.add(function, counting)
    swapped = function.__code__
    Swap.remove(function, counting)
    assert function.__code__ is code
    for kind in (inspect.CO_GENERATOR, inspect.CO_COROUTINE, inspect.CO_ASYNC_GENERATOR):
        assert swapped.co_flags & kind == flags & kind
    assert (swapped.co_name, swapped.co_filename, swapped.co_freevars) == (
        code.co_name,
        code.co_filename,
        code.co_freevars,
    )


def test_each_kind_gives_what_it_gives() -> None:
    functions, counting = kinds(), Counting()
    for function in functions.values():
        Swap.add(function, counting)
    try:
        assert functions["plain"](1, 2, 4, c=5, d=6) == 22
        generator = functions["generator"](1)
        assert (next(generator), next(generator, "end")) == (11, "end")
        assert asyncio.run(functions["coroutine"](1)) == 21

        async def collected() -> list[int]:
            return [item async for item in functions["async_generator"](1)]

        assert asyncio.run(collected()) == [31]
    finally:
        for function in functions.values():
            Swap.remove(function, counting)
    assert len(counting.calls) == 4


def test_only_those_who_want_a_call_are_told_of_it() -> None:
    class A:
        def f(self) -> int:
            return 1

    one, other = A(), A()
    first, second = Counting(one), Counting(other)
    for counting in (first, second):
        Swap.add(A.f, counting)  # type: ignore[arg-type]
    one.f()
    other.f()
    A().f()
    for counting in (first, second):
        Swap.remove(A.f, counting)  # type: ignore[arg-type]
    assert (len(first.calls), len(second.calls)) == (1, 1)


def test_the_frame_of_a_trampoline_can_be_looked_at() -> None:
    """A frame says which variables of outer functions it has; a debugger reads them."""
    seen: list[dict[str, Any]] = []
    plain = kinds()["plain"]

    def passing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        seen.append(dict(sys._getframe(1).f_locals))
        return 0

    before = plain.__code__
    plain.__code__ = trampoline(before, passing)
    plain(1)
    plain.__code__ = before
    assert seen[0]["outer"] == 10


def test_a_traceback_through_a_trampoline_is_the_one_there_is_without_it() -> None:
    def fails() -> None:
        raise ValueError("here")

    counting = Counting()
    Swap.add(fails, counting)  # type: ignore[arg-type]
    try:
        with pytest.raises(ValueError, match="here") as caught:
            fails()
    finally:
        Swap.remove(fails, counting)  # type: ignore[arg-type]
    own, *counted, frame = traceback.extract_tb(caught.value.__traceback__)
    assert (own.name, frame.name, frame.lineno) == (
        "test_a_traceback_through_a_trampoline_is_the_one_there_is_without_it",
        "fails",
        fails.__code__.co_firstlineno + 1,
    )
    assert {frame.filename for frame in counted} == {__file__}  # the test's, and none of clew's


def test_code_that_somebody_else_has_exchanged_since_is_left_alone() -> None:
    def f() -> int:
        return 1

    def g() -> int:
        return 2

    counting = Counting()
    Swap.add(f, counting)  # type: ignore[arg-type]
    f.__code__ = g.__code__
    Swap.remove(f, counting)  # type: ignore[arg-type]
    assert f() == 2

"""House rule 1: the program does not notice."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import weakref
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any

import pytest

import clew

from .checking import load


def test_an_uncaught_error_prints_the_same_traceback(tmp_path: Path) -> None:
    source = (
        "import clew, sys\n"
        "def inner(x):\n    y = x\n    return (y +\n            1 / 0)\n"
        "def f(x):\n    try:\n        inner(x)\n    except ZeroDivisionError as e:\n        raise ValueError('no') from e\n"
        "if len(sys.argv) > 1:\n    clew.watch('*')(inner); clew.watch('*')(f)\n"
        "f(3)\n"
    )
    (tmp_path / "script.py").write_text(source)
    plain, watched = (
        subprocess.run([sys.executable, "script.py", *more], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        for more in ([], ["watch"])
    )
    assert plain.stderr == watched.stderr
    assert plain.returncode == watched.returncode == 1


def test_a_generator_takes_send_throw_close_and_gives_its_return_value() -> None:
    @clew.watch("*")
    def g() -> Any:
        got = yield 1
        try:
            got = yield got * 2
        except KeyError:
            got = yield "thrown"
        return got

    running = g()
    assert next(running) == 1
    assert running.send(5) == 10
    assert running.throw(KeyError) == "thrown"
    with pytest.raises(StopIteration) as stop:
        running.send("end")
    assert stop.value.value == "end"
    assert inspect.isgeneratorfunction(g)
    half = g()
    next(half)
    half.close()
    with pytest.raises(StopIteration):
        next(half)
    current = clew.current()
    assert current is not None
    assert [call.error for call in current.calls()] == [None, None]


def test_coroutines_and_async_generators_keep_their_tasks_apart() -> None:
    @clew.watch("k")
    async def count(n: int) -> int:
        for k in range(n):
            await asyncio.sleep(0)
        return k

    @clew.watch("v")
    async def numbers(n: int) -> Any:
        for v in range(n):
            yield v

    async def main() -> list[int]:
        assert [v async for v in numbers(3)] == [0, 1, 2]
        return list(await asyncio.gather(count(3), count(2)))

    with clew.run() as run:
        assert asyncio.run(main()) == [2, 1]
    assert inspect.iscoroutinefunction(count)
    assert inspect.isasyncgenfunction(numbers)
    assert [call.data["k"] for call in run.calls("*count")] == [[0, 1, 2], [0, 1]]
    assert all(call.parent is None for call in run.calls())


def test_threads_and_recursion_have_a_record_each() -> None:
    @clew.watch("depth")
    def down(depth: int) -> None:
        if depth:
            down(depth - 1)

    with clew.run() as run:
        threads = [threading.Thread(target=down, args=(2,), name=f"worker {n}") for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    calls = run.calls()
    assert sorted(call.thread for call in calls) == sorted(["worker 0", "worker 1", "worker 2"] * 3)
    for call in calls:
        assert len(call.changes) == 1
        assert call.parent is None or call.parent.thread == call.thread


def test_closures_super_class_cells_and_private_names(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        class Base:
            def who(self): return "base"
        class Child(Base):
            __secret = 1
            def who(self):
                me = super().who() + __class__.__name__
                self.__hidden = self.__secret
                return me, self.__hidden
        def outer(n):
            total = n
            def add(k):
                nonlocal total
                total += k
                return total
            return add
        """,
    )
    clew.watch("me", "self.__hidden")(module.Child)
    clew.watch("*")(module.outer)
    assert module.Child().who() == ("baseChild", 1)
    add = clew.watch("total")(module.outer(10))
    assert [add(1), add(2)] == [11, 13]
    current = clew.current()
    assert current is not None
    assert current["self.__hidden"].values == [1]
    assert current.calls("*add")[1].data == {"total": [11, 13]}


def test_the_function_is_the_same_object_with_the_same_face() -> None:
    def f(a: int, /, b: str = "x", *args: int, c: float = 1.5, **rest: int) -> str:
        """What it does."""
        text = f"{a}{b}{c}"
        return text

    f.mark = "mine"  # type: ignore[attr-defined]
    before = (inspect.signature(f), f.__defaults__, f.__kwdefaults__, f.__annotations__, f.__doc__, f.__qualname__)
    assert clew.watch("*")(f) is f
    after = (inspect.signature(f), f.__defaults__, f.__kwdefaults__, f.__annotations__, f.__doc__, f.__qualname__)
    assert after == before
    assert f.mark == "mine"  # type: ignore[attr-defined]
    assert inspect.getsource(f).startswith("    def f(")
    assert f(1) == "1x1.5"


@clew.watch("x")
def module_level(x: int) -> int:
    x = x + 1
    return x


def test_a_watched_function_pickles_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(module_level)) is module_level


def test_locals_vars_and_dir_show_the_users_names_only() -> None:
    @clew.watch("*")
    def f(a: int) -> Any:
        b = a
        return sorted(locals()), sorted(vars()), dir(), eval("b + 1")

    assert f(1) == (["a", "b"], ["a", "b"], ["a", "b"], 2)


def test_objects_die_when_they_would() -> None:
    class Thing:
        pass

    @clew.watch("thing", "other")
    def f() -> list[bool]:
        thing = Thing()
        seen = [weakref.ref(thing)]
        del thing
        other = [Thing()]
        seen.append(weakref.ref(other[0]))
        other = None
        gc.collect()
        return [ref() is None for ref in seen]

    assert f() == [True, True]


def test_recursion_reaches_about_the_same_depth() -> None:
    def depth(n: int) -> int:
        try:
            return depth(n + 1)
        except RecursionError:
            return n

    plain = depth(0)
    clew.watch("n")(depth)
    assert plain - 20 <= depth(0) <= plain


def test_exc_info_in_a_handler_is_the_users() -> None:
    @clew.watch("*", "missing.attribute")
    def f() -> tuple[Any, Any]:
        try:
            x = 1 / 0
        except ZeroDivisionError:
            x = 2
            inside = sys.exc_info()[0]
        return inside, sys.exc_info()[0]

    assert f() == (ZeroDivisionError, None)


def test_properties_static_and_class_methods_partials_and_wrappers_are_watched() -> None:
    def twice(function: Any) -> Any:
        @wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args) * 2

        return wrapper

    class C:
        @clew.watch("v")
        @property
        def p(self) -> int:
            v = 1
            return v

        @clew.watch("v")
        @staticmethod
        def s(n: int) -> int:
            v = n
            return v

        @clew.watch("v")
        @classmethod
        def c(cls, n: int) -> int:
            v = n
            return v

        @clew.watch("v")
        @cached_property
        def cached(self) -> int:
            v = 4
            return v

        @clew.watch("v")
        @twice
        def wrapped(self) -> int:
            v = 5
            return v

    with clew.run() as run:
        assert (C().p, C.s(2), C.c(3), C().cached, C().wrapped()) == (1, 2, 3, 4, 10)
        assert clew.watch("v")(partial(C.s, 6))() == 6
    assert run["v"].values == [1, 2, 3, 4, 5, 6]


def test_several_lambdas_on_one_line_are_told_apart() -> None:
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    with clew.run() as run:
        assert clew.watch("x")(second)(5) == 7
        assert first(1) == 2
    assert run["x"].values == [5]


def test_a_function_made_in_a_loop_is_rewritten_once() -> None:
    def make(k: int) -> Any:
        @clew.watch("v")
        def inner() -> int:
            v = k
            return v

        return inner

    with clew.run() as run:
        made = [make(k) for k in range(3)]
        assert [f() for f in made] == [0, 1, 2]
    assert len({id(f.__code__) for f in made}) == 1
    assert run["v"].values == [0, 1, 2]


def test_a_function_without_source_is_watched_by_events_and_the_ledger_says_so() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(n):\n    x = n\n    x = x + 1\n    return x\n", namespace)
    with clew.run() as run:
        assert clew.watch("x")(namespace["f"])(1) == 2
    assert run["x"].values == [1, 2]
    assert [note.subject for note in run.ledger if note.kind == "fallback"] == ["f"]


def test_a_hostile_object_is_untouched_and_recorded_as_far_as_possible() -> None:
    ran: list[str] = []

    class Hostile:
        def __init__(self) -> None:
            self.inside = [1]

        def __getattr__(self, name: str) -> Any:
            ran.append(name)
            raise RuntimeError(name)

        @property
        def prop(self) -> Any:
            ran.append("prop")
            raise RuntimeError

    def trap(name: str) -> Any:
        def method(self: Any, *args: Any) -> Any:
            ran.append(name)
            raise RuntimeError(name)

        return method

    for name in ("repr", "eq", "hash", "len", "bool", "iter", "deepcopy", "reduce", "reduce_ex", "getstate", "str"):
        setattr(Hostile, f"__{name}__", trap(name))

    @clew.watch("thing", "held")
    def f() -> None:
        thing = Hostile()
        thing.inside.append(2)
        held = {"k": [thing]}
        held["k"].append(3)

    with clew.run() as run:
        f()
    assert ran == []
    assert [value.inside for value in run["thing"].values] == [[1], [1, 2]]
    assert len(run["held"].values) == 2

"""Whatever fails inside clew, the program gives what it gives without clew, and one line says that something failed.

A program is run once per function of clew that its probes call, and that function raises: see injection.py.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import trouble
from clew.instrument import engine, rewrite, runtime
from clew.probes.follow import lean_calls
from clew.probes.pipeline import plugins
from clew.recorder.live_call import LiveCall

from .injection import PARTS, check, functions_behind, run_all

PROGRAMS = {
    "watch": """
        @clew.watch("a", "b")
        def f(n):
            a, b = 0, []
            for i in range(n):
                a += i
                b.append(a)
            try:
                del a
                {}["x"]
            except KeyError as error:
                b = [repr(error)]
            return b
        def main():
            return [f(2), f(3)]
        """,
    "hooks": """
        @clew.watch("a", "len(b)", when=lambda change: True, on_change=lambda change: None, step="i")
        def f(n):
            a, b = 0, []
            for i in range(n):
                a += i
                b.append(a)
            return a
        def main():
            return [f(3)]
        """,
    "generator": """
        @clew.watch("a", "b")
        def f(n):
            b = []
            for a in range(n):
                b.append(a)
                got = yield a
        def main():
            return [list(f(3))]
        """,
    "coroutine": """
        import asyncio
        @clew.watch("a")
        async def f(n):
            a = n
            await asyncio.sleep(0)
            a = [n]
            return a
        def main():
            return asyncio.run(f(3))
        """,
    "raises": """
        @clew.watch("a")
        def f(n):
            a = [n]
            raise ValueError(n)
        def main():
            try:
                f(3)
            except ValueError as error:
                return [error.args[0], error.__traceback__.tb_next.tb_lineno]
        """,
    "block": """
        def f():
            out = []
            with clew.watch("a"):
                a = 1
                out.append(a)
            return out
        def main():
            return f()
        """,
    "run": """
        @clew.watch("a")
        def f(n):
            a = n
            return a
        def main():
            with clew.run("named"):
                return f(3)
        """,
    "follow": """
        def leaf(x):
            return [x]
        def numbers():
            yield leaf(1)
        @clew.follow("y", show=False)
        def f(n):
            y = leaf(n)
            try:
                leaf(1)["x"]
            except TypeError:
                y = 5
            return [y, list(numbers())]
        def main():
            return f(3)
        """,
    "follow_shown": """
        import io
        def leaf(x):
            return [x]
        @clew.follow(file=io.StringIO())
        def f(n):
            return leaf(n)
        def main():
            return f(3)
        """,
    "items": """
        @clew.stage("load")
        def load(i):
            return [i, i + 1]
        @clew.stage("clean")
        def clean(row):
            return sum(row)
        def main():
            out = []
            with clew.items(3):
                for i in range(5):
                    out.append(clean(load(i)))
            return out[:3]
        """,
    "items_calls": """
        import asyncio, threading
        calls = []
        @clew.stage("numbers")
        def numbers():
            calls.append("numbers")
            yield from range(2)
        @clew.stage("later")
        async def later(i):
            calls.append(i)
            return i + 1
        @clew.stage("ticks")
        async def ticks():
            calls.append("ticks")
            yield 1
        async def all_ticks():
            return [tick async for tick in ticks()]
        largest = clew.stage("largest")(max)
        @clew.stage("fails")
        def fails(i):
            calls.append("fails")
            raise ValueError(i)
        def main():
            out = []
            with clew.items(4):
                for i in numbers():
                    out.append(largest(asyncio.run(later(i)), 1))
                out.append(asyncio.run(all_ticks()))
                thread = threading.Thread(target=lambda: out.append(largest(7, 8)))
                thread.start()
                thread.join()
                try:
                    fails(3)
                except ValueError as error:
                    out.append([error.args[0], repr(error.__context__)])
            return [out, calls]
        """,
    "log": """
        import logging
        @clew.follow(show=False)
        def f(n):
            clew.log("a", n)
            logger.warning("hi %d", n)
            return n
        logger = logging.getLogger("x")
        logger.propagate = False
        logger.addHandler(clew.LogHandler())
        def main():
            return [f(3)]
        """,
    "op": """
        import os
        @clew.op
        class Base:
            def __init__(self, k):
                self.k = k
                assert os.path.isfile(os.__file__)
        @clew.op
        class A(Base):
            def __init__(self, k):
                super().__init__([k])
                import pyarrow
            def __call__(self, x):
                return x * self.k[0]
            @staticmethod
            def static(x):
                return x + 1
            @clew.op
            def method(self, x):
                return x - 1
        @clew.op
        def double(x):
            return 2 * x
        def main():
            try:
                A()
            except TypeError as error:
                said = error.__traceback__.tb_next.tb_lineno
            return [A(3)(2), double(3), A.static(4), A(4).method(5), said > 0]
        """,
    "script": """
        from clew.compat import matx
        class A:
            def __init__(self, k: int) -> None:
                self.k = k
            def __call__(self, x: int) -> int:
                return x * self.k
        def double(x: int) -> int:
            return 2 * x
        A, double = matx.script(A), matx.script(double)
        def main():
            return [A(3)(2), double(3)]
        """,
    "fork": """
        import os
        @clew.watch("a")
        def child(n):
            a = n
            return a
        @clew.watch("a")
        def f(n):
            a = n
            pid = os.fork()
            if pid == 0:
                os._exit(child(n))
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), child(2)
        def main():
            return f(3)
        """,
    "exit": """
        import atexit, sys
        @clew.watch("a")
        def f(n):
            a = [n]
            return a
        def main():
            f(3)
            if target == "?":  # what runs at exit is seen
                clew.recording.close_all()
                return []
            print("ended")
            sys.exit(0)
        """,
}


@pytest.mark.parametrize(("program", "about"), [("watch", 12), ("follow", 12), ("items", 12), ("op", 4)])
def test_a_failure_behind_an_entry_point_does_not_reach_the_program(program: str, about: int, tmp_path: Path) -> None:
    targets = functions_behind(PROGRAMS[program], tmp_path)
    check(PROGRAMS[program], targets[:: max(1, len(targets) // about)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_failure_behind_any_entry_point_reaches_the_program(program: str, part: int, tmp_path: Path) -> None:
    text = PROGRAMS[program]
    check(text, functions_behind(text, tmp_path)[part :: len(PARTS)], tmp_path)


# ---- no entry point is forgotten


def _has_own_try(function: Any) -> bool:
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body  # type: ignore[attr-defined]
    body = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    last = body[-1]
    return isinstance(last, ast.Try) and len(body) == 1 and any(
        isinstance(handler.type, ast.Name) and handler.type.id == "Exception" for handler in last.handlers
    )  # fmt: skip


def _is_guarded(function: Any) -> bool:
    if hasattr(function, "__wrapped__"):
        return function in trouble.ENTRY_POINTS.values() or function.__wrapped__ is not None
    return _has_own_try(function)


#: They only hand their argument back, or make a small object: nothing in them can fail.
NOTHING_TO_FAIL = {"__enter__", "until_left", "paused", "resumed"}


def _attributes_of_the_call() -> set[str]:
    """The methods that rewritten code calls, read from the code that writes it."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(rewrite))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "attribute":
            first, second = node.args
            if isinstance(first, ast.Name) and first.id == "CALL" and isinstance(second, ast.Constant):
                found.add(str(second.value))
    return found - {"log", "result"} | {"lost", "gone", "check", "__exit__", "paused", "resumed"}


@pytest.mark.parametrize("kind", [runtime.WatchedCall, runtime.WatchedHookedCall, runtime.PausingCall])
def test_every_method_that_rewritten_code_calls_is_guarded(kind: type[LiveCall]) -> None:
    names = {name for name in _attributes_of_the_call() if hasattr(kind, name)} - NOTHING_TO_FAIL
    assert len(names) >= 7
    assert [name for name in sorted(names) if not _is_guarded(getattr(kind, name))] == []


def test_every_function_that_rewritten_code_calls_is_guarded() -> None:
    plan = clew.recorder.plan.Plan("f", "m", "f.py", 1, (), [1], [False])
    table = {**engine.objects(runtime.enter, plan), **lean_calls._objects(plan)}
    functions = [getattr(each, "func", each) for each in table.values()]
    ours = [f for f in functions if inspect.isfunction(f)]
    ours += [runtime.enter_hooked, runtime.enter_generator, runtime.enter_coroutine]
    assert len(ours) >= 9
    assert [function.__qualname__ for function in ours if not _is_guarded(function)] == []


def test_a_failure_is_reported_once(tmp_path: Path) -> None:
    [outcome] = run_all(PROGRAMS["watch"], ["recorder/live_call.py:LiveCall.look"], tmp_path)
    assert outcome.err.count("recording failed") == 1


def test_a_failure_of_ours_does_not_reach_the_import_of_a_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(library: str) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setenv("CLEW_STRICT", "0")
    with clew.items(1):
        monkeypatch.setattr(plugins, "_install", fail)
        plugins._loaded("pandas")  # as the import system calls it
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err

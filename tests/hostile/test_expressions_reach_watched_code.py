"""While an expression, hook or callback of the user's runs for clew, nothing is recorded in that thread."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.recorder import quiet_threads


def calls_of(run: Any) -> list[str]:
    return [call.function.rpartition(".")[2] for call in run.calls()]


@pytest.fixture(autouse=True)
def no_thread_stays_quiet() -> Any:
    yield
    assert not quiet_threads.threads


def test_a_property_of_a_watched_class_is_evaluated_and_not_recorded() -> None:
    @clew.watch("self.x")
    class Box:
        def __init__(self) -> None:
            self.value = 0

        @property
        def x(self) -> int:
            doubled = self.value * 2
            return doubled

        def grow(self) -> int:
            self.value += 1
            return self.value

    with clew.run() as run:
        box = Box()
        assert [box.grow() for _ in range(3)] == [1, 2, 3]
    assert [change.value for change in run["self.x"].changes][-1] == 6
    assert calls_of(run) == ["__init__", "grow", "grow", "grow"]


def test_a_proxy_with_a_watched_getattr_ends() -> None:
    class Proxy:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        @clew.watch("self.name")
        def __getattr__(self, name: str) -> Any:
            found = getattr(object.__getattribute__(self, "_inner"), name)
            return found

    class Named:
        name = "inner"

    with clew.run() as run:
        assert Proxy(Named()).name == "inner"
    assert calls_of(run) == ["__getattr__"]


def test_the_length_of_a_watched_container_ends() -> None:
    class Bag:
        def __init__(self) -> None:
            self.items: list[int] = []

        @clew.watch("len(self)")
        def __len__(self) -> int:
            count = len(self.items)
            return count

        @clew.watch("len(self)")
        def add(self, item: int) -> None:
            self.items.append(item)

    with clew.run() as run:
        bag = Bag()
        bag.add(1)
        assert len(bag) == 1
    assert calls_of(run) == ["add", "__len__"]


def test_a_function_watched_through_itself_ends() -> None:
    @clew.watch("f(x - 1)")
    def f(x: int) -> int:
        y = x + 1
        return y

    f.__globals__["f"] = f
    try:
        with clew.run() as run:
            assert f(10) == 11
        assert calls_of(run) == ["f"]
        assert run["f(x - 1)"].values[-1] == 10
    finally:
        del f.__globals__["f"]


@pytest.mark.parametrize("option", ["when", "break_when", "step"])
def test_texts_of_options_reach_watched_code_without_recording_it(option: str) -> None:
    @clew.watch("n")
    def positive(n: int) -> bool:
        answer = n > 100
        return answer

    def work() -> int:
        total = 0
        for n in range(3):
            total += n
        return total

    work.__globals__["positive"] = positive
    watched = clew.watch("total", **{option: "positive(total)"})(work)  # type: ignore[arg-type]
    try:
        with clew.run() as run:
            assert watched() == 3
        assert calls_of(run) == ["work"]
    finally:
        del work.__globals__["positive"]


@pytest.mark.parametrize("option", ["when", "break_when", "on_change", "on_return"])
def test_hooks_that_call_the_watched_function_end(option: str) -> None:
    def again(_: Any) -> None:
        f(1)

    @clew.watch("y", **{option: again})  # type: ignore[arg-type]
    def f(x: int) -> int:
        y = x + 1
        return y

    with clew.run() as run:
        assert f(1) == 2
    assert calls_of(run) == ["f"]


def test_generators_and_coroutines_are_not_recorded_inside_an_expression() -> None:
    @clew.watch("n")
    def count() -> Any:
        for n in range(3):
            yield n

    @clew.watch("n")
    async def later() -> int:
        n = 5
        return n

    @clew.watch("sum(count())", "run(later())")
    def f() -> int:
        a = 1
        return a

    names = {"count": count, "later": later, "run": asyncio.run}
    f.__globals__.update(names)
    try:
        with clew.run() as run:
            assert f() == 1
        assert calls_of(run) == ["f"]
        assert run["sum(count())"].values[-1] == 3
        assert run["run(later())"].values[-1] == 5
    finally:
        for name in names:
            del f.__globals__[name]


def test_expressions_of_a_generator_that_moves_between_threads_leave_nobody_quiet() -> None:
    class Box:
        @property
        def x(self) -> int:
            return 1

    @clew.watch("box.x")
    def count(box: Box) -> Any:
        for n in range(4):
            yield n

    seen = []
    with clew.run():
        numbers = count(Box())
        for _ in range(4):
            thread = threading.Thread(target=lambda: seen.append(next(numbers)))
            thread.start()
            thread.join()
    assert seen == [0, 1, 2, 3]


def test_an_interrupt_out_of_an_expression_reaches_the_user_and_leaves_nobody_quiet() -> None:
    class Box:
        @property
        def x(self) -> int:
            raise KeyboardInterrupt

    @clew.watch("box.x")
    def f(box: Box) -> int:
        a = 1
        return a

    with clew.run(), pytest.raises(KeyboardInterrupt):
        f(Box())


def test_an_expression_that_exhausts_the_stack_is_silence() -> None:
    def endless(n: int) -> int:
        return endless(n + 1)

    @clew.watch("endless(0)")
    def f() -> int:
        a = 1
        return a

    f.__globals__["endless"] = endless
    try:
        with clew.run():
            assert f() == 1
    finally:
        del f.__globals__["endless"]


def by_a_thread(function: Any, *args: Any) -> Any:
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*args)))
    thread.start()
    thread.join()
    return results[0]


def by_a_pool(function: Any, *args: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


def by_a_thread_of_a_thread(function: Any, *args: Any) -> Any:
    return by_a_thread(by_a_pool, function, *args)


@pytest.mark.parametrize("way", [by_a_thread, by_a_pool, by_a_thread_of_a_thread])
def test_an_expression_that_waits_for_a_thread_in_watched_code_ends(way: Any) -> None:
    evaluated = []

    @clew.watch("way(f, x)")
    def f(x: int) -> int:
        y = x + 1
        return y

    def counted(*args: Any) -> Any:
        evaluated.append(1)
        if len(evaluated) > 50:
            raise KeyboardInterrupt
        return way(*args)

    f.__globals__.update(f=f, way=counted)
    try:
        with clew.run() as run:
            assert f(10) == 11
        assert calls_of(run) == ["f"]
        assert run["way(f, x)"].values == [11]
    finally:
        del f.__globals__["f"], f.__globals__["way"]


def test_a_thread_that_no_expression_waits_for_is_recorded_meanwhile() -> None:
    begun, ended = threading.Event(), threading.Event()

    @clew.watch("n")
    def beside() -> int:
        n = 1
        return n

    def work() -> None:
        begun.wait(30)
        beside()
        ended.set()

    def wait() -> bool:
        begun.set()
        return ended.wait(30)

    @clew.watch("wait()")
    def f() -> int:
        return 1

    f.__globals__["wait"] = wait
    try:
        with clew.run() as run:
            thread = threading.Thread(target=work)
            thread.start()
            f()
            thread.join()
        assert sorted(calls_of(run)) == ["beside", "f"]
    finally:
        del f.__globals__["wait"]


def test_followed_functions_are_not_recorded_inside_an_expression() -> None:
    def helper(n: int) -> int:
        return n + 1

    @clew.watch("helper(a)")
    def inner() -> int:
        a = 1
        return a

    @clew.follow(show=False)
    def outer() -> int:
        return inner() + helper(5)

    outer.__globals__.update(helper=helper, inner=inner)
    try:
        with clew.run() as run:
            assert outer() == 7
        assert sorted(calls_of(run)) == ["helper", "inner", "outer"]
    finally:
        del outer.__globals__["helper"], outer.__globals__["inner"]


def test_expressions_of_clew_run_reach_watched_code_without_recording_it(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "class Box:\n    value = 0\n    @property\n    def x(self):\n        twice = self.value * 2\n"
        "        return twice\n"
        "    def grow(self):\n        self.value += 1\n        return self.value\n"
        "def f(n):\n    y = n + 1\n    return y\n"
        "box = Box()\nbox.grow()\nf(10)\n"
    )
    watched = ["Box.grow: self.x, f(self.value)", "Box.x: twice", "f: f(n - 1)"]
    words = [word for text in watched for word in ("--watch", text)]
    environment = {**os.environ, "CLEW_DIR": str(tmp_path / "runs"), "CLEW_QUIET": "1"}
    command = [sys.executable, "-m", "clew", "run", *words, str(script)]
    assert subprocess.run(command, env=environment, timeout=300).returncode == 0
    [run] = clew.runs(tmp_path / "runs")
    assert calls_of(run) == ["grow", "f"]
    assert run["self.x"].values == [0, 2]


def test_a_function_without_source_watched_by_events_through_itself_ends() -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    y = x + 1\n    return y\n", names)
    names["f"] = clew.watch("f(x - 1)")(names["f"])
    with clew.run() as run:
        assert names["f"](10) == 11
    assert calls_of(run) == ["f"]


AUDIT_HOOK = """
import sys, clew
{probe}
def hook(event, args):
    seen = event
sys.addaudithook(hook)
@clew.watch("a")
def f(n):
    a = n
    return a
print(f(1), f(2))
"""


@pytest.mark.parametrize(
    "probe", ['@clew.watch("seen")', '@clew.watch("seen", when="True")', "@clew.follow(show=False)"]
)
def test_a_watched_audit_hook_stops_the_recording_and_not_the_program(probe: str, tmp_path: Path) -> None:
    """Python calls it for whatever clew does, `id()` and looking at the stack included."""
    (tmp_path / "program.py").write_text(AUDIT_HOOK.format(probe=probe))
    environment = {**os.environ, "CLEW_STRICT": "0", "CLEW_DIR": str(tmp_path / "runs")}
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1 2\n"), done.stderr
    assert done.stderr.startswith("clew: recording failed in ")
    (run,) = clew.runs(tmp_path / "runs")
    assert "Recording was stopped" in str(run.ledger)

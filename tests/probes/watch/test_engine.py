"""Which way a function is watched, and what is said of it."""

from __future__ import annotations

import asyncio
from typing import Any

import clew


def made(source: str) -> Any:
    """A function nobody has the source of."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["f"]


def test_a_function_without_source_is_watched_by_events_and_the_ledger_says_so() -> None:
    f = made("def f(n):\n    x = n\n    x = x + 1\n    return x\n")
    with clew.run() as run:
        assert clew.watch("x")(f)(1) == 2
    assert run["x"].values == [1, 2]
    assert run["x"].lines == [2, 3]
    assert [note.subject for note in run.ledger if note.kind == "fallback"] == ["f"]
    assert run.calls("f")[0].error is None


def test_a_generator_without_source_is_one_call() -> None:
    f = made("def f(n):\n    for x in range(n):\n        yield x\n")
    with clew.run() as run:
        assert list(clew.watch("x")(f)(3)) == [0, 1, 2]
    assert [call.data for call in run.calls("f")] == [{"x": [0, 1, 2]}]


def test_a_coroutine_without_source_is_one_call() -> None:
    f = made("import asyncio\nasync def f(n):\n    for x in range(n):\n        await asyncio.sleep(0)\n    return x\n")
    with clew.run() as run:
        assert asyncio.run(clew.watch("x")(f)(3)) == 2
    assert [call.data for call in run.calls("f")] == [{"x": [0, 1, 2]}]


def test_an_error_in_a_function_without_source_is_noted_and_goes_on() -> None:
    f = made("def f():\n    x = 1\n    return x / 0\n")
    with clew.run() as run:
        try:
            clew.watch("x")(f)()
        except ZeroDivisionError as error:
            went_on = error
    assert str(went_on) == "division by zero"
    assert run.calls("f")[0].error == "ZeroDivisionError: division by zero"


def test_off_and_on_reach_functions_watched_by_events() -> None:
    f = clew.watch("x")(made("def f(n):\n    x = n\n    return x\n"))
    with clew.run() as run:
        f(1)
        clew.off()
        f(2)
        clew.on()
        f(3)
    assert run["x"].values == [1, 3]


def test_a_function_rewritten_by_a_test_runner_is_watched_by_events() -> None:
    @clew.watch("x")
    def f() -> None:
        x = [1]
        assert x  # pytest has put other code here than the file shows
        x.append(2)

    with clew.run() as run:
        f()
    assert run["x"].values == [[1], [1, 2]]

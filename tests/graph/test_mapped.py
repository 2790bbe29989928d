"""`clew.map` and `clew.submit`, in a pipeline and out of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import clew
from clew.errors import TargetError
from graph.comparing import holds, refuses


@clew.op
def square(x: Any) -> Any:
    return x * x


@clew.op
def added(a: Any, b: Any) -> Any:
    return a + b


def is_none(x: Any) -> bool:
    return x is None


def test_a_map_is_one_step_for_lists_of_any_length() -> None:
    graph = holds(lambda xs: clew.map(square, xs), [1, 2], [], [3], [1, 2, 3, 4])
    assert len(graph.steps) == 1


def test_a_map_of_two_lists_takes_them_together() -> None:
    assert clew.record(lambda a, b: clew.map(added, a, b), [1], [2])(a=[1, 2], b=[3, 4]) == [4, 6]


def test_a_map_in_a_pipeline_wants_an_operator() -> None:
    with pytest.raises(TargetError, match="takes an operator, and is_none is none"):
        clew.record(lambda xs: clew.map(is_none, xs), [([1],)])


def test_maps_and_calls_that_do_not_wait_use_the_threads_of_the_run() -> None:
    both = threading.Barrier(2, timeout=10)
    meets: list[bool] = []

    @clew.op
    def meet(x: Any) -> Any:
        if meets:
            both.wait()
        return x

    def pipeline(x: Any) -> Any:
        first, second = clew.submit(meet, x), clew.submit(meet, x + 1)
        return first.get() + second.get(), clew.map(meet, [x, x])

    graph = clew.record(pipeline, 1)
    meets.append(True)
    assert graph.run({"x": 5}, parallel=2) == (11, [5, 5])


def test_a_function_of_the_pipeline_s_own_is_seen_through_when_it_is_submitted() -> None:
    graph = holds(lambda x: clew.submit(is_none, x).get(), None, 3)
    assert len(graph.steps) == 1


def test_an_error_in_a_map_is_the_operator_s_and_one_that_is_caught_is_guarded() -> None:
    @clew.op
    def halved(x: Any) -> Any:
        return 10 / x

    def caught(xs: Any) -> Any:
        try:
            return clew.map(halved, xs)
        except ZeroDivisionError:
            return None

    with pytest.raises(ZeroDivisionError):
        clew.record(lambda xs: clew.map(halved, xs), [([1],)]).run({"xs": [1, 0]}, parallel=2)
    assert "ZeroDivisionError" in refuses(clew.record(caught, [([1],)]), [1, 0])


def test_maps_inside_maps_do_not_wait_for_each_other() -> None:
    @clew.op
    def total(xs: Any) -> Any:
        return sum(clew.map(square, xs))

    graph = clew.record(lambda rows: clew.map(total, rows), [([[1], [2]],)])
    assert graph.run({"rows": [[1, 2], [3, 4], [5, 6]]}, parallel=2) == [5, 25, 61]


def test_calls_that_do_not_wait_may_make_such_calls_themselves() -> None:
    @clew.op
    def total(xs: Any) -> Any:
        return sum(clew.map(square, xs))

    @clew.op
    def totals(rows: Any) -> Any:
        later = [clew.submit(total, row) for row in rows]
        return [one.get() for one in later]

    graph = clew.record(lambda rows: totals(rows), [([[1]],)])
    assert graph.run({"rows": [[1, 2], [3, 4], [5, 6]]}, parallel=2) == [5, 25, 61]

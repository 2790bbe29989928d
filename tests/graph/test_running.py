"""Running a graph: its inputs by name, and its steps one after the other or at the same time."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import clew
from clew.errors import GraphError, GuardError
from clew.graph import Graph

STARTED: list[str] = []


@clew.op
def square(x: Any) -> Any:
    return x * x


@clew.op
def small(x: Any) -> Any:
    STARTED.append("small")
    if x > 3:
        raise KeyError(f"{x} is too large")
    return x


def added(a: Any, b: Any = 10, *, c: Any = 100) -> Any:
    return square(a) + b + c


def test_inputs_are_given_by_name_or_in_their_order() -> None:
    graph = clew.record(added, 1, 2, c=3)
    assert graph.input_names == ["a", "b", "c"]
    assert graph.run({"a": 2, "b": 1, "c": 1}) == graph(2, 1, 1) == graph(2, c=1, b=1) == 6
    assert graph(2) == added(2)  # what has a default may be left out


def test_arguments_by_star_are_a_tuple_and_those_by_two_stars_are_inputs_of_their_own() -> None:
    def pipeline(first: Any, *rest: Any, **more: Any) -> Any:
        return first, rest, more, more["k"]

    graph = clew.record(pipeline, 1, 2, 3, k=4)
    assert graph.input_names == ["first", "rest", "k"]
    assert graph.run({"first": 5, "rest": (6, 7), "k": 8}) == pipeline(5, 6, 7, k=8)
    with pytest.raises(GuardError, match="length 2, and now is 1"):
        graph.run({"first": 5, "rest": (6,), "k": 8})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda graph: graph.run({}), "`a` is missing. It takes: a, b."),
        (lambda graph: graph.run(), "`a` is missing. It takes: a, b."),
        (lambda graph: graph.run({"a": 1, "bb": 2}), "no input `bb`; did you mean `b`. It takes: a, b."),
        (lambda graph: graph(a=1, c=2), "no input `c`; .*left to its default is a constant|It takes: a, b."),
        (lambda graph: graph(1, 2, 3), "takes 2 inputs, not 3. It takes: a, b."),
        (lambda graph: graph(1, a=2), "`a` is given twice. It takes: a, b."),
        (lambda graph: graph.run([1, 2]), "by name, in a dictionary, not in a list. It takes: a, b."),
    ],
)
def test_inputs_that_are_missing_or_unknown_or_given_twice_are_named_with_those_there_are(
    given: Any, said: str
) -> None:
    with pytest.raises(GraphError, match=said):
        given(clew.record(added, 1, 2))


@pytest.mark.parametrize("threads", [0, -1, "4", 2.0, True])
def test_a_number_of_threads_that_is_none_is_refused(threads: Any) -> None:
    with pytest.raises(GraphError, match=r"is not a number of threads\. Give a whole number"):
        clew.record(added, 1).run({"a": 1}, parallel=threads)


def test_an_error_of_an_operator_is_the_user_s_own_and_its_step_is_done_once() -> None:
    graph = clew.record(lambda x: small(x), 1)
    STARTED.clear()
    with pytest.raises(KeyError, match="9 is too large"):
        graph(x=9)
    assert STARTED == ["small"]
    with pytest.raises(KeyError, match="9 is too large"):
        graph.run({"x": 9}, parallel=4)


def test_steps_that_do_not_need_each_other_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)

    @clew.op
    def meet(x: Any) -> Any:
        if len(parties) > 1:
            both.wait()
        return x

    parties: list[int] = []
    graph = clew.record(lambda x: meet(x) + meet(x + 1), 1)
    parties += [1, 2]
    assert graph.run({"x": 5}, parallel=2) == 11


def test_a_guard_holds_for_steps_at_the_same_time_too() -> None:
    def pipeline(x: Any) -> Any:
        one, other = square(x), square(x + 1)
        return "large" if one > 10 else other

    graph = clew.record(pipeline, 1)
    assert graph.run({"x": 2}, parallel=4) == 9
    with pytest.raises(GuardError, match="was False, and now is True"):
        graph.run({"x": 5}, parallel=4)


def test_the_graph_s_own_number_of_threads_is_the_default() -> None:
    names = set()

    @clew.op
    def named(x: Any) -> Any:
        names.add(threading.current_thread().name.partition("_")[0])
        return x

    graph = clew.record(lambda x: named(x), 1)
    names.clear()
    graph.parallel = 2
    assert graph(x=1) == 1
    assert names == {"clew-graph"}


def test_warming_up_runs_once_and_gives_nothing() -> None:
    graph = clew.record(lambda x: small(x), 1)
    STARTED.clear()
    assert graph.warmup({"x": 2}) is None  # type: ignore[func-returns-value]
    assert STARTED == ["small"]


def test_a_graph_is_a_step_of_another() -> None:
    inner = clew.record(added, 1)
    outer = clew.record(lambda z: inner(a=z) + 1, 1)
    assert isinstance(inner, Graph)
    assert outer(z=3) == added(3) + 1

"""Several examples as one graph."""

from __future__ import annotations

import itertools
import time
import warnings
from typing import Any

import pytest

import clew
from clew.errors import GraphError, GuardError
from clew.graph.recording.session import ConstantWarning
from graph.comparing import refuses, same


@clew.op
def square(x: Any) -> Any:
    return x * x


@clew.op
def listed(n: int) -> list[int]:
    return list(range(n))


@clew.op
def drop_negative(xs: list[Any]) -> int:
    if xs and xs[0] < 0:
        del xs[0]
    return len(xs)


def nested(x: Any) -> Any:
    if x > 10:
        return "large", square(x)
    if x > 5:
        y = square(x)
        return ("even", y) if x % 2 == 0 else ("odd", y + 1)
    return ("none",) if not x else ("small", -x)


def test_nested_branches_are_chosen_by_their_guards() -> None:
    graph = clew.record(nested, [12, 6, 7, 0, 1])
    for x in range(15):
        assert same(graph(x), nested(x))


def test_unrolled_loops_of_different_length_are_ways_of_their_own() -> None:
    def pipeline(n: Any) -> Any:
        squares: list[Any] = []
        both = {"squares": squares}  # another reference: no step could change the list
        for i in listed(n):
            squares.append(square(i))
        return sum(both["squares"])

    graph = clew.record(pipeline, [2, 3, 0])
    assert [graph(n) for n in (2, 3, 0)] == [1, 5, 0]
    assert "length 2 or 3 or 0, and now is 4" in refuses(graph, 4)


def test_unrolled_loops_that_go_on_by_a_condition_are_merged() -> None:
    def pipeline(x: Any) -> Any:
        def smaller() -> Any:
            return x - 2

        while x > 3:
            x = smaller()
        return x

    graph = clew.record(pipeline, [1, 5, 9])
    assert [graph(x) for x in (2, 4, 8)] == [2, 2, 2]
    refuses(graph, 6)


def test_loops_of_different_length_are_one_step() -> None:
    def pipeline(n: Any) -> Any:
        total = 0
        for i in listed(n):
            total = total + square(i)
        return total

    graph = clew.record(pipeline, [2, 3, 0])
    assert [graph(n) for n in (2, 3, 0, 4)] == [1, 5, 0, 14]
    assert not graph.guards


def test_the_same_example_twice_adds_nothing() -> None:
    assert len(clew.record(nested, [12, 12]).steps) == len(clew.record(nested, [12]).steps)


def test_a_change_seen_with_one_example_is_done_for_all() -> None:
    def pipeline(xs: Any) -> Any:
        drop_negative(xs)
        return xs

    graph = clew.record(pipeline, [[1, 2], [-1, 2]])
    assert graph([-5, 3]) == [3]


def test_examples_that_differ_without_a_decision_are_refused() -> None:
    numbers = itertools.count()

    def pipeline(x: Any) -> Any:
        return x + next(numbers)

    with pytest.raises(GraphError, match="without deciding by a recorded value"):
        clew.record(pipeline, [1, 2])


def test_outputs_that_differ_without_a_decision_are_refused() -> None:
    numbers = itertools.count()

    def pipeline(x: Any) -> Any:
        return x, next(numbers)

    with pytest.raises(GraphError, match="without deciding by a recorded value"):
        clew.record(pipeline, [1, 2])


def test_an_example_that_ends_before_a_decision_of_others_is_refused() -> None:
    numbers = itertools.count()

    def pipeline(x: Any) -> Any:
        if next(numbers) < 2:
            return "a" if x > 3 else "b"
        return "c"

    with pytest.raises(GraphError, match="without deciding by a recorded value"):
        clew.record(pipeline, [1, 5, 1])


def test_what_raises_for_one_example_and_not_for_another_is_a_decision() -> None:
    def pipeline(d: Any, key: Any) -> Any:
        try:
            found = square(d[key])
        except KeyError:
            found = -1
        except TypeError as error:
            return type(error).__name__
        try:
            return 100 / found
        except ZeroDivisionError:
            return "none"

    given = [({"a": 5}, "a"), ({}, "a"), ({"a": 0}, "a"), ({"a": "x"}, "a"), ({"b": 2}, "b")]
    graph = clew.record(pipeline, given[:4])
    for d, key in given:
        assert same(graph(d, key), pipeline(d, key))
        assert same(graph.run({"d": d, "key": key}, parallel=2), pipeline(d, key))
    one = clew.record(pipeline, [given[1]])
    assert "was 'KeyError', and now is 'nothing raised'" in refuses_two(one, {"a": 1}, "a")


def refuses_two(graph: Any, *given: Any) -> str:
    with pytest.raises(GuardError) as caught:
        graph(*given)
    return str(caught.value)


def test_an_error_that_is_given_back_is_no_error_that_is_raised() -> None:
    @clew.op
    def found(x: Any) -> Any:
        if x == 0:
            raise ValueError("nothing")
        return ValueError("given") if x == 1 else x

    def pipeline(x: Any) -> Any:
        try:
            got = found(x)
        except ValueError:
            return "raised"
        return "error" if isinstance(got, ValueError) else got

    graph = clew.record(pipeline, [0, 1, 2])
    assert [graph(x) for x in (0, 1, 2)] == ["raised", "error", 2]


def test_tables_of_functions_are_the_same_for_all_examples() -> None:
    def pipeline(name: Any, x: Any) -> Any:
        return {"more": lambda v: v + 1, "less": lambda v: v - 1}[name](x)

    graph = clew.record(pipeline, [("more", 1), ("less", 1)])
    assert (graph("more", 5), graph("less", 5)) == (6, 4)


def test_a_pipeline_that_takes_the_list_and_no_part_of_it_has_the_list_as_its_example() -> None:
    def pipeline(xs: Any) -> Any:
        first, *rest = xs
        return first + 1, rest

    assert clew.record(pipeline, [1, 2, 3])(xs=[4, 5, 6]) == (5, [5, 6])
    assert clew.record(lambda pairs: [a + b for a, b in pairs], [(1, 2), (3, 4)])(pairs=[(5, 6), (7, 8)]) == [11, 15]


def test_what_is_raised_for_the_first_of_several_examples_says_that_they_are_several() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        clew.record(lambda x: x / 0 if x != [0, 1] else x / 1, [0, 1])
    assert "several examples" in raised.value.__notes__[0]


def test_examples_may_differ_by_what_makes_no_difference() -> None:
    seconds: dict[str, float] = {}

    def timed(x: Any) -> Any:
        begin = time.perf_counter()
        y = -x if x < 0 else x
        seconds["timed"] = seconds.get("timed", 0) + time.perf_counter() - begin
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantWarning)  # `seconds` stays as it is
        graph = clew.record(timed, [1, -1])
    assert [graph(x) for x in (5, -7)] == [5, 7]
    assert len(graph.steps) == 2

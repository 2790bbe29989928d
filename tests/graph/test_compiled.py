"""The function a graph is, and its text."""

from __future__ import annotations

import warnings
from typing import Any

import clew
from clew.graph.parts import copied
from graph.comparing import holds, recorded


@clew.op
def filled(xs: list[Any], x: Any) -> list[Any]:
    xs.append(x)
    return xs


def test_the_text_has_the_names_of_the_inputs() -> None:
    graph = clew.record(lambda text, top=3: text[:top] + "!", "abc")
    assert graph.source.splitlines()[0] == "def graph(text):"
    assert "text[" in graph.source


def test_a_constant_is_fresh_each_time() -> None:
    def pipeline(x: Any) -> Any:
        small, large = filled([1], x), filled(list(range(100)), x)
        return small, large, [2], {"a": [3]}

    holds(pipeline, 1, 2)


def test_what_came_out_can_be_changed_without_changing_the_graph() -> None:
    graph = recorded(lambda x: (x, [1, [2]]), 1)
    graph(1)[1][1].append(9)
    assert graph(1) == (1, [1, [2]])


def test_numbers_of_every_kind_are_written_as_they_are() -> None:
    holds(lambda x: (x * -1, x + 10**30, x * 1.5, (5).__add__(x), float("inf") * x, x + 2j), 1, 2)


def test_a_question_about_a_number_or_a_text_is_no_warning_of_python_s() -> None:
    number, text = 300, "a"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = clew.record(lambda x: (x is number, x is not text, x is None), 1)
        assert graph(2) == (False, True, False)


def test_a_graph_may_decide_deeper_than_python_nests_code() -> None:
    def decide(x: Any, number: int) -> int:
        return number * 2 if x == number else decide(x, number - 1)

    graph = clew.record(lambda x: decide(x, 110), [{"x": number} for number in range(111)])
    assert len(graph.guards) > 100
    assert [graph(x=number) for number in (0, 50, 110)] == [0, 100, 220]


def test_a_container_may_be_nested_deeper_than_python_nests_brackets() -> None:
    def pipeline(x: Any) -> Any:
        nested = [x]
        for _ in range(220):
            nested = [nested]
        return nested

    assert recorded(pipeline, 1)(2) == pipeline(2)


def test_names_that_python_would_read_as_others_are_given_as_they_are() -> None:
    holds(lambda text: text.format(**{"ｆ": 1, "f": 2, "__debug__": 3}), "{ｆ}{f}{__debug__}", "{f}{f}{ｆ}")


def test_a_constant_that_holds_a_list_often_stays_small() -> None:
    table: Any = []
    for _ in range(40):
        table = [table, table]
    [first, second] = copied(table)
    assert first is second
    assert first is not table[0]

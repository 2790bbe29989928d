"""The function a graph is, and its text."""

from __future__ import annotations

import warnings
from typing import Any

import clew
from probes.graph.comparing import holds, recorded


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

"""Functions and classes inside a pipeline, and what they see of it."""

from __future__ import annotations

import collections
import functools
import heapq
import re
from typing import Any

import pytest

import clew
from clew.errors import GraphError
from graph.comparing import holds, recorded, refuses, same


@clew.op
def square(x: Any) -> Any:
    return x * x


@clew.op
def itself(x: Any) -> Any:
    return x


@clew.op
def add_one(xs: list[Any]) -> int:
    xs.append(1)
    return len(xs)


@clew.op
def applied(function: Any, x: Any) -> Any:
    return function(x)


class Box:
    def __init__(self, v: Any) -> None:
        self.v = v

    def times(self, x: Any) -> Any:
        return self.v * x


def test_nested_functions_closures_classes_and_recursion_are_seen_through() -> None:
    def pipeline(x: Any) -> Any:
        def inner(y: Any, k: Any = x) -> Any:
            return y + k + x if y is not None else k

        class Local:
            def __secret(self, y: Any) -> Any:
                return y * x

            def open(self, y: Any) -> Any:
                return self.__secret(y)

        def down(k: Any) -> Any:
            return [] if k == 0 else [x, *down(k - 1)]

        return inner(1), list(map(inner, [x, None])), Local().open(2), down(2), [y for i in range(3) if (y := x + i)]

    holds(pipeline, 3, 4)


def test_a_class_inside_the_pipeline_goes_by_the_values_of_each_run() -> None:
    def pipeline(x: Any) -> Any:
        class Plus:
            by = x

            def __init__(self, base: Any) -> None:
                self.base = 0 if base is None else base

            def total(self) -> Any:
                return self.base + self.by + x

        return Plus(x).total(), Plus(None).total()

    holds(pipeline, 1, 4)


def test_a_function_in_the_graph_sees_the_names_of_the_pipeline_as_they_were() -> None:
    def pipeline(x: Any) -> Any:
        factor, table = 2, {"by": 3}

        def down(v: Any) -> Any:
            return v if v <= 0 else factor + down(v - 1)

        found = [
            applied(lambda v: v * factor, x),
            applied({"it": lambda v: v * table["by"]}["it"], x),
            applied(functools.partial(lambda a, b: a * b + factor, 5), x),
            applied(down, x),
            sorted([x, 1, 4, 3], key=lambda v: v % factor),
        ]
        factor, table["by"] = 10, x
        return found, factor, table

    holds(pipeline, 1, 4)
    assert same(clew.record(pipeline, [1, 4])(6), pipeline(6))


def test_a_class_inside_the_pipeline_sees_its_names_as_they_are_then() -> None:
    def pipeline(x: Any) -> Any:
        factor = 2

        class Scaled:
            def __init__(self, value: Any) -> None:
                self.value = value

            def get(self) -> Any:
                return self.value * factor

        scaled = Scaled(x)
        first = scaled.get()
        factor = x + 1
        return first, scaled.get()

    holds(pipeline, 1, 4)


def test_a_function_that_changes_what_it_sees_is_not_given_away() -> None:
    def collects(xs: Any) -> Any:
        seen: list[Any] = []
        return sorted(xs, key=lambda v: (seen.append(v), v)[1]), seen

    def counts(x: Any) -> Any:
        total = 0

        def add(v: Any) -> Any:
            nonlocal total
            total += v
            return total

        return applied(add, x), total

    for pipeline, example in ((collects, [2, 1]), (counts, 3)):
        with pytest.raises(GraphError, match=r"test_closures.py:\d+: a function that is given away changes"):
            recorded(pipeline, example)


def test_an_object_that_a_step_had_may_not_be_changed_afterwards() -> None:
    def pipeline(x: Any) -> Any:
        box = Box(2)
        found = applied(box.times, x)
        other = itself(box).v
        box.v = 5
        return found, other

    with pytest.raises(GraphError, match="a Box of the pipeline was changed after a step had used it"):
        recorded(pipeline, 1)


def test_a_deque_is_as_it_was_when_it_was_used() -> None:
    def pipeline(x: Any) -> Any:
        queue = collections.deque([1], maxlen=5)
        before = applied(len, queue)
        queue.append(2)
        return before + x, list(queue), add_one(queue)  # type: ignore[arg-type]

    holds(pipeline, 1, 4)


class Outside:
    def __init__(self, base: Any) -> None:
        self.base = 0 if base is None else base


def test_a_class_inside_the_pipeline_with_a_constructor_from_outside_is_seen_through() -> None:
    def pipeline(x: Any) -> Any:
        class Inside(Outside):
            def total(self) -> Any:
                return self.base + (x or 0)

        return Inside(x).total()

    graph = holds(pipeline, 1, 4)
    refuses(graph, None)


def test_a_class_inside_the_pipeline_with_a_constructor_without_source_is_refused() -> None:
    scope: dict[str, Any] = {}
    exec("class Outside:\n    def __init__(self, base):\n        self.base = 0 if base is None else base", scope)
    without_source: Any = scope["Outside"]

    def pipeline(x: Any) -> Any:
        class Inside(without_source):  # type: ignore[misc]
            def total(self) -> Any:
                return self.base + x

        return Inside(x).total()

    with pytest.raises(GraphError, match="the class Inside goes by recorded values"):
        recorded(pipeline, 1)


def test_a_function_that_sees_values_is_given_to_a_library_with_those_of_each_run() -> None:
    def pipeline(given: Any) -> Any:
        numbers, by = given
        near = sorted(numbers)
        near.sort(key=lambda v: abs(v - by))
        numbers.sort(key=lambda v: 0 if by is None else -abs(v - by))
        return near, numbers

    holds(pipeline, [[3, 1, 2], 2], [[9, 8, 1], 5])


def test_a_function_that_changes_what_it_sees_is_not_given_to_a_library() -> None:
    def pipeline(numbers: Any) -> Any:
        seen = [numbers[0]]
        numbers.sort(key=lambda v: (seen.append(v), v)[1])  # type: ignore[func-returns-value]
        return seen

    with pytest.raises(GraphError):
        recorded(pipeline, [3, 1, 2])


def of_word(table: Any, word: str) -> Any:
    return table.get(word, len(word))


def test_a_function_that_looks_things_up_in_recorded_values_is_given_to_a_library() -> None:
    def pipeline(text: Any) -> Any:
        words = text.split()
        places = {word: number for number, word in enumerate(words)}
        best = heapq.nlargest(2, places, key=lambda word: (len(word), of_word(places, word)))
        numbered = re.sub(r"[a-z]+", lambda match: f"{places[match[0]]}", text)
        words.sort(key=lambda word: -places[word])
        return best, numbered, words

    graph = holds(pipeline, "a bb ccc", "one", "", "to be or not to be")
    assert not graph.guards


def test_what_such_a_function_sees_may_be_another_value_afterwards() -> None:
    def pipeline(numbers: Any) -> Any:
        by = itself({"by": list(numbers)})
        first = heapq.nsmallest(2, numbers, key=lambda v: by["by"][-1] * v)
        by["by"].append(-1)
        second = heapq.nsmallest(2, numbers, key=lambda v: by["by"][-1] * v)
        by = itself({"by": [1]})
        return first, second, by

    holds(pipeline, [3, 1, 2], [5, 6, 7, 1], [4])


def test_a_function_that_changes_what_it_sees_by_way_of_another_is_seen_through() -> None:
    def pipeline(numbers: Any) -> Any:
        seen = itself([])
        return heapq.nsmallest(2, numbers, key=lambda v: add_one(seen) * v), seen

    refuses(holds(pipeline, [3, 1, 2]), [1, 2, 3])

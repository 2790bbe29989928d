"""What a step may change in place for other inputs than its example's is in the graph: in doubt it may."""

from __future__ import annotations

import bisect
import heapq
from typing import Any

import numpy as np
import pytest

import clew
from clew.graph.recording.purity import function_only_reads
from graph.comparing import same


class Tool:
    def __init__(self) -> None:
        self.words = {"a": 1}

    def trim(self, xs: Any) -> int:
        if len(xs) > 2:
            del xs[0]
        return len(xs)

    def known(self, xs: Any) -> int:
        return sum(self.words.get(x, 0) for x in xs)

    def both(self, xs: Any) -> int:
        return self.known(xs) + self.trim(xs)

    def looked(self, xs: Any) -> int:
        return self.known(xs) + len(xs)


tool = Tool()


def trimmed(xs: Any) -> int:
    return tool.trim(xs)


def trimmed_by_another(xs: Any) -> int:
    cut = trimmed
    return cut(xs) + trimmed(xs)


def smallest_of(xs: Any) -> Any:
    return heapq.heappushpop(xs, 2)


def kept_sorted(xs: Any) -> int:
    bisect.insort_left(xs, 5) if len(xs) > 2 else None
    return 0


def summed(xs: Any) -> int:
    return len([x for x in xs if x]) + tool.looked(xs)


def added(values: Any) -> Any:
    np.add(values, 1, values) if values.size > 2 else None
    return 0


@pytest.mark.parametrize(
    "function", [trimmed, trimmed_by_another, smallest_of, kept_sorted, Tool.trim, tool.both, added]
)
def test_a_change_that_the_example_does_not_make_is_made_for_other_inputs(function: Any) -> None:
    step = clew.op(function) if function is not Tool.trim else clew.op(tool.trim)
    given: Any = [np.array([1, 2]), np.array([1, 2, 3])] if function is added else [[3, 4], [3, 4, 5]]

    def pipeline(xs: Any) -> Any:
        step(xs)
        return xs

    graph = clew.record(pipeline, xs=given[0].copy())
    for xs in given:
        assert same(graph(xs=xs.copy()), pipeline(xs.copy()))


def test_a_function_of_a_library_that_changes_its_argument_is_a_change() -> None:
    def pipeline(xs: Any) -> Any:
        heapq.heappushpop(xs, 2)
        return xs

    graph = clew.record(pipeline, xs=[3, 4])
    assert graph(xs=[1, 4]) == pipeline([1, 4]) == [2, 4]


def test_what_only_reads_is_known_to() -> None:
    assert function_only_reads(summed)
    assert function_only_reads(Tool.looked, tool)
    assert not function_only_reads(trimmed)
    assert not function_only_reads(Tool.both, tool)

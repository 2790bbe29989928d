"""Examples for which a pipeline did something else: the error names the constant, where it was made, and the remedy."""

from __future__ import annotations

import itertools
import operator
import warnings
from typing import Any

import pytest

import clew
from clew.errors import GraphError

COUNT = itertools.count(1)
STATE = {"n": 0}
FLAG = 0


class Config:
    mode = 0


config = Config()


@clew.op
def scaled(x: Any, by: Any, k: Any = 1) -> Any:
    return x * by * k


@pytest.fixture(autouse=True)
def counted_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "COUNT", itertools.count(1))
    monkeypatch.setitem(STATE, "n", 0)
    monkeypatch.setitem(globals(), "FLAG", 0)
    monkeypatch.setattr(config, "mode", 0, raising=False)


def refusal(pipeline: Any, *examples: Any) -> str:
    with warnings.catch_warnings(), pytest.raises(GraphError) as caught:
        warnings.simplefilter("ignore")  # of what the pipeline changes outside itself
        clew.record(pipeline, list(examples or (3, 4)))
    assert caught.value.slug == "graph-examples"
    return str(caught.value)


def test_a_variable_is_named_with_both_values_its_line_and_a_line_that_helps() -> None:
    def pipeline(x: Any) -> Any:
        by = next(COUNT)
        return scaled(x, by)

    text = refusal(pipeline)
    assert "`by` was 1 before, and is 2 for example 2" in text
    line = pipeline.__code__.co_firstlineno + 1
    assert f"(made at {__file__}:{line}: `by = next(COUNT)`)" in text
    assert "`by = clew.op(lambda: next(COUNT))()`" in text


def test_the_line_that_the_error_proposes_helps() -> None:
    def pipeline(x: Any) -> Any:
        by = clew.op(lambda: next(COUNT))()
        return scaled(x, by)

    graph = clew.record(pipeline, [3, 4])
    assert graph(10) == 30


def test_an_expression_in_the_call_is_named_as_it_is_written() -> None:
    assert "`next(COUNT)` was 1 before, and is 2 for example 2" in refusal(lambda x: scaled(x, next(COUNT)))
    assert "`next(COUNT)` was 3 before, and is 4" in refusal(lambda x: scaled(x, 2, k=next(COUNT)))


def test_a_decision_by_a_plain_value_is_named_with_its_variables() -> None:
    def pipeline(x: Any) -> Any:
        n = next(COUNT)
        if n % 2:
            x = x + 1
        else:
            x = x * 2
        return scaled(x, 1)

    text = refusal(pipeline)
    assert "`if n % 2:`" in text
    assert "went by True before, and by False for example 2" in text
    assert "`n` was 1 before, and is 2" in text


def test_a_decision_after_which_one_example_is_at_its_end_is_named() -> None:
    def pipeline(x: Any) -> Any:
        config.mode += 1
        if config.mode > 1:
            x = x - 1
        return x

    text = refusal(pipeline)
    assert "`if config.mode > 1:`" in text
    assert "`config.mode` was 1 before, and is 2" in text
    assert "`mode = clew.op(lambda: config.mode)()`" in text


def test_a_global_that_decides_is_named_and_stays_a_global_in_the_remedy() -> None:
    def pipeline(x: Any) -> Any:
        STATE["n"] += 1
        return x + 1 if STATE["n"] % 2 else x * 2

    text = refusal(pipeline)
    assert "`STATE` was {'n': 1} before, and is {'n': 2}" in text
    assert "`state = clew.op(lambda: STATE)()`" in text


def test_a_loop_over_a_plain_value_is_named() -> None:
    def pipeline(x: Any) -> Any:
        for number in range(next(COUNT)):
            x = x + number
        return x

    assert "went by 1 before, and by 2 for example 2" in refusal(pipeline)


def test_a_constant_that_comes_out_is_named() -> None:
    def pipeline(x: Any) -> Any:
        number = next(COUNT)
        return {"x": x + 1, "id": number}

    assert "`number` was 1 before, and is 2 for example 2" in refusal(pipeline)
    assert "`the output['id']` was 3 before, and is 4" in refusal(lambda x: {"x": x + 1, "id": next(COUNT)})


def test_a_variable_in_a_function_that_the_pipeline_calls_is_named() -> None:
    def helper(x: Any) -> Any:
        global FLAG
        FLAG += 1
        return x + FLAG

    text = refusal(lambda x: helper(x) * 2)
    assert "`FLAG` was 1 before, and is 2" in text
    assert "`FLAG += 1`" in text


def test_the_example_that_differs_is_counted() -> None:
    def pipeline(x: Any) -> Any:
        n = next(COUNT)
        return scaled(x, n > 2)

    text = refusal(pipeline, 1, 2, 3)
    assert "another example (3)" in text
    assert "was False before, and is True for example 3" in text


def test_examples_that_decide_by_their_inputs_are_merged_as_before() -> None:
    def pipeline(x: Any) -> Any:
        for _ in range(2):
            x = x + 1
        return x if x > 4 else -x

    graph = clew.record(pipeline, [1, 9])
    assert [graph(x) for x in (1, 2, 9)] == [pipeline(x) for x in (1, 2, 9)]
    assert all(step.scope is None for step in graph.steps)


def test_getters_that_are_made_anew_for_each_example_are_the_same() -> None:
    graph = clew.record(lambda xs: operator.itemgetter(1)(xs), [([1, 2],), ([3, 4],)])
    assert graph([5, 6]) == 6

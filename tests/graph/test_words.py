"""Values in a few words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clew
from clew.errors import GuardError
from clew.graph.brief_values import words


class Loud:
    def __repr__(self) -> str:
        raise AssertionError("looked at")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "3"),
        ("a", "'a'"),
        ((1,), "(1,)"),
        ([], "[]"),
        ({"a": [1, {2}]}, "{'a': [1, {2}]}"),
        (frozenset({1}), "frozenset({1})"),
        (int, "<class 'int'>"),
        (slice(None, 2), ":2"),
        (slice(1, 2, 3), "1:2:3"),
        (Loud(), "a Loud"),
        ([Loud()], "[a Loud]"),
        (np.arange(2), "array([0, 1])"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 20 in all]"),
    ],
)
def test_plain_values_are_written_out_and_others_named_by_their_type(value: Any, said: str) -> None:
    assert words(value) == said


@pytest.mark.parametrize(
    "value", ["x" * 10**6, [["y" * 10**6]] * 50, np.zeros((50, 50)), {str(n): n for n in range(10**5)}]
)
def test_words_are_never_many(value: Any) -> None:
    assert len(words(value)) <= 200
    assert len(words(value, 24)) <= 24


def test_a_decision_by_a_value_of_any_size_is_told_in_a_few_words_and_kept_whole() -> None:
    graph = clew.record(lambda text: {text: 1}[text] if hash(text) else 0, "a" * 5000)
    with pytest.raises(GuardError) as caught:
        graph(text="")
    assert len(str(caught.value)) < 1000
    assert caught.value.seen is False

"""A graph that would decide otherwise than its example did says so, with the line and both values."""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import GraphError, GuardError
from graph.comparing import holds, recorded, refuses


@clew.op
def listed(n: int) -> list[int]:
    return list(range(n))


def by_if(x: Any) -> Any:
    if x > 3:
        return x
    return 0


def by_and(x: Any) -> Any:
    return x > 1 and x < 5 and x


def by_ternary(x: Any) -> Any:
    return "big" if x > 3 else "small"


def by_in(x: Any) -> Any:
    return "known" if x in (4, 5, 6) else "new"


def by_length(x: Any) -> Any:
    return "long" if len(listed(x)) > 3 else "short"


def by_identity_in_a_chain(x: Any) -> Any:
    return 1 < x is not None > 3 if x is None else 3 < x


def by_assertion(x: Any) -> Any:
    try:
        assert x > 3
    except AssertionError:
        return "small"
    return "big"


def by_key_of_a_dictionary(x: Any) -> Any:
    return {x: [1]}


def by_match(x: Any) -> Any:
    match [x, 1]:
        case [4, _]:
            return "four"
        case [_, one]:
            return one


def by_a_recorded_key(x: Any) -> Any:
    return sorted([1, 9], key=lambda v: abs(v - x))


@pytest.mark.parametrize(
    ("pipeline", "example", "same", "other"),
    [
        (by_if, 4, 7, 2),
        (by_and, 4, 3, 0),
        (by_ternary, 4, 9, 1),
        (by_in, 4, 6, 9),
        (by_length, 4, 8, 2),
        (by_assertion, 4, 5, 2),
        (by_key_of_a_dictionary, 4, 4, 5),
        (by_match, 4, 4, 5),
        (by_a_recorded_key, 4, 3, 8),
    ],
)
def test_a_decision_holds_while_it_is_the_same(
    pipeline: Callable[..., Any], example: Any, same: Any, other: Any
) -> None:
    graph = holds(pipeline, example, same)
    assert f"{__file__}:" in refuses(graph, other)


def test_the_message_has_the_file_the_line_the_condition_and_both_values() -> None:
    line = by_if.__code__.co_firstlineno + 1
    with pytest.raises(GuardError) as caught:
        recorded(by_if, 4)(1)
    said = f"{__file__}:{line}: `if x > 3:` decided by a value that was True, and now is False."
    assert str(caught.value).startswith(said)
    assert caught.value.expected == [True]
    assert caught.value.seen is False


def test_what_raised_must_raise_again() -> None:
    def pipeline(text: Any) -> Any:
        try:
            return int(text)
        except ValueError:
            return -1

    graph = holds(pipeline, "abc", "x")
    assert "was 'ValueError', and now is 'nothing raised'" in refuses(graph, "12")


def test_what_did_not_raise_inside_try_must_not_raise() -> None:
    def pipeline(text: Any) -> Any:
        try:
            int(text)
        except ValueError:
            return "text"
        return "number"

    graph = holds(pipeline, "12", "7")
    assert "was 'nothing raised', and now is 'ValueError'" in refuses(graph, "abc")


def test_a_message_that_the_pipeline_reads_is_guarded_word_by_word() -> None:
    def pipeline(text: Any) -> Any:
        try:
            return int(text)
        except ValueError as error:
            return str(error)

    graph = holds(pipeline, "abc")
    refuses(graph, "xyz")


def test_what_a_context_manager_swallowed_is_no_silent_difference() -> None:
    def pipeline(d: Any) -> Any:
        found = "no"
        with contextlib.suppress(KeyError):
            d["a"]
            found = "yes"
        return found

    refuses(recorded(pipeline, {}), {"a": 1})
    refuses(recorded(pipeline, {"a": 1}), {})
    both = clew.record(pipeline, [{"a": 1}, {}])
    assert (both({"a": 5}), both({})) == ("yes", "no")


def test_a_value_of_another_recording_is_refused() -> None:
    kept: list[Any] = []

    def first(x: Any) -> Any:
        kept.append(x)
        return clew.record(lambda y: y + kept[0], 1)

    with pytest.raises(GraphError, match="another recording"):
        recorded(first, 3)


def test_a_group_of_the_pipeline_s_own_is_chosen_by_the_example_only() -> None:
    def pipeline(key: Any) -> Any:
        groups: dict[str, list[int]] = {"a": [], "b": []}
        groups[key].append(1)
        return groups

    refuses(holds(pipeline, "a"), "b")


def test_the_error_has_the_place_the_condition_and_both_values() -> None:
    def pipeline(x: int) -> int:
        return x if x > 3 else -x

    graph = clew.record(pipeline, 5)
    with pytest.raises(clew.GuardError) as caught:
        graph(x=1)
    error = caught.value
    assert (Path(error.file).name, error.condition) == ("test_guards.py", "return x if x > 3 else -x")
    assert linecache.getline(error.file, error.line).strip() == error.condition
    assert (error.expected, error.seen) == ([True], False)

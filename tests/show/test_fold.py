"""What repeats is folded; what differs is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clew.show import fold
from clew.show.fold import Group, Shapes, groups
from show.fakes import FakeCall, FakeChange


def shapes() -> Shapes:
    return Shapes(lambda call: call.events)


def same(one: Any, other: Any) -> bool:
    group = shapes()
    return group.of(one) == group.of(other)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("", []),
        ("a", [Group(0)]),
        ("aa", [Group(0), Group(1)]),
        ("aaa", [Group(0, 1, 3)]),
        ("aaabaaaa", [Group(0, 1, 3), Group(3), Group(4, 1, 4)]),
        ("abababab", [Group(0, 2, 4)]),
        ("xabcabcabcy", [Group(0), Group(1, 3, 3), Group(10)]),
        ("aabaabaab", [Group(0, 3, 3)]),
        ("abcd", [Group(0), Group(1), Group(2), Group(3)]),
    ],
)
def test_equal_rounds_are_one_group(events: str, expected: list[Group]) -> None:
    assert list(groups(events)) == expected


def test_groups_cover_every_event_once() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        events = rng.integers(0, 3, rng.integers(0, 40)).tolist()
        found = list(groups(events))
        assert [place for group in found for place in range(group.start, group.end)] == list(range(len(events)))
        for group in found:
            rounds = [events[begin : begin + group.period] for begin in range(group.start, group.end, group.period)]
            assert all(first == rounds[0] for first in rounds)


def test_calls_that_differ_in_content_only_have_one_shape() -> None:
    first = FakeCall("f", {"x": np.zeros(3)}, 1, duration=0.1).calls(FakeChange("y", 1), FakeCall("g"))
    second = FakeCall("f", {"x": np.ones(3)}, 2, duration=0.9).calls(FakeChange("y", 7), FakeCall("g"))
    assert same(first, second)


@pytest.mark.parametrize(
    "other",
    [
        FakeCall("g", {"x": 1}, 1),
        FakeCall("f", {"x": 1.0}, 1),
        FakeCall("f", {"z": 1}, 1),
        FakeCall("f", {"x": 1}, None),
        FakeCall("f", {"x": 1}, 1, error="ValueError: no"),
        FakeCall("f", {"x": 1}, 1, duration=None),
        FakeCall("f", {"x": 1}, 1).calls(FakeChange("y", 1)),
        FakeCall("f", {"x": 1}, 1).calls(FakeCall("g")),
    ],
)
def test_a_call_that_differs_has_another_shape(other: FakeCall) -> None:
    assert not same(FakeCall("f", {"x": 1}, 1), other)


def test_a_difference_far_down_is_a_difference() -> None:
    first = FakeCall("f").calls(FakeCall("g").calls(FakeCall("h", {"x": 1})))
    second = FakeCall("f").calls(FakeCall("g").calls(FakeCall("h", {"x": "1"})))
    assert not same(first, second)


def test_calls_that_raised_are_never_alike() -> None:
    assert not same(FakeCall(error="ValueError"), FakeCall(error="ValueError"))


def test_changes_are_alike_by_name_line_and_kind_of_value() -> None:
    assert same(FakeChange("x", 1.0), FakeChange("x", 2.0))
    assert not same(FakeChange("x", 1.0), FakeChange("y", 1.0))
    assert not same(FakeChange("x", 1.0, line=3), FakeChange("x", 1.0, line=4))
    assert not same(FakeChange("x", np.zeros(3)), FakeChange("x", np.zeros(4)))


def test_messages_are_alike_by_their_place() -> None:
    first_place, second_place = [("a.py", 3, "f")], [("a.py", 4, "f")]
    assert same(
        FakeCall("<log>", message="1", callers=first_place), FakeCall("<log>", message="2", callers=first_place)
    )
    assert not same(
        FakeCall("<log>", message="1", callers=first_place), FakeCall("<log>", message="1", callers=second_place)
    )


def test_a_recursion_deeper_than_pythons_has_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "LARGEST", 10**9)

    def deep() -> FakeCall:
        call = FakeCall()
        for _ in range(5_000):
            call = FakeCall().calls(call)
        return call

    group = Shapes(lambda call: call.events, budget=10**9)
    assert group.of(deep()) == group.of(deep())


def test_a_large_call_stands_on_its_own_and_small_ones_in_it_still_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "LARGEST", 10)
    group = shapes()
    large = FakeCall("epoch").calls(*(FakeCall("step") for _ in range(50)))
    second_group = FakeCall("epoch").calls(*(FakeCall("step") for _ in range(50)))
    assert group.of(large) != group.of(second_group)
    assert len({group.of(step) for step in large.events}) == 1


def test_reading_ends_when_enough_was_read() -> None:
    group = Shapes(lambda call: call.events, budget=5)
    calls = [FakeCall() for _ in range(5)]
    for call in calls:
        assert not group.exhausted
        group.of(call)
    assert group.exhausted

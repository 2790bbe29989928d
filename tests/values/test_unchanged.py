"""`unchanged`: True only while nothing that can be reached has changed."""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

from clew.values import capture


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a = 1


class Words(list[Any]):
    pass


def _drop_slot(obj: Slotted) -> None:
    del obj.a


CHANGES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: [1, 2], lambda v: v.append(3)),
    (lambda: [1, 2], lambda v: v.__setitem__(0, 1.0)),
    (lambda: [1, 2], lambda v: v.reverse()),
    (lambda: [1, [2, [3]]], lambda v: v[1][1].append(4)),
    (lambda: ([1],), lambda v: v[0].clear()),
    (lambda: {"a": 1}, lambda v: v.update(a=2)),
    (lambda: {"a": 1}, lambda v: v.update(b=2)),
    (lambda: {"a": 1, "b": 2}, lambda v: v.update(a=v.pop("a"))),
    (lambda: {"a": {"b": [1]}}, lambda v: v["a"]["b"].append(2)),
    (lambda: {1, 2}, lambda v: v.add(3)),
    (lambda: {1, 2}, lambda v: v.discard(1)),
    (lambda: deque([1, 2]), lambda v: v.rotate(1)),
    (lambda: OrderedDict(a=1, b=2), lambda v: v.move_to_end("a")),
    (lambda: Counter("ab"), lambda v: v.update("a")),
    (lambda: defaultdict(list), lambda v: v["new"]),
    (lambda: defaultdict(list), lambda v: setattr(v, "default_factory", dict)),
    (lambda: bytearray(b"abc"), lambda v: v.__setitem__(1, 0)),
    (lambda: [bytearray(b"abc")], lambda v: v[0].extend(b"d")),
    (lambda: Point(1), lambda v: setattr(v, "x", 2)),
    (lambda: Point([1]), lambda v: v.x.append(2)),
    (lambda: Point(1), lambda v: setattr(v, "new", 2)),
    (lambda: Point(1), lambda v: delattr(v, "x")),
    (lambda: Point(1), lambda v: setattr(v, "__dict__", {"x": 2})),
    (lambda: [Point(Point(1))], lambda v: setattr(v[0].x, "x", 5)),
    (Slotted, lambda v: setattr(v, "b", 2)),
    (Slotted, _drop_slot),
    (lambda: Words([1]), lambda v: v.append(2)),
    (lambda: Words([1]), lambda v: setattr(v, "tag", 2)),
    (lambda: [1] * 10_000, lambda v: v.__setitem__(5000, 2)),
]


@pytest.mark.parametrize(("make", "change"), CHANGES, ids=[str(i) for i in range(len(CHANGES))])
def test_any_change_in_reach_is_noticed(make: Callable[[], Any], change: Callable[[Any], Any]) -> None:
    value = make()
    found = capture(value)
    assert found.unchanged(value)
    change(value)
    assert not found.unchanged(value)
    assert capture(value).digest != found.digest


def test_a_class_exchanged_under_an_object_is_a_change() -> None:
    class Other(Point):
        pass

    value = Point(1)
    found = capture(value)
    object.__setattr__(value, "__class__", Other)
    assert not found.unchanged(value)
    assert capture(value).digest != found.digest


def test_an_element_replaced_by_an_equal_one_may_be_changed_but_has_the_same_digest() -> None:
    value = [1000, [2000.5]]
    found = capture(value)
    value[1] = [float("2000.5")]
    assert capture(value).digest == found.digest


def test_another_object_is_not_the_same_one() -> None:
    assert not capture([1]).unchanged([1])
    assert not capture([1]).unchanged(None)
    assert not capture(1).unchanged(True)
    assert capture(1.5).unchanged(float("1.5"))


def test_a_captured_value_is_not_touched_by_later_changes() -> None:
    from clew.values import decode

    value = {"a": [1, 2], "b": bytearray(b"x")}
    found = capture(value)
    value["a"].append(3)
    value["b"][0] = 0
    assert decode(found.value) == {"a": [1, 2], "b": bytearray(b"x")}

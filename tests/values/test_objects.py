"""Instances of classes, enums, named tuples, functions and other things with a name."""

from __future__ import annotations

import abc
import dataclasses
import enum
import threading
import types
import typing
from typing import Any, NamedTuple

import pytest

from clew.records import Kept, NotKept, Object
from clew.values import capture, decode


@dataclasses.dataclass
class Config:
    lr: float
    layers: list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: int


class Row(NamedTuple):
    a: int
    b: str


class Color(enum.Enum):
    RED = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Flags(enum.Flag):
    A = 1
    B = 2


class Link:
    def __init__(self, next: Any = None) -> None:
        self.next = next


def test_a_dataclass_reads_back_with_its_attributes() -> None:
    back = decode(capture(Config(0.1, [1, 2])).value)
    assert isinstance(back, Object)
    assert back.type.endswith("Config")
    assert back.attributes == {"lr": 0.1, "layers": [1, 2]}


def test_slots_are_attributes() -> None:
    assert decode(capture(Frozen(5)).value).attributes == {"a": 5}


def test_a_named_tuple_reads_back_with_its_fields() -> None:
    assert decode(capture(Row(1, "x")).value).attributes == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("member", "name", "value"),
    [(Color.RED, "RED", (1, 2)), (Level.LOW, "LOW", 1), (Flags.A | Flags.B, "A|B", 3)],
)
def test_an_enum_member_reads_back_with_name_and_value(member: Any, name: str, value: Any) -> None:
    found = capture(member)
    assert decode(found.value).attributes == {"name": name, "value": value}
    assert found.unchanged(member)


def test_subclasses_of_builtins_keep_content_type_and_attributes() -> None:
    class Tagged(list[Any]):
        pass

    value = Tagged([1, 2])
    value.tag = "x"  # type: ignore[attr-defined]
    found = capture(value)
    assert found.value.kept is Kept.FULL
    back = decode(found.value)
    assert back.type.endswith("Tagged") and back.attributes == {"value": [1, 2], "tag": "x"}


def test_an_attribute_named_value_does_not_hide_the_content() -> None:
    class Number(int):
        pass

    value = Number(5)
    value.value = "mine"  # type: ignore[attr-defined]
    assert decode(capture(value).value).attributes == {"value_": 5, "value": "mine"}


def test_a_subclass_differs_from_its_base() -> None:
    class Text(str):
        __slots__ = ()

    assert capture(Text("a")).digest != capture("a").digest
    assert capture([Text("a")]).digest != capture(["a"]).digest


def test_objects_are_followed_three_deep_and_then_by_identity() -> None:
    chain = Link(Link(Link(Link(Link()))))
    found = capture(chain)
    assert found.value.kept is Kept.PART and "3 objects deep" in found.value.why
    third = decode(found.value).part.next.next
    assert isinstance(third, Object) and isinstance(third.next, NotKept)
    chain.next.next.next = Link()
    assert not found.unchanged(chain)
    assert capture(chain).digest != found.digest


def test_containers_between_objects_do_not_count_as_depth() -> None:
    found = capture(Link([{"a": (Link([[Link(1)]]),)}]))
    assert found.value.kept is Kept.FULL


def test_an_object_that_holds_itself_reads_back_so() -> None:
    value = Link()
    value.next = [value]
    back = decode(capture(value).value)
    assert back.next[0] is back


def test_objects_of_two_classes_with_the_same_attributes_differ() -> None:
    class Other:
        def __init__(self) -> None:
            self.next = None

    assert capture(Link()).digest != capture(Other()).digest


def some_function() -> None:
    pass


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (some_function, "some_function"),
        (len, "len"),
        (Config, "Config"),
        (types, "types"),
        (Link(1).__init__, "Link.__init__"),
    ],
)
def test_things_with_a_name_are_opaque_and_named(value: Any, name: str) -> None:
    found = capture(value)
    back = decode(found.value)
    assert found.value.kept is Kept.OPAQUE
    assert isinstance(back, NotKept) and back.part.endswith(name)


def test_opaque_things_are_compared_by_identity() -> None:
    lock = threading.Lock()
    found = capture(lock)
    assert found.unchanged(lock) and not found.unchanged(threading.Lock())
    assert capture(lock).digest == found.digest
    assert capture(threading.Lock()).digest != found.digest


def test_generators_files_and_machinery_are_left_alone(tmp_path: Any) -> None:
    generator = (i for i in range(3))
    iterator = iter([1, 2])
    with open(tmp_path / "f", "w") as file:
        for value in (generator, iterator, file, threading.Thread(), object(), map(str, [1])):
            assert capture(value).value.kept is Kept.OPAQUE
    assert next(generator) == 0 and next(iterator) == 1


def test_an_object_that_holds_something_opaque_says_so() -> None:
    found = capture(Link(threading.Lock()))
    assert found.value.kept is Kept.PART and "lock" in found.value.why


def test_an_exception_keeps_its_arguments_and_notes() -> None:
    error = ValueError("bad", 5)
    error.add_note("here")
    assert decode(capture(error).value).attributes == {"args": ("bad", 5), "__notes__": ["here"]}


def test_abstract_generic_and_protocol_classes_are_plain() -> None:
    T = typing.TypeVar("T")

    class Base(abc.ABC, typing.Generic[T]):
        def __init__(self) -> None:
            self.x = 1

    found = capture(Base())
    assert found.value.kept is Kept.FULL
    assert decode(found.value).attributes == {"x": 1}


def test_an_object_on_a_c_base_says_that_there_may_be_more() -> None:
    import io

    class Mine(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.x = 1

    found = capture(Mine())
    assert found.value.kept is Kept.PART and "StringIO" in found.value.why


def test_an_object_too_deep_to_follow_may_be_met_twice() -> None:
    class Holder:
        def __init__(self, **held: object) -> None:
            self.__dict__ |= held

    deep = Holder(n=1)
    back = decode(capture(Holder(x=Holder(n=Holder(t=deep, u=deep)), y=deep)).value)
    assert isinstance(back, NotKept) and "3 objects deep" in back.why
    assert back.part.y.n == 1
    assert isinstance(back.part.x.n.u, NotKept)

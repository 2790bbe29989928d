"""Markers for values of which only the type was noted."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from clew.records import Kept, NotKept
from clew.values import capture, decode, parse_keep, type_name, unlooked


class Config:
    pass


class _Loud(type):
    def __hash__(cls) -> int:
        raise AssertionError("user code ran")

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError("user code ran")


def test_a_marker_knows_the_name_of_the_type_as_people_write_it() -> None:
    assert unlooked([]).type == "list"
    assert unlooked(Config()).type == type_name(Config) == f"{__name__}.Config"


def test_a_marker_in_a_dict_reads_back_as_not_kept() -> None:
    found = capture({"n": 3, "cfg": unlooked(Config()), "more": [unlooked([])]})
    back = decode(found.value)
    assert isinstance(back, NotKept) and back.kept is Kept.PART
    assert back.part["n"] == 3
    for marker, name in ((back.part["cfg"], type_name(Config)), (back.part["more"][0], "list")):
        assert type(marker) is NotKept
        assert (marker.type, marker.kept, marker.why) == (name, Kept.OPAQUE, "only its type was noted")


def test_a_marker_by_itself_reads_back_as_not_kept() -> None:
    found = capture(unlooked(Config()))
    assert (found.value.type, found.value.kept, found.value.why) == (
        type_name(Config),
        Kept.OPAQUE,
        "only its type was noted",
    )
    assert decode(found.value) == NotKept(type_name(Config), Kept.OPAQUE, found.value.why, found.value.summary)


def test_a_marker_has_one_digest_whatever_is_kept_around_it() -> None:
    value = {"n": 3, "cfg": unlooked(Config())}
    found = capture(value)
    assert capture(value, parse_keep("summary")).digest == found.digest
    assert capture({"n": 3, "cfg": unlooked([])}).digest != found.digest


def test_markers_of_one_type_are_equal_and_of_two_types_are_not() -> None:
    assert capture(unlooked([1])).digest == capture(unlooked([2])).digest
    assert capture(unlooked([1])).digest != capture(unlooked({})).digest


def test_making_a_marker_asks_nothing_of_a_metaclass() -> None:
    class Odd(metaclass=_Loud):
        pass

    assert unlooked(object.__new__(Odd)).type.endswith("Odd")


def test_a_class_that_was_marked_can_go() -> None:
    class Brief:
        pass

    unlooked(Brief())
    ref = weakref.ref(Brief)
    del Brief
    gc.collect()
    assert ref() is None

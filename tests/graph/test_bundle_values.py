"""Constants of a graph come back as what they were."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import math
import re
import threading
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import clew
from clew.values import capture


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: str


@dataclass
class Settings:
    size: int
    parts: list[Any] = field(default_factory=list)


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x: int) -> None:
        self.x = x


class Text(str):
    pass


@clew.op
def given(x: Any, constant: Any) -> Any:
    return x, constant


def came_back(value: Any, tmp_path: Path) -> Any:
    graph = clew.record(lambda x: given(x, value), 1)
    graph.save(tmp_path / "bundle")
    return clew.load(tmp_path / "bundle", trusted=True)(x=1)[1]


EQUAL = [
    None, True, 0, -5, 2**80, 1.5, -0.0, math.inf, "text", "ü€\ud800", "", 3 - 2j,
    complex(math.nan, -0.0), b"", b"bytes",
    b"x" * 10_000, [], [1, [2.0, "three"]], (), (1, (2,)), {1, 2}, frozenset({"a"}), {"$": "dict", 1: {"a": [None]}},
    slice(1, None, 2), range(3, 10, 2), ..., NotImplemented, int, type(None), dict,
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    datetime.timedelta(1, 2, 3), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), decimal.Decimal("1.10"),
    fractions.Fraction(1, 3), uuid.UUID(int=7), re.compile("a+", re.IGNORECASE), Path("some/where"), OrderedDict(a=1),
    Counter("aab"), deque([1, 2], 5), len, math.sqrt, np.sqrt, np.float32, functools.reduce,
]  # fmt: skip


@pytest.mark.parametrize("value", EQUAL, ids=lambda value: repr(value)[:20])
def test_plain_values_and_those_of_the_standard_library(value: Any, tmp_path: Path) -> None:
    again = came_back(value, tmp_path)
    assert type(again) is type(value)
    if isinstance(value, (float, complex)):
        assert repr(again) == repr(value)
    else:
        assert again == value


ARRAYS = [
    np.arange(6, dtype=np.int16).reshape(2, 3), np.array(1.5), np.zeros((0, 3)), np.array([True, False]),
    np.arange(6.0).reshape(2, 3).T, np.arange(10)[::2], np.array([1 + 2j]),
    np.array(["a", "ün"]), np.array([b"x", b"yz"]),
    np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), np.array([1, 2], dtype=">i4"), np.float16([1, np.nan]),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.zeros(2, dtype=np.dtype([("a", "u1"), ("b", "f8", (2, 2))], align=True)),
    np.array([1, None, "x"], dtype=object), np.longdouble([1.5]), np.array([3], dtype="timedelta64[s]"),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_of_every_kind(array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    again = came_back(array, tmp_path)
    assert (again.dtype, again.shape, again.flags.writeable) == (array.dtype, array.shape, True)
    assert capture(again).digest == capture(array).digest


@pytest.mark.parametrize("scalar", [np.float32(1.5), np.int64(3), np.bool_(True), np.str_("ab"), np.datetime64("2020")])
def test_scalars_of_numpy(scalar: Any, tmp_path: Path) -> None:
    again = came_back(scalar, tmp_path)
    assert (type(again), again) == (type(scalar), scalar)


def test_objects_of_the_users_own(tmp_path: Path) -> None:
    slotted = Slotted(4)
    color, pair, settings, slot, text = came_back(
        (Colour.RED, Pair(1, "b"), Settings(3, [1]), slotted, Text("t")), tmp_path
    )
    assert (color.name, type(color).__name__) == ("RED", "Colour")
    assert (pair.a, pair.b, type(pair).__name__) == (1, "b", "Pair")
    assert (settings.size, settings.parts) == (3, [1])
    assert slot.x == 4
    assert type(text).__name__ == "Text"


def test_what_was_one_object_is_one_object_again(tmp_path: Path) -> None:
    settings, array = Settings(1), np.zeros(2)
    settings.parts = [settings, array]
    first, second, same = came_back((settings, settings, array), tmp_path)
    assert first is second
    assert first.parts[0] is first
    assert first.parts[1] is same


def test_functions_of_every_origin(tmp_path: Path) -> None:
    base = 10

    def nested(x: int, factor: int = base, *, more: int = 1) -> int:
        return nested(x - 1) if x > 100 else x * factor + base + more

    half = functools.partial(round, ndigits=1)
    inner, lamb, bound, partial, library = came_back((nested, lambda x: x + base, "-".join, half, math.sqrt), tmp_path)
    assert inner(1) == nested(1) == 21
    assert lamb(1) == 11
    assert bound(["a", "b"]) == "a-b"
    assert partial(1.26) == 1.3
    assert library is math.sqrt


@functools.lru_cache(maxsize=3)
def remembered(x: int) -> int:
    return x + 1


def test_functions_with_a_cache(tmp_path: Path) -> None:
    base = 10
    plain = functools.lru_cache(maxsize=7, typed=True)(lambda x: x + base)
    again, named = came_back((plain, remembered), tmp_path)
    assert again(1) == again(1) == 11 and again.cache_info() == (1, 1, 7, 1)
    assert again.cache_parameters() == {"maxsize": 7, "typed": True}
    assert named(1) == 2 and named.cache_parameters()["maxsize"] == 3


def test_what_goes_too_deep_is_told_like_anything_that_cannot_be_saved(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    graph = clew.record(lambda x: given(x, 0), 1)
    graph.attrs["deep"] = deep
    with pytest.raises(clew.ClewError, match="cannot be saved: RecursionError") as caught:
        graph.save(tmp_path / "bundle")
    assert caught.value.slug == "bundle-cannot-save" and list(tmp_path.iterdir()) == []


def test_defaultdict_keeps_its_factory(tmp_path: Path) -> None:
    again = came_back(defaultdict(list, a=[1]), tmp_path)
    assert again["b"] == [] and again["a"] == [1]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (threading.Lock(), "lock"),
        (iter([1]), "used up"),
        ((x for x in [1]), "used up"),
    ],
    ids=["lock", "iterator", "generator"],
)
def test_what_cannot_be_saved_is_named_with_its_line_and_the_ways_out(value: Any, why: str, tmp_path: Path) -> None:
    holder = Settings(1, [value])
    graph = clew.record(lambda x: given(x, holder), 1)
    with pytest.raises(clew.ClewError, match=why) as caught:
        graph.save(tmp_path / "bundle")
    assert caught.value.slug == "bundle-cannot-save"
    assert "(given)" in str(caught.value) and "test_bundle_values.py:" in str(caught.value)
    assert "clew.op class" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_list_that_contains_itself_is_refused(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    graph = clew.record(lambda x: given(x, 0), 1)
    graph.attrs["loop"] = loop
    with pytest.raises(clew.ClewError, match="contains itself"):
        graph.save(tmp_path / "bundle")

"""Any value as one short line, without running anybody's code."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
import types
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clew.records import DELETED, Kept, NotKept, Object, Summary
from clew.text.brief import brief, duration, ending, printable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "True"),
        (None, "None"),
        (0.1, "0.1"),
        (1 / 3, "0.333333"),
        (1e-30, "1e-30"),
        (float("nan"), "nan"),
        (-0.0, "-0.0"),
        (float("-inf"), "-inf"),
        (1 + 2j, "(1+2j)"),
        ("a'b", '"a\'b"'),
        (b"\x00", "b'\\x00'"),
        ([1, [2]], "[1, [2]]"),
        ((1,), "(1,)"),
        ((), "()"),
        ({"a": 1}, "{'a': 1}"),
        (set(), "{}"),
        (DELETED, "deleted"),
        (2**300, "<int of 301 bits>"),
        (Object("pkg.Config", {"lr": 0.1}), "Config(lr=0.1)"),
        (np.arange(3), "int64[3] [0, 1, 2]"),
        (np.zeros((20, 30), np.float32), "float32[20, 30]"),
        (np.float32(1.5), "1.5"),
        (np.array(2.5), "2.5 (float64)"),
        (range(3), "range(0, 3)"),
        (types.SimpleNamespace(lr=0.1, inner=types.SimpleNamespace()), "namespace(lr=0.1, inner=namespace())"),
        (collections.deque([1, 2]), "deque([1, 2])"),
        (collections.OrderedDict(a=1), "OrderedDict({'a': 1})"),
        (datetime.date(2024, 1, 2), "datetime.date(2024, 1, 2)"),
        (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "datetime.datetime(2024, 1, 2, 0, 0, tzinfo=dateti…"),
        (decimal.Decimal("1.10"), "Decimal('1.10')"),
        (fractions.Fraction(1, 3), "Fraction(1, 3)"),
        (uuid.UUID(int=1), "UUID('00000000-0000-0000-0000-000000000001')"),
        (pathlib.PurePosixPath("/a"), "PurePosixPath('/a')"),
        (object(), "<object>"),
        (len, "<builtin_function_or_method>"),
        (int, "<type>"),
    ],
)
def test_a_value_in_short(value: Any, text: str) -> None:
    assert brief(value, 50) == text


@pytest.mark.parametrize("value", ["x" * 10**6, list(range(10**6)), {i: i for i in range(10**5)}, b"x" * 10**6])
def test_a_long_value_is_cut_to_the_width(value: Any) -> None:
    assert len(brief(value, 40)) <= 40


def test_the_amount_left_out_is_stated_where_there_is_room() -> None:
    assert brief([[0]] * 100, 1000).endswith("… 36 more]")


def test_a_deep_or_cyclic_value_ends() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert brief(cycle) == "[[[[[…]]]]]"
    assert brief({"a": {"b": {"c": {"d": {"e": {}}}}}}).count("…") == 1


def test_control_characters_cannot_act() -> None:
    assert "\x1b" not in brief("\x1b[31mred\x1b[0m")
    assert printable("a\x1b[2Jb\n\u202e") == "a\\x1b[2Jb\\n\\u202e"
    assert printable("naïve ×") == "naïve ×"


def test_what_was_not_kept_says_so() -> None:
    array = NotKept(
        "numpy.ndarray", Kept.SUMMARY, "over 32 MiB", Summary(shape=(9, 9), dtype="float32", min=0.0, max=1.0)
    )
    assert brief(array) == "<float32[9, 9] 0.0…1.0, summary only>"
    part = NotKept("list", Kept.PART, "too long", Summary(length=10**6), part=[1, 2])
    assert brief(part) == "[1, 2] (a part)"
    assert brief(NotKept("pkg.Lock", Kept.OPAQUE, "", Summary())) == "<Lock>"
    assert brief(NotKept("str", Kept.PART, "", Summary(length=5000))) == "<str of 5,000, a part kept>"


class Hostile:
    """Everything one can ask of it raises."""

    def _no(self, *args: Any) -> Any:
        raise AssertionError("user code was run")

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __hash__ = __bool__ = __getattribute__ = __format__ = _no  # type: ignore[assignment]


class HostileList(list[int]):
    __repr__ = __iter__ = __len__ = Hostile._no  # type: ignore[assignment]


class HostileArray(np.ndarray[Any, Any]):
    __repr__ = __str__ = Hostile._no  # type: ignore[assignment]

    @property
    def shape(self) -> Any:  # type: ignore[override]
        raise AssertionError("user code was run")


class Pretender:
    __repr__ = Hostile._no

    @property
    def shape(self) -> Any:
        raise AssertionError("user code was run")


Pretender.__module__, Pretender.__qualname__ = "numpy", "ndarray"


class Zone(datetime.tzinfo):
    __repr__ = utcoffset = tzname = dst = Hostile._no  # type: ignore[assignment]


@pytest.mark.parametrize(
    "make",
    [
        Hostile,
        lambda: [Hostile()],
        lambda: {"a": Hostile()},
        lambda: HostileList([1]),
        lambda: np.ndarray.__new__(HostileArray, 3),
        Pretender,
        lambda: datetime.datetime(2024, 1, 1, tzinfo=Zone()),
        lambda: Object("x", {"a": Hostile()}),
    ],
)
def test_no_user_code_is_run(make: Callable[[], Any]) -> None:
    assert brief(make())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "…"),
        (2e-9, "2 ns"),
        (1.5e-5, "15 µs"),
        (0.0123, "12.3 ms"),
        (2.5, "2.5 s"),
        (125, "2 min 5 s"),
        (7300, "2 h 1 min"),
    ],
)
def test_durations_for_people(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_how_a_call_ended() -> None:
    assert ending(None, None) == "not ended"
    assert ending(0.5, None) == "500 ms"
    assert ending(0.5, "ValueError: \x1b") == "raised ValueError: \\x1b after 500 ms"

"""Scalars, text and the small immutable types of the standard library."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import json
import math
import pathlib
import sys
import uuid
import zoneinfo
from typing import Any

import pytest

from clew.records import Kept, NotKept, Object
from clew.values import SCALARS, Keep, capture, decode, parse_keep, same_scalar

SCALAR_VALUES: list[Any] = [
    0, 1, -1, 2**53 + 1, -(2**200), 10**5000, True, False, None,
    0.0, -0.0, 1.0, 1e300, 5e-324, math.nan, math.inf, -math.inf,
    1j, complex(-0.0, math.nan), complex(math.inf, -0.0),
    "", "text", "\N{SNOWMAN}", "\0\x1f\"\\", "\ud800", "\ud83d\ude00", "😀", "1", "nan", "$",
    b"", b"raw\x00\xff", b"x" * 5000,
]  # fmt: skip

LIBRARY_VALUES: list[Any] = [
    dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, 1, 2, 3, 4, fold=1),
    dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-3, microseconds=5), "odd")),
    dt.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")),
    dt.time(1, 2, 3, 4, tzinfo=dt.UTC),
    dt.timedelta(days=-1, microseconds=1),
    dt.timezone(dt.timedelta(minutes=90)),
    decimal.Decimal("1.10"),
    decimal.Decimal("NaN"),
    decimal.Decimal("-0"),
    fractions.Fraction(10**700, 3),
    uuid.UUID(int=5),
    range(3, 10**30, 7),
    slice(None, 10**30, -2),
    ...,
    NotImplemented,
    pathlib.Path("a/b"),
    pathlib.PurePosixPath("/x/y"),
    pathlib.PureWindowsPath("c:/x"),
]


@pytest.mark.parametrize("value", SCALAR_VALUES, ids=lambda v: ascii(v)[:20] if not isinstance(v, int) else "int")
def test_a_scalar_reads_back_exactly(value: Any) -> None:
    back = decode(capture(value).value)
    assert type(back) is type(value)
    assert same_scalar(back, value)


@pytest.mark.parametrize("value", LIBRARY_VALUES, ids=lambda v: f"{type(v).__name__}")
def test_a_value_of_the_standard_library_reads_back_as_itself(value: Any) -> None:
    found = capture(value)
    back = decode(found.value)
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    assert found.value.kept is Kept.FULL
    assert found.unchanged(value)


def test_scalars_that_differ_only_in_type_or_sign_have_different_digests() -> None:
    assert len({capture(v).digest for v in SCALAR_VALUES}) == len(SCALAR_VALUES)


def test_the_same_scalar_is_the_same_only_by_type_and_value() -> None:
    assert same_scalar(math.nan, -math.nan)
    assert same_scalar(complex(0, math.nan), complex(0, math.nan))
    assert not same_scalar(0.0, -0.0)
    assert not same_scalar(1, True)
    assert not same_scalar(1, 1.0)
    assert not same_scalar("1", b"1")
    assert same_scalar("x" * 100, "".join(["x"] * 100))


def test_every_scalar_type_is_listed() -> None:
    assert {int, float, bool, type(None), str, bytes, complex} == SCALARS


def test_bodies_are_strict_json_that_utf8_can_carry() -> None:
    for value in SCALAR_VALUES:
        body = capture(value).value.body
        assert body is not None
        body.encode("utf-8")
        json.loads(body, parse_constant=pytest.fail)


def test_a_long_integer_is_kept_whatever_limit_python_was_given() -> None:
    before = sys.get_int_max_str_digits()
    value = [1, 7**3000, -(7**3000)]
    try:
        sys.set_int_max_str_digits(640)
        assert decode(capture(value).value) == value
    finally:
        sys.set_int_max_str_digits(before)


def test_a_text_over_the_limit_keeps_its_two_ends_and_says_so() -> None:
    text = "a" * 10 + "b" * 5000 + "c" * 10
    found = capture(text, Keep("auto", text_limit=1000))
    assert found.value.kept is Kept.PART
    assert "1,000 characters" in found.value.why
    back = decode(found.value)
    assert isinstance(back, NotKept)
    assert back.part.startswith("aaaaaaaaaab") and back.part.endswith("bcccccccccc")
    assert back.summary.length == 5020


def test_a_change_in_the_middle_of_a_text_that_is_not_kept_changes_the_digest() -> None:
    keep = Keep("auto", text_limit=1000)
    assert capture("x" * 5000, keep).digest != capture("x" * 2500 + "y" + "x" * 2499, keep).digest


def test_a_long_text_is_unchanged_by_its_content_and_not_by_its_identity() -> None:
    found = capture("ab" * 5000)
    assert found.unchanged("".join(["ab"] * 5000))
    assert not found.unchanged("ab" * 4999 + "ba")


def test_the_digest_does_not_depend_on_what_is_kept() -> None:
    for value in ("x" * 5000, b"x" * 5000, ["x" * 5000, [b"y" * 5000]], {"a": [1, 2, 3]}, list(range(5000))):
        digests = {
            capture(value, k).digest
            for k in (parse_keep("full"), parse_keep("summary"), Keep(item_limit=10, text_limit=10, array_limit=10))
        }
        assert len(digests) == 1


def test_a_zone_of_a_users_class_is_named_and_not_asked() -> None:
    class Zone(dt.tzinfo):
        def utcoffset(self, when: Any) -> Any:
            raise AssertionError("user code ran")

    back = decode(capture(dt.datetime(2024, 1, 1, tzinfo=Zone())).value)
    assert isinstance(back, Object)
    assert back.value == dt.datetime(2024, 1, 1)
    assert back.tzinfo.type.endswith("Zone")


def test_a_slice_between_objects_of_the_users_names_their_types() -> None:
    class Bound:
        def __index__(self) -> int:
            raise AssertionError("was asked")

    back = decode(capture(slice(Bound(), 3)).value)
    assert isinstance(back, Object) and back.type == "slice"
    assert back.stop == 3

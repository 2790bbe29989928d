"""The keep policy: how it is written, and what it does."""

from __future__ import annotations

from typing import Any

import pytest

from clew import trouble
from clew.errors import OptionError
from clew.records import Kept
from clew.values import AUTO, Keep, capture, parse_keep


def test_the_words_are_understood() -> None:
    assert parse_keep(None) is AUTO
    assert parse_keep("full").mode == "full"
    assert parse_keep("summary").mode == "summary"
    assert (parse_keep("last 5").mode, parse_keep("last 5").last) == ("last", 5)
    assert parse_keep(7).last == 7
    assert parse_keep(AUTO) is AUTO


@pytest.mark.parametrize("bad", ["ful", "last", "last 0", "last -1", "last x", 0, -1, True, 1.5, [], object()])
def test_anything_else_is_an_error_that_names_it(bad: Any) -> None:
    with pytest.raises(OptionError, match="keep") as caught:
        parse_keep(bad)
    assert caught.value.slug == "keep"


def test_full_has_no_limits() -> None:
    value = list(range(150_000))
    assert capture(value, parse_keep("full")).value.kept is Kept.FULL
    assert capture(value).value.kept is Kept.PART


def test_a_callable_decides_for_each_value() -> None:
    keep = parse_keep(lambda value: len(value) < 3)
    assert capture([1, 2], keep).value.kept is Kept.FULL
    assert capture([1, 2, 3], keep).value.kept is Kept.SUMMARY
    assert capture([1, [2]], parse_keep(lambda value: "summary")).value.kept is Kept.SUMMARY
    assert capture([1, [2]], parse_keep(lambda value: None)).value.kept is Kept.FULL


def test_a_callable_gets_the_value_itself() -> None:
    seen = []
    value = [1]
    capture(value, parse_keep(lambda v: seen.append(v)))
    assert seen[0] is value


def test_a_callable_that_fails_is_reported_once_and_counts_as_auto(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(value: Any) -> bool:
        raise KeyError("oh")

    trouble.forget()
    keep = parse_keep(broken)
    assert capture([1], keep).value.kept is Kept.FULL
    assert capture([2], keep).value.kept is Kept.FULL
    assert capsys.readouterr().err.count("broken") == 1


def test_limits_are_part_of_the_policy() -> None:
    assert Keep().array_limit == 32 << 20
    assert Keep().text_limit == 1 << 20
    assert Keep().item_limit == 100_000

"""One line for any value, and what differs between two."""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import pytest

from clew.records import DELETED, Kept, NotKept, Object, Summary
from clew.text.values import Look, change_line, value_line


def summary_only(**known: Any) -> NotKept:
    return NotKept("torch.Tensor", Kept.SUMMARY, "over 32 MiB", Summary(**known))


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"user code ran: {name}")

    def __repr__(self) -> str:
        raise AssertionError("user code ran: repr")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("user code ran: eq")

    def __len__(self) -> int:
        raise AssertionError("user code ran: len")

    __hash__ = None  # type: ignore[assignment]


class HostileArray(np.ndarray):
    @property
    def dtype(self) -> Any:  # type: ignore[override]
        raise AssertionError("user code ran: dtype")


# ---- a line


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.zeros((3, 4), np.float32), "float32 (3, 4)"),
        (np.zeros(3, np.uint8), "uint8 (3,)"),
        (np.array(2.5), "float64 () 2.5"),
        (np.float32(3), "3.0"),
        (3, "3"),
        (None, "None"),
        ("short", "'short'"),
        ([], "list[0]"),
        ([1, 2.5], "list[2] [1, 2.5]"),
        ((np.zeros(2, int),), "tuple[1] (int64 (2,))"),
        ({"video": np.zeros((2, 3), np.uint8), "caption": "x" * 88}, "dict[2] {video: uint8 (2, 3), caption: str[88]}"),
        ([[1, 2], {"a": 1}], "list[2] [list[2], dict[1]]"),
        (deque([1]), "deque[1] [1]"),
        (OrderedDict(a=1), "OrderedDict[1] {a: 1}"),
        (Object("pkg.Config", {"lr": 0.1}), "Config(lr=0.1)"),
        (DELETED, "deleted"),
        (NotKept("list", Kept.PART, "", Summary(length=1000), [1, 2]), "list[1,000] [1, 2, …]"),
        (NotKept("pkg.Net", Kept.OPAQUE, "", Summary()), "<Net>"),
    ],
)
def test_a_value_is_one_line(value: Any, expected: str) -> None:
    assert value_line(value) == expected


def test_a_long_text_shows_its_length_and_its_first_words() -> None:
    line = value_line("first words " * 100)
    assert line.startswith("str[1,200] 'first words")
    assert line.endswith("…'")


def test_a_text_that_would_act_on_a_terminal_is_spelled_out() -> None:
    assert "\x1b" not in value_line("\x1b[31m" * 40)
    assert "\x1b" not in value_line({"\x1b[31m": "\x1b"})


def test_many_items_are_cut_to_the_width() -> None:
    line = value_line([np.zeros(3)] * 1000, width=60)
    assert len(line) <= 60
    assert line.startswith("list[1,000] [float64 (3,), ")
    assert line.endswith(", …]")


def test_nan_and_inf_are_counted_when_there_are_any() -> None:
    array = np.zeros((3, 4), np.float32)
    array[0] = np.nan
    array[1, 1] = -np.inf
    assert value_line(array) == "float32 (3, 4) nan 4 inf 1"
    assert value_line({"x": array}) == "dict[1] {x: float32 (3, 4) nan 4 inf 1}"
    assert value_line(array.astype(np.complex64)).startswith("complex64 (3, 4) nan 4 inf 1")


def test_a_large_array_is_not_searched_for_nan() -> None:
    assert Look(np.full(100, np.nan), room=64).line() == "float64 (100,)"
    assert Look(np.full(100, np.nan), room=64, stats=True).line() == "float64 (100,) nan 100"


def test_statistics_come_when_asked_for() -> None:
    assert value_line(np.array([1.0, 2.0, 6.0]), stats=True) == "float64 (3,) min 1.0 max 6.0 mean 3.0"
    assert value_line(np.array([1, 3]), stats=True) == "int64 (2,) min 1 max 3 mean 2.0"
    assert value_line(np.array([1.0, np.nan, 3.0]), stats=True) == "float64 (3,) nan 1 min 1.0 max 3.0 mean 2.0"
    assert value_line(np.zeros(0), stats=True) == "float64 (0,)"


def test_counting_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value_line(np.array([np.nan, np.inf, 1e308]), stats=True)


def test_a_summary_shows_what_it_knows() -> None:
    summary = summary_only(shape=(3, 4), dtype="float32", device="cuda:0", nan=2, inf=0, min=0.5, max=1.5, mean=1.0)
    assert value_line(summary) == "float32 (3, 4) on cuda:0 nan 2"
    assert value_line(summary, stats=True) == "float32 (3, 4) on cuda:0 nan 2 min 0.5 max 1.5 mean 1.0"


def test_no_code_of_the_user_runs() -> None:
    odd = np.zeros(3).view(HostileArray)
    objects = np.empty(2, object)
    objects[0], objects[1] = Hostile(), Hostile()
    for value in (Hostile(), odd, objects, [Hostile()], {"a": odd}):
        assert value_line(value, stats=True)
        assert Look(value).shape()
        assert change_line(value, value)


def test_a_device_that_is_known_better_is_shown() -> None:
    assert value_line(np.zeros(3), device="cuda:1") == "float64 (3,) on cuda:1"


# ---- what differs


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (np.zeros((2, 3, 4)), np.zeros((4, 2, 3)), "shape (2, 3, 4) → (4, 2, 3)"),
        (np.zeros(3, np.uint8), np.zeros(3, np.float32), "uint8 → float32"),
        (np.zeros(3, np.uint8), np.zeros(4), "shape (3,) → (4,), uint8 → float64"),
        (np.zeros(3, np.float32), np.ones(3, np.float32), "float32 (3,), values changed"),
        (np.zeros(2), np.array([np.nan, 1]), "float64 (2,), values changed nan 1"),
        (np.array(0.5), np.array(0.25), "float64 () 0.5 → 0.25"),
        (0.5, 0.25, "0.5 → 0.25"),
        (1, None, "1 → None"),
        ("a", "b", "'a' → 'b'"),
        ("a" * 90, "b" * 90, "str[90] '" + "b" * 60 + "…', text changed"),
        ([1] * 3, [1] * 4, "list[3] → list[4]"),
        ([1, 2], [1, 3], "list[2] [1, 3], values changed"),
        ({"a": 1}, {"a": 2}, "dict[1] {a: 2}, values changed"),
        (None, np.zeros(3), "None → float64 (3,)"),
        ([1, 2], np.zeros(2), "list[2] → float64 (2,)"),
        (np.zeros(3), DELETED, "deleted"),
        (DELETED, np.zeros(3), "float64 (3,)"),
    ],
)
def test_a_change_says_what_differs(before: Any, now: Any, expected: str) -> None:
    assert change_line(before, now) == expected


def test_the_device_is_compared_where_both_are_known() -> None:
    array = np.zeros(3)
    assert change_line(array, array, devices=("cpu", "cuda:0")) == "cpu → cuda:0"
    assert change_line(array, array, devices=("", "cuda:0")) == "float64 (3,) on cuda:0, values changed"


def test_a_change_in_place_says_that_the_content_changed() -> None:
    same = [1, 2]
    assert change_line(same, same) == "list[2] [1, 2], values changed"


# ---- shapes


def test_values_that_differ_in_content_only_have_one_shape() -> None:
    for first, second in ((1, 2), ("a", "b" * 90), (np.zeros(3), np.ones(3)), ([1], [1, 2, 3]), ({"a": 1}, {"a": 2})):
        assert Look(first).shape() == Look(second).shape()


def test_values_of_another_kind_have_another_shape() -> None:
    nan = np.array([0.0, np.nan])
    pairs: list[tuple[Any, Any]] = [
        (1, 1.0),
        (1, True),
        (1.0, float("nan")),
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.zeros(2), nan),
        ([np.zeros(2)], [np.zeros(3)]),
        ({"a": 1}, {"b": 1}),
        ([], [1]),
    ]
    for first, second in pairs:
        assert Look(first).shape() != Look(second).shape()

"""Arrays over the steps: statistics, histograms, slices."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.page.answers import tensors
from clew.values import capture, parse_keep
from page.asking import Page
from reading.writing import simple_run


def of(base: Path, values: list[Any], what: str, **params: Any) -> Any:
    folder = simple_run(base, {"x": values}).path
    return Page(base).of(folder, what, name="x", **params)


def test_statistics_are_reported_of_every_array(page: Page, folder: Path) -> None:
    answer = page.of(folder, "tensors", name="weight")
    assert answer["x"] == answer["index"] == answer["min"] == answer["max"] == answer["mean"] == list(range(10))
    assert answer["std"] == [0.0] * 10
    assert answer["shapes"] == ["float32 (4, 6)"]
    assert answer["full"] == [True] * 10
    assert (answer["reduced"], answer["every"]) == (False, 1)


def test_nan_and_inf_are_counted_and_the_rest_described(base: Path) -> None:
    answer = of(base, [np.array([1.0, math.nan, 3.0, math.inf])], "tensors")
    assert (answer["nan"], answer["inf"], answer["mean"]) == ([1], [1], [2.0])
    assert answer["max"] == [None]


def test_of_many_arrays_one_in_so_many_is_shown(base: Path) -> None:
    answer = of(base, [np.array([i, i]) for i in range(50)], "tensors", px=10)
    assert (answer["reduced"], answer["every"], answer["total"]) == (True, 5, 50)
    assert answer["index"] == list(range(0, 50, 5))


def test_arrays_too_large_together_are_thinned_out(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "READ", 41_000)
    answer = of(base, [np.full(1_000, i) for i in range(20)], "tensors")
    assert answer["every"] == 4
    assert answer["min"] == [0, 4, 8, 12, 16]


def test_a_window_holds_the_arrays_between(page: Page, folder: Path) -> None:
    answer = page.of(folder, "tensors", name="weight", **{"from": 3, "to": 5})
    assert (answer["x"], answer["total"], answer["inside"]) == ([3, 4, 5], 10, 3)


def test_an_array_of_no_length_has_no_statistics(base: Path) -> None:
    answer = of(base, [np.zeros((0, 3)), np.ones((2, 3))], "tensors")
    assert (answer["min"], answer["nan"]) == ([None, 1.0], [0, 0])
    assert answer["shapes"] == ["float64 (0, 3)", "float64 (2, 3)"]


def test_an_array_kept_as_a_summary_says_so(base: Path) -> None:
    value = capture(np.arange(10.0), parse_keep("summary")).value
    answer = of(base, [value], "tensors")
    assert (answer["full"], answer["min"], answer["max"]) == ([False], [0.0], [9.0])


def test_a_histogram_counts_every_number_once(base: Path) -> None:
    arrays = [np.array([0.0, 0.1, 0.9, 1.0]), np.array([0.5, math.nan, math.inf])]
    answer = of(base, arrays, "histogram", bins=2)
    assert answer["edges"] == [0.0, 0.5, 1.0]
    assert answer["counts"] == [[2, 2], [0, 1]]
    assert (answer["left_out"], answer["note"]) == (0, "")


def test_a_histogram_of_many_arrays_says_how_many_it_shows(base: Path) -> None:
    answer = of(base, [np.array([i, i + 1]) for i in range(30)], "histogram", columns=3)
    assert (answer["index"], answer["left_out"], answer["note"]) == ([0, 14, 29], 27, "3 of 30 arrays")


@pytest.mark.parametrize("values", [[np.zeros((0,))], [np.array([5, 5])], [np.array([math.nan])], ["text"], [1.0]])
def test_a_histogram_of_nothing_much_is_not_an_error(base: Path, values: list[Any]) -> None:
    answer = of(base, values, "histogram", bins=4)
    assert len(answer["edges"]) == 5


def test_the_largest_floats_have_a_histogram(base: Path) -> None:
    answer = of(base, [np.array([-1.7e308, 0.0, 1.7e308])], "histogram", bins=2)
    assert answer["counts"] == [[1, 2]]

"""Arrays over the steps: statistics, histograms, slices."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.page.answers import tensors
from clew.values import capture, parse_keep
from history.writing import simple_run
from page.asking import Page


def of(base: Path, values: list[Any], what: str, **params: Any) -> Any:
    folder = simple_run(base, {"x": values}).path
    return Page(base).of(folder, what, name="x", **params)


def test_statistics_are_told_of_every_array(page: Page, folder: Path) -> None:
    found = page.of(folder, "tensors", name="weight")
    assert found["x"] == found["index"] == found["min"] == found["max"] == found["mean"] == list(range(10))
    assert found["std"] == [0.0] * 10
    assert found["shapes"] == ["float32 (4, 6)"]
    assert found["full"] == [True] * 10
    assert (found["reduced"], found["every"]) == (False, 1)


def test_nan_and_inf_are_counted_and_the_rest_described(base: Path) -> None:
    found = of(base, [np.array([1.0, math.nan, 3.0, math.inf])], "tensors")
    assert (found["nan"], found["inf"], found["mean"]) == ([1], [1], [2.0])
    assert found["max"] == [None]


def test_of_many_arrays_one_in_so_many_is_shown(base: Path) -> None:
    found = of(base, [np.array([i, i]) for i in range(50)], "tensors", px=10)
    assert (found["reduced"], found["every"], found["total"]) == (True, 5, 50)
    assert found["index"] == list(range(0, 50, 5))


def test_arrays_too_large_together_are_thinned_out(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "READ", 41_000)
    found = of(base, [np.full(1_000, i) for i in range(20)], "tensors")
    assert found["every"] == 4
    assert found["min"] == [0, 4, 8, 12, 16]


def test_a_window_holds_the_arrays_between(page: Page, folder: Path) -> None:
    found = page.of(folder, "tensors", name="weight", **{"from": 3, "to": 5})
    assert (found["x"], found["total"], found["inside"]) == ([3, 4, 5], 10, 3)


def test_an_array_of_no_length_has_no_statistics(base: Path) -> None:
    found = of(base, [np.zeros((0, 3)), np.ones((2, 3))], "tensors")
    assert (found["min"], found["nan"]) == ([None, 1.0], [0, 0])
    assert found["shapes"] == ["float64 (0, 3)", "float64 (2, 3)"]


def test_an_array_kept_as_a_summary_says_so(base: Path) -> None:
    value = capture(np.arange(10.0), parse_keep("summary")).value
    found = of(base, [value], "tensors")
    assert (found["full"], found["min"], found["max"]) == ([False], [0.0], [9.0])


def test_a_histogram_counts_every_number_once(base: Path) -> None:
    arrays = [np.array([0.0, 0.1, 0.9, 1.0]), np.array([0.5, math.nan, math.inf])]
    found = of(base, arrays, "histogram", bins=2)
    assert found["edges"] == [0.0, 0.5, 1.0]
    assert found["counts"] == [[2, 2], [0, 1]]
    assert (found["left_out"], found["note"]) == (0, "")


def test_a_histogram_of_many_arrays_says_how_many_it_shows(base: Path) -> None:
    found = of(base, [np.array([i, i + 1]) for i in range(30)], "histogram", columns=3)
    assert (found["index"], found["left_out"], found["note"]) == ([0, 14, 29], 27, "3 of 30 arrays")


@pytest.mark.parametrize("values", [[np.zeros((0,))], [np.array([5, 5])], [np.array([math.nan])], ["text"], [1.0]])
def test_a_histogram_of_nothing_much_is_no_error(base: Path, values: list[Any]) -> None:
    found = of(base, values, "histogram", bins=4)
    assert len(found["edges"]) == 5


def test_the_largest_floats_have_a_histogram(base: Path) -> None:
    found = of(base, [np.array([-1.7e308, 0.0, 1.7e308])], "histogram", bins=2)
    assert found["counts"] == [[1, 2]]

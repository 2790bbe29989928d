"""Curves, windows of them, and single points."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.asking import Page
from reading.writing import Written, simple_run


def series(base: Path, values: list[Any], **params: Any) -> Any:
    folder = simple_run(base, {"x": values}).path
    return Page(base).of(folder, "series", name="x", **params)


def test_a_short_curve_has_every_point(page: Page, folder: Path) -> None:
    curve = page.of(folder, "series", name="loss")
    assert curve["axis"] == "step"
    assert curve["x"] == [*range(10), 9, 9]
    assert curve["y"][:4] == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert curve["y"][4] is None
    assert (curve["total"], curve["inside"], curve["reduced"]) == (12, 12, False)
    assert curve["range"] == [0, 9]


def test_a_value_that_is_not_a_number_is_marked(page: Page, folder: Path) -> None:
    curve = page.of(folder, "series", name="loss")
    assert curve["marks"] == [
        {"x": 4, "what": "nan"},
        {"x": 9, "what": "deleted"},
        {"x": 9, "what": "other", "text": "'gone'"},
    ]
    assert curve["marksTotal"] == 3


def test_infinities_are_distinguished(base: Path) -> None:
    curve = series(base, [1.0, math.inf, -math.inf, 2.0])
    assert curve["y"] == [1.0, None, None, 2.0]
    assert [mark["what"] for mark in curve["marks"]] == ["inf", "-inf"]


def test_a_long_curve_keeps_the_extremes_of_every_bucket(base: Path) -> None:
    values = np.random.default_rng(0).normal(size=5_000)
    values[1234], values[4321], values[7] = 99.0, -99.0, np.nan
    curve = series(base, values.tolist(), px=100)
    assert curve["reduced"]
    assert len(curve["x"]) == 100
    assert (max(curve["high"]), min(curve["low"])) == (99.0, -99.0)
    parts = np.array_split(values, 100)
    assert curve["low"] == [float(np.nanmin(part)) for part in parts]
    assert curve["high"] == [float(np.nanmax(part)) for part in parts]
    assert curve["y"] == [float(part[-1]) for part in parts]
    assert curve["marksTotal"] == 1


def test_a_window_has_the_points_between_both_ends(base: Path) -> None:
    curve = series(base, [float(i) for i in range(100)], **{"from": 10, "to": 20})
    assert curve["x"] == list(range(10, 21))
    assert (curve["total"], curve["inside"], curve["range"]) == (100, 11, [0, 99])


@pytest.mark.parametrize("window", [{"from": 1000}, {"to": -5}, {"from": 7, "to": 3}, {"from": 10.2, "to": 10.8}])
def test_an_empty_window_is_not_an_error(base: Path, window: dict[str, float]) -> None:
    curve = series(base, [float(i) for i in range(100)], **window)
    assert (curve["x"], curve["inside"]) == ([], 0)


def test_a_series_of_nan_alone_is_not_an_error(base: Path) -> None:
    curve = series(base, [math.nan] * 300, px=10)
    assert curve["reduced"]
    assert set(curve["low"]) == set(curve["y"]) == {None}
    assert curve["marksTotal"] == 300
    assert len(curve["marks"]) == 200


def test_steps_that_go_back_are_sorted_along_the_axis(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    call = shard.call()
    for step in (5, 3, 4, math.nan, 1)[:3]:
        shard.step(call, step)
        shard.change(call, "x", step * 10.0)
    shard.close()
    page = Page(base)
    curve = page.of(writer.folder, "series", name="x")
    assert (curve["x"], curve["y"]) == ([3, 4, 5], [30.0, 40.0, 50.0])
    assert page.of(writer.folder, "point", name="x", x=3)["index"] == 1


def test_steps_that_are_not_numbers_give_way_to_the_index(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    call = shard.call()
    for step in ("warm", "up"):
        shard.step(call, step)
        shard.change(call, "x", 1.0)
    shard.close()
    curve = Page(base).of(writer.folder, "series", name="x", axis="step")
    assert (curve["axis"], curve["x"]) == ("index", [0, 1])


def test_numbers_of_numpy_are_numbers(base: Path) -> None:
    values = [np.float64(1.5), np.float32(2.5), np.array(3.0), np.int64(4), np.array([5.0]), np.float64("nan")]
    curve = series(base, values)
    assert curve["y"] == [1.5, 2.5, 3.0, 4.0, 5.0, None]
    assert [mark["what"] for mark in curve["marks"]] == ["nan"]


def test_time_is_in_seconds_since_the_run_began(base: Path) -> None:
    assert series(base, [1.0, 2.0], axis="time")["x"] == [0.002, 0.003]


def test_all_points_at_one_place_are_one_bucket(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    call = shard.call(step=7)
    for value in range(50):
        shard.change(call, "x", float(value))
    shard.close()
    curve = Page(base).of(writer.folder, "series", name="x", px=10)
    assert (curve["x"], curve["low"], curve["high"]) == ([7], [0.0], [49.0])


def test_a_point_knows_its_place_and_its_call(page: Page, folder: Path) -> None:
    point = page.of(folder, "point", name="loss", x=2.9, axis="step")
    assert (point["index"], point["step"], point["value"]["text"]) == (3, "3", "0.25")
    assert point["place"] == {"file": "mod.py", "line": 5, "function": "train"}
    assert page.of(folder, "call", call=point["call"])["call"]["function"] == "train"


def test_a_point_that_is_not_there_is_refused(page: Page, folder: Path) -> None:
    refusal = page.refused(404, f"{page.run(folder)}/point", name="loss", index=12)
    assert "none numbered 12" in refusal["error"]


def test_markup_and_long_text_come_as_text(base: Path) -> None:
    folder = simple_run(base, {"x": ["<script>alert(1)</script>", "y" * 100_000]}).path
    page = Page(base)
    assert page.of(folder, "point", name="x", index=0)["value"]["text"] == "'<script>alert(1)</script>'"
    value = page.of(folder, "point", name="x", index=1)["value"]
    assert value["cut"] == 96_000
    assert len(value["text"]) < 5_000

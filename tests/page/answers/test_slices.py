"""Heat maps: two dimensions of an array."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.values import capture, parse_keep
from page.asking import Page
from reading.writing import simple_run


def cut(base: Path, value: Any, **params: Any) -> Any:
    folder = simple_run(base, {"x": [value]}).path
    return Page(base).of(folder, "slice", name="x", index=0, **params)


def test_a_matrix_comes_row_by_row(base: Path) -> None:
    answer = cut(base, np.arange(6).reshape(2, 3))
    assert (answer["rows"], answer["cols"], answer["data"]) == (2, 3, [0, 1, 2, 3, 4, 5])
    assert (answer["shape"], answer["dtype"], answer["at"]) == ([2, 3], "int64", [":", ":"])
    assert (answer["low"], answer["high"], answer["reduced"]) == (0, 5, False)


@pytest.mark.parametrize(("shape", "at"), [((16, 24, 3), [":", ":", 0]), ((5, 4, 3), [0, ":", ":"])])
def test_of_an_image_rows_and_columns_are_shown(base: Path, shape: tuple[int, ...], at: list[Any]) -> None:
    assert cut(base, np.zeros(shape, np.uint8))["at"] == at


def test_other_dimensions_are_chosen(base: Path) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    assert cut(base, array)["data"] == array[0].ravel().tolist()
    folder = next((base / "2023-11-14").iterdir())
    answer = Page(base).of(folder, "slice", name="x", index=0, at=":,2,:")
    assert answer["data"] == array[:, 2, :].ravel().tolist()
    assert (answer["rows"], answer["cols"], answer["high"]) == (2, 4, 23)


@pytest.mark.parametrize(("array", "size"), [(np.array(3.5), (1, 1)), (np.arange(5.0), (1, 5))])
def test_a_vector_is_one_row_and_a_scalar_one_cell(base: Path, array: Any, size: tuple[int, int]) -> None:
    answer = cut(base, array)
    assert (answer["rows"], answer["cols"]) == size
    assert answer["data"] == array.reshape(-1).tolist()


def test_too_many_cells_become_means_of_what_is_finite(base: Path) -> None:
    array = np.arange(16.0).reshape(4, 4)
    array[0, 0], array[2:, 2:] = math.nan, math.inf
    answer = cut(base, array, px=2)
    assert answer["reduced"]
    assert answer["data"] == [pytest.approx((1 + 4 + 5) / 3, rel=1e-5), 4.5, 10.5, None]
    assert (answer["low"], answer["high"]) == (1.0, 13.0)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_an_array_of_no_length_has_no_cells(base: Path, shape: tuple[int, ...]) -> None:
    answer = cut(base, np.zeros(shape))
    assert (answer["data"], answer["low"], answer["high"]) == ([], None, None)


@pytest.mark.parametrize("at", ["0", ":,:,:", "2,:", "-1,:", "x,:", ":,"])
def test_a_place_outside_the_shape_is_refused(base: Path, at: str) -> None:
    folder = simple_run(base, {"x": [np.zeros((2, 3))]}).path
    page = Page(base)
    assert "does not fit" in page.refused(400, f"{page.run(folder)}/slice", name="x", index=0, at=at)["error"]


def test_values_that_were_not_kept_say_why(base: Path) -> None:
    folder = simple_run(base, {"x": [capture(np.arange(9.0), parse_keep("summary")).value]}).path
    page = Page(base)
    refusal = page.refused(422, f"{page.run(folder)}/slice", name="x", index=0)
    assert refusal["slug"] == "tensor-not-kept"


def test_a_value_that_is_not_an_array_says_so(base: Path) -> None:
    folder = simple_run(base, {"x": ["text"]}).path
    page = Page(base)
    assert page.refused(422, f"{page.run(folder)}/slice", name="x", index=0)["slug"] == "not-an-array"


def test_an_argument_of_a_call_is_cut_too(page: Page, folder: Path) -> None:
    answer = page.of(folder, "slice", call="host-r0-100-0:2", value="x")
    assert answer["data"] == [0.0, 1.0, 2.0]
    refusal = page.refused(404, f"{page.run(folder)}/slice", call="host-r0-100-0:2", value="y")
    assert "no `y`" in refusal["error"]


def test_something_that_looks_like_an_image_comes_with_a_picture(base: Path) -> None:
    image = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    assert cut(base, image)["picture"].startswith("data:image/png;base64,")


def test_several_images_are_one_picture(base: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 32, 32, 3), dtype=np.uint8)
    assert cut(base, images)["picture"].startswith("data:image/svg+xml;base64,")

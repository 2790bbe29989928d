"""Numbers as a small picture."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from clew.show.sparkline import blocks, buckets, svg


def test_a_line_of_blocks_goes_from_the_smallest_to_the_largest() -> None:
    assert blocks(range(8)) == "▁▂▃▄▅▆▇█"
    assert blocks([3, 1, 2], 3) == "█▁▅"


def test_equal_numbers_are_a_flat_line() -> None:
    assert blocks([5, 5, 5]) == "▁▁▁"


def test_no_numbers_make_no_picture() -> None:
    assert blocks([]) == ""
    assert svg([]) == ""


def test_a_number_that_is_not_finite_is_seen() -> None:
    assert blocks([1, math.nan, 2, math.inf]) == "▁×█×"
    assert blocks([math.nan]) == "×"
    assert "#d33" in svg([1, math.nan, 2])
    assert "#d33" not in svg([1, 2])


def test_a_single_spike_among_millions_is_seen() -> None:
    numbers = np.zeros(3_000_000)
    numbers[1_234_567] = 9
    assert blocks(numbers, 20).count("█") == 1
    picture = buckets(numbers, 20)
    assert (picture.high.max(), picture.low.max()) == (9, 0)


def test_a_single_nan_among_millions_is_seen() -> None:
    numbers = np.zeros(1_000_000)
    numbers[77] = math.nan
    assert blocks(numbers, 10) == "×" + "▁" * 9


@pytest.mark.parametrize("numbers", [[-1.7e308, 1.7e308], [5e-324, 0.0], [math.nan, math.inf], [1]])
def test_extreme_numbers_make_a_picture(numbers: list[float]) -> None:
    assert len(blocks(numbers)) == len(numbers)
    picture = ElementTree.fromstring(svg(numbers))
    assert "nan" not in ElementTree.tostring(picture, "unicode")


def test_the_picture_has_the_size_asked_for_and_a_bounded_length() -> None:
    text = svg(np.random.default_rng(0).random(1_000_000), 100, 20)
    assert ElementTree.fromstring(text).attrib["width"] == "100"
    assert len(text) < 5_000

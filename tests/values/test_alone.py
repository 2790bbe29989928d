"""The quick way for an array by itself gives what the walk gives."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from clew.values import AUTO, LIGHT, adapters, capture
from clew.values.capture import Capture


def both_ways(obj: Any) -> tuple[Capture, Capture]:
    capture(obj)  # so that its type is known
    quick = capture(obj)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["clew.values.capture"], "alone_of", lambda key: None)
        return quick, capture(obj)


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)))
def test_an_array_by_itself_is_captured_as_by_the_walk(array: np.ndarray) -> None:
    quick, walked = both_ways(array)
    assert repr(quick.value) == repr(walked.value)
    assert quick.value.part_digests == walked.value.part_digests
    assert quick.unchanged(array)


def test_plain_arrays_do_take_the_quick_way() -> None:
    capture(np.zeros(3))
    alone = adapters.alone_of(id(np.ndarray))
    assert alone is not None
    assert isinstance(alone(np.zeros(3), AUTO), Capture)


#: NumPy 1 has no texts of any length.
TEXTS = np.array(["a"], "T" if hasattr(np.dtypes, "StringDType") else "U")


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 4))[:, ::2], np.array([None, 1]), np.array([(1, 2.0)], "i4,f8"), TEXTS],
    ids=["scattered", "of objects", "structured", "of texts"],
)
def test_other_arrays_take_the_walk(array: np.ndarray) -> None:
    capture(np.zeros(3))  # so that the type is known
    alone = adapters.alone_of(id(np.ndarray))
    assert alone is not None
    assert alone(array, AUTO) is None


def test_an_outline_is_the_one_that_the_walk_gives() -> None:
    for array in (np.zeros((300, 100)), np.zeros((300, 100), "f4"), np.zeros((300, 100))[::-1]):
        capture(array)
        quick, again = capture(array, LIGHT), capture(array, LIGHT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.modules["clew.values.capture"], "alone_of", lambda key: None)
            walked = capture(array, LIGHT)
        assert array.nbytes > LIGHT.array_limit
        assert repr(quick.value) == repr(again.value) == repr(walked.value)


def test_the_quick_way_is_found_whoever_needed_the_adapter_first() -> None:
    program = (
        "import numpy, clew.values.numpy; from clew.values import adapters, capture;"
        "capture(numpy.zeros(3)); assert adapters.alone_of(id(numpy.ndarray)) is not None"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

"""`graph.map` over the rows of a DataFrame."""

from __future__ import annotations

import numpy as np
import pandas as pd

import clew
from clew.graph.mapping.map_job import Failure
from graph import mapops


def test_columns_give_the_inputs_by_their_names_and_others_are_left_alone() -> None:
    frame = pd.DataFrame({"b": [1, 2, 3], "note": ["x", "y", "z"], "a": [10, 20, 30]}, index=[7, 8, 9])
    assert list(clew.record(mapops.difference, 5, 4).map(frame)) == [9, 18, 27]


def test_a_failed_row_is_shown_by_names_and_counted_from_nought() -> None:
    frame = pd.DataFrame({"a": [1, "x"], "b": [1, 1]}, index=["first", "second"])
    mapped = clew.record(mapops.difference, 5, 4).map(frame)
    assert [type(value) for value in mapped] == [int, Failure]
    assert (mapped.failures[0].index, mapped.failures[0].input) == (1, {"a": "x", "b": 1})


def test_a_long_frame_is_gone_through_in_blocks() -> None:
    frame = pd.DataFrame({"x": np.arange(10_000)})
    assert list(clew.record(mapops.simple, 1).map(frame)) == [10 * x for x in range(10_000)]

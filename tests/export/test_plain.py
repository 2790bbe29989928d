"""Values as plain data."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest

from clew.export.plain_data import to_plain
from clew.records import DELETED, Kept, NotKept, Object, Summary


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        ("a", "a"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        ([1, (2, math.inf)], [1, [2, "Infinity"]]),
        ({"a": None}, {"a": None}),
        ({1: "b"}, [[1, "b"]]),
        (DELETED, {"deleted": True}),
        (b"ab", {"base64": "YWI="}),
        (1 + 2j, {"real": 1.0, "imag": 2.0}),
        (np.float32(0.5), 0.5),
        (np.array([[1, 2]], np.int8), {"dtype": "int8", "shape": [1, 2], "values": [[1, 2]]}),
        (np.array([math.nan]), {"dtype": "float64", "shape": [1], "values": ["NaN"]}),
        (Object("p.C", {"x": [1]}), {"type": "p.C", "attributes": {"x": [1]}}),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (PurePosixPath("/a"), "/a"),
        (
            NotKept("list", Kept.PART, "long", Summary(length=9), part=[1]),
            {"not_kept": "list", "why": "long", "summary": {"length": 9}, "part": [1]},
        ),
    ],
)
def test_a_value_as_plain_data(value: Any, expected: Any) -> None:
    assert to_plain(value) == expected
    json.dumps(to_plain(value), allow_nan=False)


def test_very_deep_values_end() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert "left_out" in json.dumps(to_plain(deep))


def test_a_value_that_holds_itself_ends() -> None:
    cycle: dict[str, Any] = {}
    cycle["me"] = cycle
    assert "left_out" in json.dumps(to_plain(cycle))

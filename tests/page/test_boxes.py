"""Values as the page shows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clew.page import value_boxes
from clew.page.value_boxes import box_of, picture_of
from clew.records import DELETED, Kept, NotKept, Summary
from reading.writing import simple_run


class Rude:
    def __repr__(self) -> str:
        raise AssertionError("no user code")


@pytest.mark.parametrize(
    ("value", "text", "type"),
    [
        (0.1, "0.1", "float"),
        (float("nan"), "nan", "float"),
        (3, "3", "int"),
        (None, "None", "NoneType"),
        (DELETED, "deleted", "deleted"),
        ("a\x1b[31m\n", "'a\\x1b[31m\\n'", "str"),
        ([1, 2], "list[2] [1, 2]", "list"),
    ],
    ids=str,
)
def test_a_value_is_one_line_with_its_type(value: Any, text: str, type: str) -> None:
    box = box_of(value)
    assert (box["text"], box["type"], box["kept"]) == (text, type, "full")


def test_an_array_has_shape_dtype_and_statistics_where_it_is_alone() -> None:
    box = box_of(np.array([[1.0, 3.0]], np.float32), detailed=True)
    assert (box["shape"], box["dtype"]) == ([1, 2], "float32")
    assert box["stats"] == {"min": 1.0, "max": 3.0, "mean": 2.0, "nan": 0, "inf": 0}


def test_what_was_not_kept_says_why() -> None:
    box = box_of(NotKept("numpy.ndarray", Kept.SUMMARY, "over 32 MiB", Summary((9,), "float32", min=float("inf"))))
    assert (box["kept"], box["why"], box["stats"]) == ("summary", "over 32 MiB", {"min": None})


def test_no_user_code_runs() -> None:
    assert "Rude" in box_of(Rude(), detailed=True, draw=True)["text"]


def test_a_large_value_in_a_list_is_not_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simple_run(tmp_path, {"x": [np.zeros(100_000), np.ones(3)]})
    monkeypatch.setattr("clew.store.value_table.read_blob", lambda *_: pytest.fail("the blob was read"))
    large, small = value_boxes.boxes_of_rows(run.tables, run.tables.table.rows_of("x"))
    assert (large["text"], large["shape"]) == ("float64 (100000,)", [100_000])
    assert small["text"] == "float64 (3,)"


def test_a_sound_is_a_drawing_that_stands_by_itself() -> None:
    import base64

    uri = picture_of(np.sin(np.arange(2_000.0)))
    assert uri is not None
    assert uri.startswith("data:image/svg+xml;base64,")
    drawn = base64.b64decode(uri.partition(",")[2]).decode()
    assert drawn.startswith("<svg")
    assert "xmlns=" in drawn
    assert "currentColor" not in drawn


def test_what_looks_like_nothing_has_no_picture() -> None:
    assert picture_of("text") is None
    assert "picture" not in box_of(3, draw=True)

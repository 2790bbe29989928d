"""Outlines of values without reading them, and numbers read as columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.records import Kept
from clew.values import capture, parse_keep
from reading.writing import simple_run


def ids(run: Any) -> tuple[Any, list[int]]:
    table = run.tables.table
    return table.shards[0], table.gather("value", table.rows_of("x")).tolist()


def test_an_outline_has_everything_but_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simple_run(tmp_path, {"x": [np.zeros((500, 20)), "text", capture(np.ones(5), parse_keep("summary")).value]})
    shard, value_ids = ids(run)
    monkeypatch.setattr("clew.store.value_table.read_blob", lambda *_: pytest.fail("the blob was read"))
    array, text, summary = shard.outlines(value_ids)
    assert (array.value.summary.shape, array.value.summary.dtype, array.value.kept) == ((500, 20), "float64", Kept.FULL)
    assert array.stored > 80_000
    assert (text.value.type, text.value.body, text.stored) == ("str", None, 6)
    assert (summary.value.kept, summary.value.summary.max) == (Kept.SUMMARY, 1.0)


def test_the_outline_of_a_missing_value_tells_that_it_is_lost(tmp_path: Path) -> None:
    shard, _ = ids(simple_run(tmp_path, {"x": ["a"]}))
    (lost,) = shard.outlines([999])
    assert (lost.value.kept, lost.stored) == (Kept.OPAQUE, 0)
    assert "lost" in lost.value.why


def test_outlines_come_in_the_requested_order(tmp_path: Path) -> None:
    shard, value_ids = ids(simple_run(tmp_path, {"x": [np.zeros(n) for n in range(6)]}))
    outlines = shard.outlines(value_ids[::-1])
    assert [item.value.summary.shape for item in outlines] == [(n,) for n in range(5, -1, -1)]


def test_single_numbers_are_read_whatever_holds_them(tmp_path: Path) -> None:
    arrays = [np.array(-3), np.array([[7]], np.uint8), np.array(math.inf)]
    shard, value_ids = ids(simple_run(tmp_path, {"x": [np.float32(2.5), *arrays, np.bool_(True), np.float16(1)]}))
    numbers, is_single = shard.single_numbers(value_ids)
    assert numbers.tolist() == [2.5, -3.0, 7.0, math.inf, 1.0, 1.0]
    assert is_single.all()


def test_a_nan_is_a_number_and_other_values_are_not(tmp_path: Path) -> None:
    values = [np.array(math.nan), np.zeros(2), np.zeros(0), "1.0", [1.0], np.array(1j), np.datetime64("2020-01-01")]
    shard, value_ids = ids(simple_run(tmp_path, {"x": values}))
    numbers, is_single = shard.single_numbers(value_ids)
    assert is_single.tolist() == [True] + [False] * 6
    assert np.isnan(numbers).all()


def test_some_texts_of_a_column_are_read_without_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reading.writing import Written

    writer = Written(tmp_path)
    shard = writer.shard()
    for number in range(10):
        shard.end(shard.call("f", stage=f"s{number}" if number % 2 else None), error="no" if number == 3 else None)
    shard.close()
    reader = writer.open().tables.calls.shards[0]
    assert reader.starts.take(np.array([1, 2, 5])).stage.tolist() == ["s1", None, "s5"]
    assert reader.starts.is_valid("stage").tolist() == [False, True] * 5
    assert reader.starts.take(np.array([0, 1])).is_valid("stage").tolist() == [False, True]
    assert np.flatnonzero(reader.raised()).tolist() == [3]
    piece = reader.starts.pieces[0]
    assert "stage" not in piece._columns  # type: ignore[attr-defined]

"""Runs as Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from clew.export import export
from clew.records import DELETED
from reading.writing import Written, simple_run


def rows(path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return records


def test_numbers_have_a_column_and_a_kind(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"x": [0.5, 7, True, None, DELETED], "y": [1]})
    records = rows(export(run, "parquet", tmp_path / "out.parquet"))
    assert [(row["name"], row["kind"], row["number"]) for row in records] == [
        ("x", "float", 0.5),
        ("x", "int", 7.0),
        ("x", "bool", 1.0),
        ("x", "none", None),
        ("x", "deleted", None),
        ("y", "int", 1.0),
    ]
    assert [row["line"] for row in records] == [10] * 5 + [11]
    assert [row["step"] for row in records] == [0, 1, 2, 3, 4, 0]


def test_other_values_are_json_and_arrays_are_bytes(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    run = simple_run(tmp_path / "runs", {"x": [{"a": 1}, array, "\udc80"]})
    one, two, three = rows(export(run, "parquet", tmp_path / "out.parquet"))
    assert json.loads(one["json"]) == {"a": 1}
    assert (two["dtype"], two["shape"], two["json"]) == ("float32", [3, 2], None)
    np.testing.assert_array_equal(np.frombuffer(two["array"], "<f4").reshape(3, 2), array)
    assert json.loads(three["json"]) == "\udc80"


def test_nan_is_a_number_and_not_a_gap(tmp_path: Path) -> None:
    (row,) = rows(export(simple_run(tmp_path / "runs", {"x": [float("nan")]}), "parquet", tmp_path / "o"))
    assert row["number"] != row["number"]


def test_the_run_is_in_the_metadata(tmp_path: Path) -> None:
    path = export(simple_run(tmp_path / "runs", {"x": [1]}), "parquet", tmp_path / "out.parquet")
    assert json.loads(pq.read_schema(path).metadata[b"clew.run"])["name"] == "test"


@pytest.mark.parametrize("size", [1, 7])
def test_many_changes_of_many_processes_are_all_exported(tmp_path: Path, size: int, monkeypatch: Any) -> None:
    import clew.export.parquet as parquet

    monkeypatch.setattr(parquet, "ROWS", size)
    monkeypatch.setattr(parquet, "ROWS_OF_ARRAYS", size)
    writer = Written(tmp_path / "runs")
    for process in (0, 1):
        shard = writer.shard(process=process)
        call = shard.call(at=0)
        for value in range(10):
            shard.change(call, "x", value, at=value * 2 + process)
            shard.change(call, "t", str(value), at=value * 2 + process)
        shard.close()
    records = rows(export(writer.open(), "parquet", tmp_path / "out.parquet"))
    assert [row["number"] for row in records if row["name"] == "x"] == [value for value in range(10) for _ in (0, 1)]
    assert [json.loads(row["json"]) for row in records if row["name"] == "t"] == [
        str(v) for v in range(10) for _ in (0, 1)
    ]


def test_a_step_that_is_not_a_number_or_too_large_is_null(tmp_path: Path) -> None:
    writer = Written(tmp_path / "runs")
    shard = writer.shard()
    call = shard.call()
    for step in (2**60, 10**400, "warmup", 1.5):
        shard.step(call, step)
        shard.change(call, "x", 1)
    shard.close()
    records = rows(export(writer.open(), "parquet", tmp_path / "out.parquet"))
    assert [row["step"] for row in records] == [float(2**60), None, None, 1.5]

"""A series as pandas knows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clew.records import DELETED
from reading.writing import Written, simple_run


def test_to_pandas_is_indexed_by_step(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    for step, loss in [(10, 1.0), (20, 0.5)]:
        shard.step(call, step)
        shard.change(call, "loss", loss)
    shard.close()
    series = writer.open()["loss"].to_pandas()
    assert series.index.tolist() == [10, 20]
    assert series.index.name == "step"
    assert series.name == "loss"
    assert series.loc[20] == 0.5


def test_to_pandas_leaves_deletions_out(tmp_path: Path) -> None:
    series = simple_run(tmp_path, {"x": [1, DELETED, 3]})["x"].to_pandas()
    assert series.index.tolist() == [0, 2]
    assert series.tolist() == [1, 3]


def test_to_pandas_holds_an_array_a_row(tmp_path: Path) -> None:
    series = simple_run(tmp_path, {"x": [np.zeros(3), np.ones(3)]})["x"].to_pandas()
    assert len(series) == 2
    assert series.iloc[1].tolist() == [1.0, 1.0, 1.0]

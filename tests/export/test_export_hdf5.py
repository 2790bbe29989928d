"""Runs as HDF5."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from clew.errors import MissingLibraryError
from clew.export import export
from clew.export.hdf5 import group_name
from clew.records import DELETED
from history.writing import Written, simple_run


def written(tmp_path: Path, changes: dict[str, list[Any]]) -> h5py.File:
    return h5py.File(export(simple_run(tmp_path / "runs", changes), "hdf5", tmp_path / "out.h5"))


def test_numbers_are_one_dataset(tmp_path: Path) -> None:
    with written(tmp_path, {"loss": [1.0, 0.5], "n": [1, DELETED, 2], "b": [True]}) as file:
        group = file["changes/loss"]
        assert group["values"][:].tolist() == [1.0, 0.5]
        assert group["steps"][:].tolist() == [0, 1]
        assert group["lines"][:].tolist() == [10, 10]
        assert group["times"][:].tolist() == [0.002, 0.003]
        assert file["changes/n/values"].dtype == "int64"
        assert file["changes/n/steps"][:].tolist() == [0, 2], "a deletion is left out"
        assert json.loads(file.attrs["run"])["name"] == "test"


def test_arrays_of_one_shape_are_one_dataset(tmp_path: Path) -> None:
    arrays = [np.full((2, 3), number, np.float32) for number in range(4)]
    with written(tmp_path, {"w": arrays}) as file:
        values = file["changes/w/values"]
        assert (values.shape, values.dtype) == ((4, 2, 3), np.float32)
        np.testing.assert_array_equal(values[3], arrays[3])


def test_arrays_of_different_shapes_are_a_dataset_each(tmp_path: Path) -> None:
    with written(tmp_path, {"w": [np.zeros(2), np.ones(3), "text"]}) as file:
        values = file["changes/w/values"]
        assert values["1"][:].tolist() == [1, 1, 1]
        assert json.loads(values["2"][()]) == "text"


def test_texts_and_mixtures_are_json(tmp_path: Path) -> None:
    with written(tmp_path, {"x": ["a", {"b": 1}, None, "\udc80"]}) as file:
        texts = file["changes/x/values"].asstr()[:]
        assert [json.loads(text) for text in texts] == ["a", {"b": 1}, None, "\udc80"]


def test_steps_that_are_no_numbers_are_json(tmp_path: Path) -> None:
    run = Written(tmp_path / "runs")
    shard = run.shard()
    call = shard.call()
    shard.step(call, "warmup")
    shard.change(call, "x", 1)
    shard.close()
    with h5py.File(export(run.open(), "hdf5", tmp_path / "out.h5")) as file:
        assert file["changes/x/steps"].asstr()[:].tolist() == ['"warmup"']


@pytest.mark.parametrize("name", ["a/b", ".", "..", 'd["x"]', "/", "50%", "w.grad", "ключ"])
def test_any_name_is_one_group_and_stands_in_its_attribute(tmp_path: Path, name: str) -> None:
    with written(tmp_path, {name: [1]}) as file:
        (group,) = file["changes"].values()
        assert group.attrs["name"] == name
        assert file["changes"][group_name(name)]["values"][:].tolist() == [1]


def test_datetimes_which_hdf5_lacks_are_json(tmp_path: Path) -> None:
    with written(tmp_path, {"t": [np.array(["2024-01-01"], dtype="datetime64[D]")] * 2}) as file:
        assert len(file["changes/t/values"]) == 2


def test_without_h5py_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1]})
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(MissingLibraryError, match="pip install h5py"):
        export(run, "hdf5", tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()

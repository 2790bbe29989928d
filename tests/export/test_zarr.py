"""Runs as Zarr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from clew.errors import MissingLibraryError, OptionError
from clew.export import export
from clew.export.zarr import folder_name
from clew.records import DELETED
from reading.writing import simple_run


def export_changes(tmp_path: Path, changes: dict[str, list[Any]]) -> Any:
    return zarr.open_group(str(export(simple_run(tmp_path / "runs", changes), "zarr", tmp_path / "out.zarr")), mode="r")


def test_numbers_are_one_array_with_columns_beside_it(tmp_path: Path) -> None:
    root = export_changes(tmp_path, {"loss": [1.0, 0.5], "n": [1, DELETED, 2], "b": [True]})
    group = root["changes/loss"]
    assert group["values"][:].tolist() == [1.0, 0.5]
    assert group["steps"][:].tolist() == [0, 1]
    assert group["lines"][:].tolist() == [10, 10]
    assert group["times"][:].tolist() == [0.002, 0.003]
    assert group["ranks"][:].tolist() == [0, 0]
    assert root["changes/n/values"].dtype == "int64"
    assert root["changes/n/steps"][:].tolist() == [0, 2], "a deletion is left out"
    assert root["changes/b/values"].dtype == "bool"
    assert json.loads(root.attrs["run"])["name"] == "test"


def test_smaller_arrays_are_padded_and_their_shapes_kept(tmp_path: Path) -> None:
    group = export_changes(tmp_path, {"w": [np.zeros(2, np.float32), np.ones(3, np.float32)]})["changes/w"]
    np.testing.assert_array_equal(group["values"][:], [[0, 0, np.nan], [1, 1, 1]])
    assert group["values"].dtype == np.float32
    assert group["shapes"][:].tolist() == [[2], [3]]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "complex64", ">f4"])
def test_arrays_of_every_dtype_come_back(tmp_path: Path, dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]], dtype)
    values = export_changes(tmp_path, {"w": [array, array]})["changes/w/values"]
    np.testing.assert_array_equal(values[1], array)
    assert values.dtype == array.dtype.newbyteorder("=")


def test_texts_and_other_things_have_their_own_arrays(tmp_path: Path) -> None:
    values = ["ключ", {"b": 1}, np.ones(2), np.zeros(1, [("a", "f4")])]
    group = export_changes(tmp_path, {"x": values})["changes/x"]
    assert group["values"][:].tolist() == ["ключ"]
    assert json.loads(group["values_json"][:][0]) == {"b": 1}
    assert group["steps_json"][:].tolist() == [1, 3], "a record is JSON"
    assert group["values_1d"][:].tolist() == [[1, 1]]


@pytest.mark.parametrize("name", ["a/b", ".", 'd["x"]', "w.grad", "ключ", "zarr.json", "__x", "x" * 1000, "ж" * 100])
def test_any_name_is_one_group_and_stands_in_its_attribute(tmp_path: Path, name: str) -> None:
    changes = export_changes(tmp_path, {name: [1]})["changes"]
    ((_, group),) = changes.groups()
    assert group.attrs["name"] == name
    assert changes[folder_name(name)]["values"][:].tolist() == [1]


def test_long_names_with_the_same_beginning_stay_distinct() -> None:
    assert folder_name("x" * 300 + "a") != folder_name("x" * 300 + "b")


@pytest.mark.parametrize("existing", ["file", "folder"])
def test_a_target_that_exists_is_refused_and_left_alone(tmp_path: Path, existing: str) -> None:
    target = tmp_path / "out.zarr"
    target.touch() if existing == "file" else target.mkdir()
    with pytest.raises(OptionError, match="exists") as caught:
        export(simple_run(tmp_path / "runs", {"x": [1]}), "zarr", target)
    assert caught.value.slug == "export-target"
    assert target.exists()


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(count: int, total: int) -> None:
        raise RuntimeError

    run = simple_run(tmp_path / "runs", {"x": [1]})
    with pytest.raises(RuntimeError):
        export(run, "zarr", tmp_path / "out.zarr", progress=fail)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_without_zarr_the_error_tells_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1]})
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingLibraryError, match="pip install zarr"):
        export(run, "zarr", tmp_path / "out.zarr")

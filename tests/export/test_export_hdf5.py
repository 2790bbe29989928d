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
from clew.export.hdf5 import chunk_shape, encode_name
from clew.records import DELETED
from reading.writing import Written, simple_run


def export_changes(tmp_path: Path, changes: dict[str, list[Any]]) -> h5py.File:
    return h5py.File(export(simple_run(tmp_path / "runs", changes), "hdf5", tmp_path / "out.h5"))


def test_numbers_are_one_dataset(tmp_path: Path) -> None:
    with export_changes(tmp_path, {"loss": [1.0, 0.5], "n": [1, DELETED, 2], "b": [True]}) as file:
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
    with export_changes(tmp_path, {"w": arrays}) as file:
        values = file["changes/w/values"]
        assert (values.shape, values.dtype) == ((4, 2, 3), np.float32)
        np.testing.assert_array_equal(values[3], arrays[3])


def test_every_dataset_can_grow(tmp_path: Path) -> None:
    with export_changes(tmp_path, {"w": [np.zeros((2, 3)), np.ones((2, 3))]}) as file:
        group = file["changes/w"]
        assert group["values"].maxshape == (None, None, None)
        assert {key: group[key].maxshape[0] for key in group} == dict.fromkeys(
            ["values", "shapes", "steps", "times", "lines", "ranks"]
        )


def test_records_without_fields_are_written_as_text(tmp_path: Path) -> None:
    empty = np.dtype({"names": [], "formats": [], "offsets": [], "itemsize": 16})
    with export_changes(tmp_path, {"r": [np.zeros(2, empty)]}) as file:
        assert file["changes/r/values"].attrs["kind"] != "array"


def test_smaller_arrays_are_padded_and_their_shapes_kept(tmp_path: Path) -> None:
    with export_changes(
        tmp_path, {"w": [np.zeros(2), np.ones(3)], "n": [np.ones((1, 2), int), np.ones((2, 1), int)]}
    ) as file:
        floats, whole = file["changes/w"], file["changes/n"]
        np.testing.assert_array_equal(floats["values"][:], [[0, 0, np.nan], [1, 1, 1]])
        assert floats["shapes"][:].tolist() == [[2], [3]]
        assert np.isnan(floats["values"].attrs["fill"])
        assert whole["values"][:].tolist() == [[[1, 1], [0, 0]], [[1, 0], [1, 0]]]
        assert (whole["values"].attrs["fill"], whole["shapes"][:].tolist()) == (0, [[1, 2], [2, 1]])


def test_another_number_of_dimensions_or_dtype_has_its_own_dataset(tmp_path: Path) -> None:
    values = [np.zeros(2), np.ones((1, 2)), np.ones(2, complex), "text", np.full(2, 5.0)]
    with export_changes(tmp_path, {"w": values}) as file:
        group = file["changes/w"]
        assert group["values"][:].tolist() == [[0, 0], [5, 5]]
        assert group["steps"][:].tolist() == [0, 4]
        assert group["values_2d"][:].tolist() == [[[1, 1]]]
        assert group["steps_2d"][:].tolist() == [1]
        assert group["values_1d_complex128"].shape == (1, 2)
        assert group["values_text"].asstr()[:].tolist() == ["text"]
        assert group["lines_text"][:].tolist() == [10]


def test_texts_are_texts_and_other_things_json(tmp_path: Path) -> None:
    with export_changes(tmp_path, {"x": ["a", {"b": 1}, None, "\udc80", "\0"]}) as file:
        group = file["changes/x"]
        assert group["values"].asstr()[:].tolist() == ["a"]
        assert [json.loads(text) for text in group["values_json"].asstr()[:]] == [{"b": 1}, None, "\udc80", "\0"]
        assert group["steps_json"][:].tolist() == [1, 2, 3, 4]
        assert (group["values"].attrs["kind"], group["values_json"].attrs["kind"]) == ("text", "json")


def test_each_value_has_its_rank(tmp_path: Path) -> None:
    run = Written(tmp_path / "runs")
    for rank in (0, 1):
        shard = run.shard(rank)
        shard.change(shard.call(at=0), "x", rank + 0.5, at=rank + 1)
        shard.close()
    with h5py.File(export(run.open(), "hdf5", tmp_path / "out.h5")) as file:
        for rank in (0, 1):
            assert file[f"changes/x@rank={rank}/ranks"][:].tolist() == [rank]
            assert file[f"changes/x@rank={rank}/values"][:].tolist() == [rank + 0.5]


def test_many_values_are_written_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.export.hdf5.BLOCK", 3)
    monkeypatch.setattr("clew.export.hdf5.NUMBERS", 3)
    arrays = [DELETED if number == 4 else np.full(2, number) for number in range(10)]
    with export_changes(tmp_path, {"w": arrays, "n": list(range(10))}) as file:
        assert file["changes/w/values"][:, 0].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        assert file["changes/w/steps"][:].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        assert file["changes/n/values"][:].tolist() == list(range(10))


def test_a_name_that_was_only_deleted_has_an_empty_dataset(tmp_path: Path) -> None:
    with export_changes(tmp_path, {"x": [DELETED]}) as file:
        assert len(file["changes/x/values"]) == 0


def test_whole_and_fractional_steps_of_one_name_are_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.export.hdf5.BLOCK", 1)
    run = Written(tmp_path / "runs")
    shard = run.shard()
    call = shard.call()
    for step in (1, 1.5):
        shard.step(call, step)
        shard.change(call, "x", np.ones(2))
    shard.close()
    with h5py.File(export(run.open(), "hdf5", tmp_path / "out.h5")) as file:
        assert file["changes/x/steps"][:].tolist() == [1.0, 1.5]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), (1024,)), ((64, 128), (8, 64, 128)), ((0, 5), (1024, 1, 5)), ((4096, 512), (1, 512, 512))],
)
def test_a_chunk_is_of_a_size_that_appends_well(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert chunk_shape(shape, 4) == expected


def test_steps_that_are_not_numbers_are_json(tmp_path: Path) -> None:
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
    with export_changes(tmp_path, {name: [1]}) as file:
        (group,) = file["changes"].values()
        assert group.attrs["name"] == name
        assert file["changes"][encode_name(name)]["values"][:].tolist() == [1]


def test_datetimes_which_hdf5_lacks_are_json(tmp_path: Path) -> None:
    with export_changes(tmp_path, {"t": [np.array(["2024-01-01"], dtype="datetime64[D]")] * 2}) as file:
        assert len(file["changes/t/values"]) == 2


def test_without_h5py_the_error_tells_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1]})
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(MissingLibraryError, match="pip install h5py"):
        export(run, "hdf5", tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()

"""Runs as safetensors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import clew.export.safetensors as module
from clew.errors import MissingLibraryError, OptionError
from clew.export import export
from clew.records import DELETED, Kept, Summary, Value
from reading.writing import simple_run


def export_changes(tmp_path: Path, changes: dict[str, list[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors, and what is told of the names."""
    path = export(simple_run(tmp_path / "runs", changes), "safetensors", tmp_path / "out.safetensors")
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    assert json.loads(metadata["clew.run"])["name"] == "test"
    return load_file(path), json.loads(metadata["clew.names"])


def test_plain_numbers_are_one_tensor(tmp_path: Path) -> None:
    tensors, metadata = export_changes(tmp_path, {"loss": [1.0, 0.5], "n": [1, DELETED, 2]})
    assert (tensors["loss"].tolist(), tensors["loss"].dtype) == ([1.0, 0.5], np.float64)
    assert (tensors["n"].tolist(), tensors["n"].dtype) == ([1, 2], np.int64)
    assert metadata["n"] == {
        "kind": "numbers",
        "steps": [0, 2],
        "times": [0.004, 0.006],
        "lines": [11, 11],
        "ranks": [0, 0],
    }


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", ">f4"])
def test_an_array_is_a_tensor_by_itself(tmp_path: Path, dtype: str) -> None:
    arrays = [np.array([[0, 1, 1]], dtype), np.array([[1], [0]], dtype), np.zeros((0, 3), dtype)]
    tensors, metadata = export_changes(tmp_path, {"w": arrays})
    assert list(tensors) == ["w/0", "w/1", "w/2"]
    for place, array in enumerate(arrays):
        np.testing.assert_array_equal(tensors[f"w/{place}"], array)
        assert tensors[f"w/{place}"].dtype == array.dtype.newbyteorder("=")
    assert metadata["w"]["steps"] == [0, 1, 2]


def test_widths_may_be_mixed(tmp_path: Path) -> None:
    arrays = [np.arange(3, dtype=dtype) for dtype in ("int8", "float64", "float16", "float32", "int8")]
    tensors, _ = export_changes(tmp_path, {"w": arrays})
    for place, array in enumerate(arrays):
        np.testing.assert_array_equal(tensors[f"w/{place}"], array)


def test_complex_numbers_are_pairs_and_marked_as_such(tmp_path: Path) -> None:
    tensors, metadata = export_changes(tmp_path, {"w": [np.array([1 + 2j], np.complex64)]})
    assert tensors["w/0"].tolist() == [[1.0, 2.0]]
    assert metadata["w"]["stored_as"]["0"][0] == "complex64"


def test_other_values_are_in_the_metadata(tmp_path: Path) -> None:
    tensors, metadata = export_changes(
        tmp_path, {"x": ["a", np.ones(2), {"b": 1}, np.array(["2024-01-01"], "datetime64[D]")]}
    )
    assert list(tensors) == ["x/1"]
    assert {key: metadata["x"]["others"][key] for key in "02"} == {"0": "a", "2": {"b": 1}}
    assert "3" in metadata["x"]["others"]


def test_a_value_that_was_not_kept_is_listed_as_missing(tmp_path: Path) -> None:
    not_kept = Value("numpy.ndarray", None, kept=Kept.SUMMARY, why="over 32 MiB", summary=Summary(shape=(9,)))
    tensors, metadata = export_changes(tmp_path, {"x": [np.ones(2), not_kept]})
    assert list(tensors) == ["x/0"]
    assert metadata["x"]["missing"] == {"1": "over 32 MiB"}


def test_two_tensors_of_one_name_are_an_error(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"x": [np.ones(2)], "x/0": [1]})
    with pytest.raises(OptionError, match="x/0"):
        export(run, "safetensors", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_more_metadata_than_the_library_reads_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_HEADER", 100)
    with pytest.raises(OptionError, match="fewer names"):
        export(simple_run(tmp_path / "runs", {"x": ["a"]}), "safetensors", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_without_safetensors_the_error_tells_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simple_run(tmp_path / "runs", {"x": [1]})
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingLibraryError, match="pip install safetensors"):
        export(run, "safetensors", tmp_path / "out")

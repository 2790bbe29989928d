"""HDF5Saver and safetensors with torch's tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors import safe_open

from clew.export import export
from clew.export.hdf5_saver import HDF5Saver
from reading.writing import simple_run


def save(saver: HDF5Saver, name: str, *values: Any) -> Any:
    """The group the values went to."""
    saver(name, list(values), list(range(len(values))), [0] * len(values))
    return saver.datasets[name].parent


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int64", "bool", "complex64"])
def test_tensors_keep_their_dtype(tmp_path: Path, dtype: str) -> None:
    tensor = torch.ones(2, 3).to(getattr(torch, dtype))
    with HDF5Saver(tmp_path / "a.h5") as saver:
        values = save(saver, "x", tensor, tensor)["values"]
        assert (values.shape, values.dtype.name) == ((2, 2, 3), dtype)
        np.testing.assert_array_equal(values[1], tensor.numpy())


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        values = save(saver, "x", torch.tensor([1.5, -2.0], dtype=torch.bfloat16))["values"]
        assert (values.dtype, values[:].tolist()) == (np.float32, [[1.5, -2.0]])
        assert values.attrs["converted_from"] == "bfloat16"


def test_bfloat16_becomes_the_requested_dtype(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5", float_dtype=torch.float16, int_dtype=torch.int32) as saver:
        assert save(saver, "x", torch.ones(2, dtype=torch.bfloat16))["values"].dtype == np.float16
        assert save(saver, "i", torch.ones(2, dtype=torch.int64))["values"].dtype == np.int32


def test_float8_becomes_float32(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        values = save(saver, "x", torch.tensor([0.5, 2.0]).to(torch.float8_e4m3fn))["values"]
        assert (values.dtype, values[:].tolist()) == (np.float32, [[0.5, 2.0]])


def test_scalars_and_tensors_without_dimensions_are_one_column(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        group = save(saver, "loss", torch.tensor(0.5, dtype=torch.float64), 0.25)
        assert group["values"][:].tolist() == [0.5, 0.25]
        assert "shapes" not in group


def test_tensors_of_every_sort_are_numbers(tmp_path: Path) -> None:
    class Mine(torch.Tensor):
        pass

    tensors = [
        torch.ones(2, 2, requires_grad=True),
        torch.nn.Parameter(torch.ones(2, 2)),
        torch.ones(2, 2).to_sparse(),
        torch.ones(2, 2).as_subclass(Mine),
        torch.ones(4, 4)[::2, 1::2].T,
    ]
    with HDF5Saver(tmp_path / "a.h5") as saver:
        group = save(saver, "x", *tensors)
        np.testing.assert_array_equal(group["values"][:], np.ones((5, 2, 2)))
        assert sorted(group) == ["iterations", "ranks", "shapes", "values"]


def test_conjugated_tensors_are_what_they_mean(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        assert save(saver, "x", torch.tensor([1 + 2j]).conj())["values"][:].tolist() == [[1 - 2j]]


def test_a_stack_of_many_iterations(tmp_path: Path) -> None:
    values: list[Any] = [torch.zeros(2), torch.ones(2), torch.ones(2)]
    iterations, ranks = [0, 1, 2], [0, 0, 0]
    values[:] = [torch.stack(values)]
    with HDF5Saver(tmp_path / "a.h5") as saver:
        saver("x", values, iterations, ranks)
        assert (values, iterations, ranks) == ([], [], [])
        assert saver.datasets["x"].shape == (1, 3, 2)
        assert saver.datasets["x"].parent["iterations"][:].tolist() == [[0, 1, 2]]


def test_containers_of_tensors_are_json(tmp_path: Path) -> None:
    with HDF5Saver(tmp_path / "a.h5") as saver:
        told = save(saver, "x", {"a": torch.ones(2)})["values"].asstr()[0]
        assert json.loads(told)["a"]["values"] == [1.0, 1.0]


def test_large_tensors_come_back(tmp_path: Path) -> None:
    tensor = torch.arange(700 * 900, dtype=torch.float32).reshape(700, 900)
    with HDF5Saver(tmp_path / "a.h5", compression="gzip", compression_opts=1) as saver:
        save(saver, "x", tensor, tensor[:5])
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["x/values"][0], tensor.numpy())
        assert np.isnan(file["x/values"][1, 5:]).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32"])
def test_safetensors_keeps_tensors_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    tensor = torch.randn(3, 5).to(getattr(torch, dtype))
    run = simple_run(tmp_path / "runs", {"x": [torch.ones(3, dtype=torch.int8), tensor, tensor[0, 0]]})
    path = export(run, "safetensors", tmp_path / "out.safetensors")
    with safe_open(path, framework="pt") as file:
        found = file.get_tensor("x/1")
        assert found.dtype == tensor.dtype
        assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))
        assert file.get_tensor("x/2").shape == ()
        assert "stored_as" not in json.loads(file.metadata()["clew.names"])["x"]


def test_safetensors_lists_the_tensors_it_widened(tmp_path: Path) -> None:
    tensor = torch.tensor([0.5, 2.0]).to(torch.float8_e4m3fnuz)
    path = export(simple_run(tmp_path / "runs", {"x": [tensor]}), "safetensors", tmp_path / "out")
    with safe_open(path, framework="pt") as file:
        assert file.get_tensor("x/0").tolist() == [0.5, 2.0]
        assert json.loads(file.metadata()["clew.names"])["x"]["stored_as"] == {"0": ["float8_e4m3fnuz", "F32"]}


@pytest.mark.parametrize("format", ["hdf5", "zarr"])
def test_exports_of_bfloat16_name_the_original_dtype(tmp_path: Path, format: str) -> None:
    run = simple_run(tmp_path / "runs", {"x": [torch.ones(2, dtype=torch.bfloat16)]})
    path = export(run, format, tmp_path / "out")
    if format == "hdf5":
        root: Any = h5py.File(path)
    else:
        import zarr

        root = zarr.open_group(str(path), mode="r")
    values = root["changes/x/values"]
    assert (values.dtype, values.attrs["converted_from"]) == (np.float32, "bfloat16")

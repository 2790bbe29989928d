"""`graph.map` over torch's Datasets and loaders, and tensors in the output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import clew
from clew.errors import GraphError
from clew.graph import Graph
from graph import mapops


class Squares(Dataset[Any]):
    """It has a length, and never says where it ends."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, index**2])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([torch.tensor([index, index**2]) for index in range(3)])


@pytest.fixture
def graph() -> Graph:
    return clew.record(mapops.simple, torch.ones(2))


@pytest.mark.parametrize("dataset", [Squares(), Stream()], ids=["by number", "stream"])
def test_the_items_of_a_dataset(graph: Graph, dataset: Any) -> None:
    assert [value.tolist() for value in graph.map(dataset)] == [[0, 0], [10, 10], [20, 40]]


def test_the_batches_of_a_loader(graph: Graph) -> None:
    assert [value.tolist() for value in graph.map(DataLoader(Squares(), batch_size=2))] == [
        [[0, 0], [10, 10]],
        [[20, 40]],
    ]


def test_samples_of_several_parts_are_several_inputs() -> None:
    graph = clew.record(mapops.difference, torch.ones(1), torch.ones(1))
    dataset = TensorDataset(torch.tensor([5.0, 6.0]), torch.tensor([1.0, 2.0]))
    assert [value.item() for value in graph.map(dataset)] == [4.0, 4.0]
    graph = clew.record(mapops.between, torch.ones(1), torch.ones(1))
    assert [value.tolist() for value in graph.map(DataLoader(dataset, batch_size=2))] == [[4.0, 4.0]]


def test_tensors_are_written_as_lists(graph: Graph, tmp_path: Path) -> None:
    graph.map(Squares(), output=tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["result"].to_pylist() == [[0, 0], [10, 10], [20, 40]]


def test_tensors_travel_to_processes_and_back(graph: Graph) -> None:
    found = list(graph.map([torch.tensor([1.5])], processes=True, workers=1))
    assert torch.equal(found[0], torch.tensor([15.0]))


def test_rows_of_a_dataset_of_hugging_face_are_those_of_a_table() -> None:
    rows = datasets.Dataset.from_dict({"b": [1, 2, 3], "note": ["x", "y", "z"], "a": [10, 20, 30]})
    graph = clew.record(mapops.difference, 5, 4)
    for given in (rows, rows.to_iterable_dataset(), rows.with_format("numpy")):
        assert list(graph.map(given)) == [9, 18, 27]
    assert list(graph.map(rows.select([2, 0]))) == [27, 9]


# ---- batches


@pytest.mark.parametrize("options", [{"workers": 1}, {"processes": True, "workers": 1}])
def test_a_tensor_is_given_in_tensors_of_so_many_rows_and_joined(options: dict[str, Any]) -> None:
    graph = clew.record(mapops.simple, torch.ones(2, 3))
    rows = torch.arange(21.0).reshape(7, 3)
    joined = graph.map(rows, batch=3, **options).join()
    assert torch.equal(joined, rows * 10)


def test_samples_are_stacked_into_what_the_graph_was_recorded_with() -> None:
    graph = clew.record(mapops.difference, torch.ones(2, 1), torch.ones(2, 1))
    dataset = TensorDataset(torch.tensor([[5.0], [6.0], [7.0]]), torch.tensor([[1.0], [2.0], [3.0]]))
    assert graph.map(dataset, batch=2).join().tolist() == [[4.0], [4.0], [4.0]]


def test_arrays_are_tensors_for_a_graph_that_was_recorded_with_tensors() -> None:
    graph = clew.record(mapops.simple, torch.ones(2, 3))
    joined = graph.map(np.ones((5, 3), np.float32), batch=2).join()
    assert torch.equal(joined, torch.full((5, 3), 10.0))


def test_a_model_that_was_recorded_with_one_row_refuses_batches_of_rows() -> None:
    graph = clew.record(mapops.simple, torch.ones(3))
    with pytest.raises(GraphError, match="has 2 dimensions, and it was recorded with a Tensor of 1"):
        graph.map(torch.ones(4, 3), batch=2)

"""A model is trained twice with one layer changed: the runs first differ in that layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clew


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(5)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Half(nn.Linear):
    """A layer that was moved to bfloat16."""

    def forward(self, x: Any) -> Any:
        return nn.functional.linear(x.bfloat16(), self.weight.bfloat16(), self.bias.bfloat16())


class HalfNet(Net):
    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.tanh(layer(x.float()))
        return x


PATHS = ["layers.*", "layers.*.input"]


def train(name: str, *, half: int | None = None, nudged: int | None = None, net: Any = Net, paths: Any = PATHS) -> Any:
    torch.manual_seed(0)
    model = net()
    if half is not None:
        model.layers[half].__class__ = Half
    if nudged is not None:
        with torch.no_grad():
            model.layers[nudged].weight[0, 0] += 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(16, 8)
    with clew.run(name) as run, clew.ModelTracer(model, paths):
        for _ in range(3):
            optimizer.zero_grad()
            model(inputs).float().square().sum().backward()
            optimizer.step()
    return run


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_same_training_twice_is_equal_bit_for_bit(runs_folder: Path) -> None:
    comparison = clew.diff(train("a"), train("b"), rtol=0)
    assert comparison.equal
    assert comparison.summary()["identical"] == comparison.compared > 20


@pytest.mark.parametrize("changed", [{"half": 3, "net": HalfNet}, {"nudged": 3}])
def test_the_changed_layer_is_where_the_runs_first_differ(runs_folder: Path, changed: dict[str, Any]) -> None:
    comparison = clew.diff(train("a"), train("b", **changed), map={"Net": "HalfNet"} if "net" in changed else None)
    first = comparison.first
    assert first is not None
    assert (first.name, first.step, first.role) == ("layers.3", 0, "producer")
    assert [(argument.name, argument.equal) for argument in first.inputs] == [("layers.3.input", True)]
    later = [difference for difference in comparison.differences if difference.step == 0][1:]
    assert [item.name for item in later] == ["layers.4.input", "layers.4"]
    assert {item.role for item in later} == {"propagator"}
    if "half" in changed:
        assert first.measure.dtypes == ("float32", "bfloat16")
        assert "after widening" in first.measure.note


def test_without_inputs_the_changed_layer_is_recognised_by_earlier_values(runs_folder: Path) -> None:
    comparison = clew.diff(train("a", paths=["layers.*"]), train("b", nudged=2, paths=["layers.*"]))
    assert (comparison.first.name, comparison.first.role) == ("layers.2", "producer")
    assert "its inputs were not recorded" in comparison.first.reason


def test_with_recorded_parameters_later_iterations_are_explained_too(runs_folder: Path) -> None:
    paths = [*PATHS, "layers.*.weight"]
    comparison = clew.diff(train("a", paths=paths), train("b", nudged=2, paths=paths))
    assert (comparison.first.name, comparison.first.step) == ("layers.2.weight", 0)
    assert (comparison.first.role, "before the recording began" in comparison.first.reason) == ("unknown", True)
    later = next(difference for difference in comparison.differences if difference.name == "layers.0.weight")
    assert (later.step, later.role) == (1, "propagator")
    output = next(difference for difference in comparison.differences if difference.name == "layers.2")
    assert (output.role, "`layers.2.weight` differs already" in output.reason) == ("propagator", True)


def test_a_model_whose_modules_were_renamed_is_compared_with_map(runs_folder: Path) -> None:
    class Renamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(5)])
            self.layers = self.blocks

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = torch.tanh(block(x))
            return x

    a, b = train("a"), train("b", net=Renamed, paths=["blocks.*", "blocks.*.input"])
    comparison = clew.diff(a, b, map={"layers": "blocks"})
    assert comparison.equal, str(comparison)


def test_a_container_of_tensors_of_another_type_is_equal_and_not_identical(runs_folder: Path) -> None:
    runs = []
    for name, dtype in (("a", torch.float32), ("b", torch.bfloat16)):
        with clew.run(name) as run:
            hold(torch.ones(3, dtype=dtype))
        runs.append(run)
    summary = clew.diff(*runs, only="held").summary()
    assert (summary["equal"], summary["identical"], summary["within"]) == (True, 0, 1)


@clew.watch("held")
def hold(tensor: Any) -> None:
    held = [tensor, 1]

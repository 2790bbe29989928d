"""`clew.follow(model)`: what goes into and comes out of every layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import clew
from clew.probes.follow.torch_modules import unfollow_module
from probes.follow.tracing import names


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))


def test_every_layer_is_a_call_in_its_place(tmp_path: Path) -> None:
    model = small_model()
    assert clew.follow(model, show=False) is model
    with clew.run(path=tmp_path / "run") as run:
        model(torch.ones(5, 3))
    assert names(clew.open(run.path)) == [
        ["model (Sequential)", "0 (Linear)", ["1 (Sequential)", "1.0 (ReLU)", "1.1 (Linear)"]]
    ]


def test_inputs_and_outputs_are_recorded(tmp_path: Path) -> None:
    model = small_model()
    clew.follow(model, show=False)
    with clew.run(path=tmp_path / "run") as run:
        out = model(torch.ones(5, 3))
    call = clew.open(run.path).tree().roots[0]
    assert call.args["input"].tolist() == torch.ones(5, 3).tolist()
    assert torch.equal(call.result, out.detach())


def test_outputs_and_gradients_are_the_same_as_without() -> None:
    results = []
    for follow in (False, True):
        model = small_model()
        if follow:
            clew.follow(model, show=False)
        out = model(torch.ones(5, 3))
        out.sum().backward()
        results.append([out, *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_followed_training_step_holds_the_layers_it_called(tmp_path: Path) -> None:
    model = small_model()
    clew.follow(model, show=False)

    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x)

    clew.follow(show=False)(step)
    with clew.run(path=tmp_path / "run") as run:
        step(torch.ones(1, 3))
    (root,) = clew.open(run.path).tree().roots
    assert root.function.endswith("step")
    assert [child.function for child in root.children] == ["model (Sequential)"]


def test_a_layer_that_raises_leaves_the_next_call_right(tmp_path: Path) -> None:
    model = small_model()
    clew.follow(model, show=False)
    with clew.run(path=tmp_path / "run") as run:
        with pytest.raises(RuntimeError):
            model(torch.ones(5, 7))
        model(torch.ones(5, 3))
    first, second = clew.open(run.path).tree().roots
    assert len(second.children) == 2
    assert first.error is not None
    assert first.error.startswith("RuntimeError")


def test_it_can_be_taken_back(tmp_path: Path) -> None:
    model = small_model()
    clew.follow(model, show=False)
    unfollow_module(model)
    with clew.run(path=tmp_path / "run") as run:
        model(torch.ones(5, 3))
    assert names(clew.open(run.path)) == []
    assert not any(layer._forward_hooks for layer in model.modules())

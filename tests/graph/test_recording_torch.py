"""Pipelines of torch: functions, modules, tensors changed in place, contexts."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import clew
from graph.comparing import holds

ONE, OTHER = torch.ones(2, 3), torch.arange(12.0).reshape(4, 3) - 5
NET = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 2))


@torch.no_grad()
def inferred(x: Any) -> Any:
    return NET(x)


def test_functions_modules_and_attributes_are_done_again() -> None:
    def pipeline(x: Any) -> Any:
        values, places = x.max(dim=1)
        shares = torch.nn.functional.softmax(NET(x), dim=-1)
        return values, places, shares.detach(), x.shape, x.size(0), torch.cat([x, x]), x @ x.T, x.mean().item(), len(x)

    holds(pipeline, ONE, OTHER)


def test_tensors_changed_in_place_are_changed_again() -> None:
    def pipeline(x: Any) -> Any:
        y, out = x.clone(), torch.zeros(x.shape[0])
        y[0] = 1
        y.clamp_(min=0)
        out[0] = x[0, 0]
        x.mul_(2)
        torch.relu_(x)
        return y, out, x

    holds(pipeline, ONE, OTHER)


def test_gradients_are_off_where_they_were_off() -> None:
    def pipeline(x: Any) -> Any:
        with torch.no_grad():
            result = NET(x)
        return result, result.requires_grad, result.numpy(), inferred(x)

    graph = holds(pipeline, ONE, OTHER)
    with pytest.raises(RuntimeError):
        graph(torch.ones(2, 5))
    assert torch.is_grad_enabled()


def test_random_tensors_are_drawn_again() -> None:
    def pipeline(x: Any) -> Any:
        torch.manual_seed(1)
        torch.rand(2)
        return x + torch.randn(3), torch.nn.functional.dropout(x, 0.5)

    holds(pipeline, ONE, OTHER)


def test_a_module_that_is_called_is_not_taken_for_changed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = clew.record(lambda x: OWN(x).detach(), torch.ones(3))
    assert torch.equal(graph(torch.zeros(3)), OWN(torch.zeros(3)).detach())


class Own(torch.nn.Module):
    """Of the user's own: its dictionary is full of ordered dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.linear(x)


OWN = Own()


class Remembering(torch.nn.Module):
    last = 0.0

    def forward(self, x: Any) -> Any:
        self.last = float(x.sum())
        return x * 2


@pytest.mark.parametrize("wrap", [clew.op, lambda module: module])
def test_what_a_module_keeps_in_itself_is_read_again(wrap: Any) -> None:
    module = wrap(Remembering())
    holds(lambda x: (module(x), module.last), torch.ones(2), torch.zeros(3))


def test_a_module_that_is_the_pipeline_takes_the_arguments_of_its_forward() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any, by: Any = 2) -> Any:
            return x * by

    row = torch.ones(1, 3)
    graph = clew.record(Scaled(), row, params=True)
    assert graph.input_names == ["x", "by"]
    assert torch.equal(graph(row), row * 2) and torch.equal(graph(row, 3), row * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(torch.nn.Linear(3, 2), row)
    assert torch.equal(clew.record(traced, row)(row * 2), traced(row * 2))

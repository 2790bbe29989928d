"""Compiled models are compiled again when the last trace has ended, in whatever order they end."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import clew


def is_compiling() -> bool:
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    torch.compile(nn.Linear(2, 2), backend=backend)(torch.ones(1, 2))
    return bool(compiled)


def test_tracers_that_end_in_the_order_they_began_leave_compiling_on() -> None:

    models: list[Any] = [torch.compile(nn.Linear(2, 2), backend="eager") for _ in range(2)]
    first, second = (clew.ModelTracer(model, ["**"]) for model in models)
    first.__enter__()
    second.__enter__()
    assert not is_compiling()
    first.__exit__(None, None, None)
    assert not is_compiling()
    second.__exit__(None, None, None)
    assert is_compiling()

"""A small torch module, in a module of its own: bundles have its text."""

from __future__ import annotations

from typing import Any

import torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 4)

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)))

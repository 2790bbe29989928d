"""Small models for the tests."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn


class Block(nn.Module):
    """Has a local of several versions, an attribute it counts with, and containers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.counter = 0

    def forward(self, x: Any) -> Any:
        self.counter += 1
        q = self.fc(x)
        q = q * 2
        q += 1
        out = {"logits": self.norm(q), "aux": [q, x]}
        return out["logits"]

    def encode(self, x: Any, scale: float = 2.0) -> Any:
        code = x * scale
        return code


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 2)
        self.bn = nn.BatchNorm1d(2)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        y = self.encoder(x)
        y = self.head(y)
        return self.bn(y) * scale


class Pair(NamedTuple):
    left: Any
    right: Any


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def inputs(count: int, batch: int = 5) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, 4, generator=generator) for _ in range(count)]


def train(model: Any, batches: list[Any], optimizer: Any = None) -> list[Any]:
    """Gives what the model gave."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    given = []
    for batch in batches:
        optimizer.zero_grad()
        output = model(batch)
        output.square().mean().backward()
        optimizer.step()
        given.append(output.detach().clone())
    return given

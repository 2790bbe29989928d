"""`keep="last batch"`: nothing is stopped, and the batch that failed is there in every stage."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, default_collate

import clew
from clew.probes.pipeline.trace_recording import open_traces
from probes.pipeline.loops import Net, Numbers, failed, train

FAILS = [404, 405, 406, 407]


class Failing(Numbers):
    def __init__(self, where: str) -> None:
        super().__init__(600)
        self.where = where

    def __getitem__(self, index: int) -> Any:
        if self.where == "dataset" and index == 405:
            raise ValueError("bad sample")
        return super().__getitem__(index)

    def collate(self, samples: list[Any]) -> Any:
        if self.where == "collate" and samples[0][1] == 404:
            raise ValueError("clash")
        return default_collate(samples)


def loop(loader: Any, where: str, ahead: bool = False) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    for x, y in one_ahead(loader) if ahead else loader:
        fails = where if y[0] == 404 else ""
        out = net(x[:, 0] if fails == "model" else x)
        loss = nn.functional.l1_loss(out, torch.zeros(len(x) if fails != "loss" else 7), reduction="none")
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()


def one_ahead(loader: Any) -> Any:
    """As frameworks do that must know which batch is the last."""
    batches = iter(loader)
    batch = next(batches)
    for following in batches:
        yield batch
        batch = following
    yield batch


STAGES = ["sampler", "dataset", "collate", "loader", "model", "loss"]


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("where", ["dataset", "collate", "model", "loss"])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_batch_that_failed_is_there_in_every_stage(where: str, workers: int) -> None:
    dataset = Failing(where)
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, collate_fn=dataset.collate)
    trace, _ = failed(loader, lambda loader: loop(loader, where), keep="last batch")
    assert [stage.name for stage in trace] == STAGES[: STAGES.index(where) + 1]
    assert {id for call in trace.calls for id in call.ids} <= set(FAILS)
    last = trace[where][-1]
    assert last.error and last.ids == ((405,) if where == "dataset" else tuple(FAILS))


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("workers", [0, 2])
def test_it_is_there_also_if_the_next_one_was_taken_already(workers: int) -> None:
    loader = DataLoader(Failing("loss"), batch_size=4, num_workers=workers)
    trace, _ = failed(loader, lambda loader: loop(loader, "loss", ahead=True), keep="last batch")
    assert [stage.name for stage in trace] == STAGES
    assert all(set(call.ids) <= set(FAILS) for call in trace.calls)


@pytest.mark.parametrize("size", [4, None])
def test_what_is_known_of_a_long_loop_stays_small(size: int | None) -> None:
    held = []
    net = Net()
    with clew.items(keep="last batch") as trace:
        (tracing,) = open_traces()
        for x, _ in DataLoader(Numbers(2000 if size else 500), batch_size=size):
            net(x if size else x[None])
            held.append(len(tracing.flow._known) + len(tracing._repeats) + len(tracing.steps))
    assert max(held[100:]) <= max(held[:100]) and len(trace) == 0


def test_a_loop_that_ends_well_leaves_nothing_and_is_whole() -> None:
    steps: list[Any] = []
    with clew.items(keep="last batch") as trace:
        train(DataLoader(Numbers(), batch_size=4), 2, steps)
    assert len(steps) == 20 and trace.calls == []

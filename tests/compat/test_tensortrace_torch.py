"""The three examples of TensorTracer's document, on two gloo processes, with the shapes it states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from clew.compat.tensortrace import ModelTracer, stack_padded_tensors, stack_tensors
from probes.model.ranks import once, run_ranks

EXAMPLES = """
from clew.compat.tensortrace import H5PYSaverCallback, ModelTracer, stack_padded_tensors
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

B, C = 5, 3
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(C, 4), nn.ReLU(), nn.Linear(4, 2))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = model
    def forward(self, x):
        return self.layers(x)

model = Net()
ddp_model = DistributedDataParallel(model)
data = TensorDataset(torch.randn(20, C), torch.randint(0, 2, (20,)))
sampler = DistributedSampler(data)
dataloader = DataLoader(data, batch_size=B, sampler=sampler)
optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()

def training(epochs):
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        ddp_model.train()
        for batch_idx, (data, target) in enumerate(dataloader):
            optimizer.zero_grad()
            output = ddp_model(data)
            loss = loss_fn(output, target.long())
            loss.backward()
            optimizer.step()

N = 4 * len(dataloader)
found = {"N": N}
tracer = ModelTracer(
    model,
    [
        "forward", # Save output of forward function
        "forward.x", # Save input of forward function
    ],
    pre_gather_callbacks=[stack_padded_tensors],
    post_gather_callbacks=[stack_padded_tensors],
    post_trace_callbacks=[stack_padded_tensors],
    gathering_interval=4
)
with tracer:
    training(4)
if rank == 0:
    found["first"] = list(tracer.results['forward.x'].values[0].shape)
    found["first_out"] = list(tracer.results['forward'].values[0].shape)

saver_callback = H5PYSaverCallback(dataset_file=f"{folder}/test.h5")
tracer = ModelTracer(
    model, ["forward", "forward.x"], post_gather_callbacks=[stack_padded_tensors, saver_callback], gathering_interval=2
)
with tracer:
    training(4)
if rank == 0:
    found["second"] = list(saver_callback.datasets['forward.x'].shape)
    saver_callback.close()

def mean_post_gather(name, values, iterations, ranks):
    values[0] = values[0].mean(dim=(0,1)) # (G,B,C) -> (C)
    pass

tracer = ModelTracer(
    model,
    ["forward", "forward.x"],
    post_gather_callbacks=[stack_padded_tensors, mean_post_gather],
    post_trace_callbacks=[stack_padded_tensors],
    gathering_interval=4
)
with tracer:
    training(4)
if rank == 0:
    found["third"] = list(tracer.results['forward.x'].values[0].shape)
tell(**found)
dist.barrier()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return once(tmp_path_factory, "examples", lambda folder: run_ranks(folder, 2, EXAMPLES)[0])[1]


W, B, C = 2, 5, 3


def test_the_first_example_stacks_gatherings_ranks_and_iterations(told: Any) -> None:
    assert told["first"] == [told["N"] // 4, W, 4, B, C]
    assert told["first_out"] == [told["N"] // 4, W, 4, B, 2]


def test_the_second_example_writes_a_dataset(told: Any) -> None:
    assert told["second"] == [told["N"] // 2, 2 * W, B, C]


def test_the_third_example_takes_the_mean_over_ranks_and_batches(told: Any) -> None:
    assert told["third"] == [told["N"] // 4, C]


def test_without_torch_distributed_it_works_alone() -> None:
    model = torch.nn.Linear(2, 2)
    with ModelTracer(model, ["forward"], post_trace_callbacks=[stack_tensors]) as tracer:
        model(torch.ones(2))
        model(torch.zeros(2))
    assert tracer.results["forward"].values[0].shape == (2, 2)


def test_padding_takes_ragged_values() -> None:
    values = [torch.ones(2), torch.ones(3)]
    stack_padded_tensors("x", values, [0, 1], [0, 0])
    assert values[0].tolist() == [[1, 1, 0], [1, 1, 1]]


def test_nothing_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_DIR", str(tmp_path / "runs"))
    model = torch.nn.Linear(2, 2)
    with ModelTracer(model, ["forward"]):
        model(torch.ones(2))
    assert not (tmp_path / "runs").exists()

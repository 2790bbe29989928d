"""A tracer in a job of several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import clew
from probes.model.ranks import once, run_ranks

JOB = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
found = {}

def train(count, size=lambda i: 5):
    for i in range(count):
        optimizer.zero_grad()
        x = torch.full((size(i), 3), (rank * 100 + i) / 1000)
        ddp(x).square().mean().backward()
        optimizer.step()

with clew.ModelTracer(ddp, ["0.input", "0.weight.grad"], store=False, gathering_interval=2) as tracer:
    train(4)
if rank == 0:
    result, grads = tracer.results["0.input"], tracer.results["0.weight.grad"].values
    found["gathered"] = [[r, i, round(float(v[0, 0]) * 1000)]
                         for r, i, v in zip(result.ranks, result.iterations, result.values)]
    found["grads"] = [len(grads), torch.equal(grads[0], grads[2])]

with clew.ModelTracer(ddp, ["0.input"], store=False, when=lambda i: rank != 1 or i == 3, gather="collective",
                      gathering_interval=100) as tracer:
    train(4, size=lambda i: 1 + i + rank)
if rank == 0:
    result = tracer.results["0.input"]
    found["ragged"] = [[list(v.shape) for v in result.values], result.ranks, list(result.pad().shape)]

with clew.ModelTracer(ddp, ["2"], gathering_interval=3) as tracer:
    train(3)
if rank == 0:
    found["both"] = sorted(tracer.results["2"].ranks)

with clew.ModelTracer(ddp, ["0.input"], gather="files") as tracer:
    train(3)
clew.current().flush()
dist.barrier()
if rank == 0:
    found["files"] = sorted(tracer.results["0.input"].ranks)
tell(**found)
dist.barrier()
"""


@pytest.fixture(scope="module", params=[2, 4])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any], Path]:
    """One job of so many ranks that does it all: starting one takes longer than all it does."""
    world = request.param
    folder, told = once(tmp_path_factory, f"job-of-{world}", lambda folder: run_ranks(folder, world, JOB)[0])
    return world, told, folder


def test_values_are_gathered_on_rank_0_with_the_rank_of_each(job: Any) -> None:
    world, told, _ = job
    expected = [[r, i, r * 100 + i] for g in range(2) for r in range(world) for i in (2 * g, 2 * g + 1)]
    assert told["gathered"] == expected


def test_gradients_under_ddp_are_those_the_optimizer_uses_the_same_on_all_ranks(job: Any) -> None:
    world, told, _ = job
    assert told["grads"] == [4 * world, True]


def test_ragged_shapes_and_a_rank_with_little_to_give(job: Any) -> None:
    world, told, _ = job
    ranks = [0] * 4 + [1] + [r for r in range(2, world) for _ in range(4)]
    shapes = [[1 + i + r, 3] for r in range(world) for i in range(4) if r != 1 or i == 3]
    assert told["ragged"] == [shapes, ranks, [len(shapes), 3 + world, 3]]


def test_with_an_interval_values_are_gathered_as_well_as_stored(job: Any) -> None:
    world, told, folder = job
    assert told["both"] == sorted(list(range(world)) * 3)
    (run,) = clew.runs(folder / "runs")
    assert len(run.changes("2")) == 3 * world


def test_each_rank_writes_into_its_shard_of_one_run(job: Any) -> None:
    world, told, folder = job
    assert told["files"] == sorted(list(range(world)) * 3)
    (run,) = clew.runs(folder / "runs")
    seen = {
        r: [round(float(c.value[0, 0]) * 1000) for c in run.changes("0.input") if c.call.rank == r]
        for r in range(world)
    }
    assert seen == {r: [r * 100 + i for i in range(3)] for r in range(world)}


def test_a_rank_that_dies_does_not_hold_up_the_others_and_what_it_wrote_is_there(tmp_path: Path) -> None:
    told = run_ranks(
        tmp_path,
        2,
        """
import time
from torch import nn
model = nn.Linear(2, 2)
with clew.ModelTracer(model, ["forward"], gather="collective", gathering_interval=3, timeout=3) as tracer:
    for i in range(3):
        model(torch.full((2,), float(i + rank)))
    if rank == 1:
        time.sleep(1.5)
        os._exit(9)
    model(torch.ones(2) * 9)
begin = time.time()
tell(kept=len(tracer.results["forward"]), told=True)
os._exit(0)  # the process group is broken: its own end would wait
""",
        expect=1,
    )
    assert told[0]["kept"] >= 3
    assert "no longer gathered" in told[0]["stderr"]
    (run,) = clew.runs(tmp_path / "runs")
    assert len([c for c in run.changes("forward") if c.call.rank == 1]) == 3


def test_local_shards_of_fsdp_are_labelled_as_such(tmp_path: Path) -> None:
    told = run_ranks(
        tmp_path,
        2,
        """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
mesh = init_device_mesh("cpu", (world,))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with clew.ModelTracer(model, ["0", "0.weight", "0.weight.grad"], store=False, gather="none") as tracer:
    for i in range(2):
        optimizer.zero_grad()
        model(torch.ones(3, 4) * (i + 1)).sum().backward()
        optimizer.step()
tell(output=list(tracer.results["0"].values[0].shape), weight=list(tracer.results["0.weight"].values[0].shape),
     notes=[(n.kind, n.subject, n.text) for n in tracer.ledger], grads=len(tracer.results["0.weight.grad"]))
""",
    )
    for each in told:
        assert each["output"] == [3, 8]
        assert each["weight"] == [4, 4]
        assert each["grads"] == 2
        assert any(
            kind == "shard" and subject == "0.weight" and "(8, 4)" in text for kind, subject, text in each["notes"]
        )


def test_a_run_of_256_shards_reads_as_one(tmp_path: Path) -> None:
    """What a job of 256 ranks would have written: one shard each, made here one after the other."""
    from clew.probes.model.sinks import Home, IterationCall
    from clew.recorder.recorder import Recorder
    from clew.values.owned_tensors import Owned

    with clew.run("many", path=tmp_path / "run"):
        pass
    home = Home("Net.iteration", "m", None)
    for rank in range(256):
        recorder = Recorder(tmp_path / "run")
        recorder.rank = rank
        for iteration in range(2):
            call = IterationCall(home.plan, recorder)
            call.place, call.stage = None, "train"
            call.log += [iteration, home.plan.base]
            site = home.plan.site_of("forward")
            call.log += [Owned(torch.full((2,), float(rank * 10 + iteration))), site]
            recorder.begin(call)
            call.ended = call.started + 1
            recorder.end(call)
        recorder.close()
    run = clew.open(tmp_path / "run")
    changes = run.changes("forward")
    assert len(changes) == 512
    assert sorted({change.call.rank for change in changes}) == list(range(256))
    assert all(change.value[0] == change.call.rank * 10 + change.step for change in changes)

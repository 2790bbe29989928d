"""Datasets whose samples hold their own index, the usual loops over them, and a check of a trace against that."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

import clew
from clew.reading.trace import Trace


class Numbers(Dataset[Any]):
    """Sample i is three times i, and the label i."""

    def __init__(self, count: int = 40) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), float(index)), int(index)


class Ragged(Numbers):
    """Sample i has i % 4 + 1 places, all i."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((int(index) % 4 + 1,), float(index)), int(index)


class Stream(IterableDataset[Any]):
    """The same numbers one after the other; each of several workers gives its own."""

    def __init__(self, count: int = 40) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        for index in range(first, self.count, step):
            yield torch.full((3,), float(index)), index


class HandMadeStream(Stream):
    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.full((3,), float(index)), index) for index in range(self.count)])


class Net(nn.Module):
    """Keeps its input in sight: the loss of a row is the sample's number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Any) -> Any:
        return x[:, 0] * self.scale


def train(loader: Any, epochs: int = 3, steps: list[Any] | None = None) -> str:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    for _ in range(epochs):
        for x, y in loader:
            if steps is not None:
                steps.append(y.tolist())
            loss = nn.functional.l1_loss(net(x), torch.zeros(len(x)), reduction="none")
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
    return "done"


def traced(loader: Any, wanted: int = 6, run: Callable[[Any], Any] = train, **options: Any) -> Trace:
    with clew.items(wanted, **options) as trace:
        run(loader)
    return trace


def failed(loader: Any, run: Callable[[Any], Any] = train, **options: Any) -> tuple[Trace, str]:
    """The trace of a program that fails, and its error, of which nothing is held: else its workers would stay."""
    said = ""
    trace = None
    try:
        with clew.items(**options) as trace:
            run(loader)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
    assert trace is not None and said
    return trace, said


def numbers_in(value: Any, count: int) -> list[int] | None:
    """Which samples the rows of a value are, as their content says."""
    parts = value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else [value]
    for part in parts:
        if isinstance(part, torch.Tensor) and part.ndim and part.shape[0] == count and part.is_floating_point():
            return [int(row.flatten()[0]) for row in part]
    return None


def told_apart(trace: Trace) -> None:
    """Every row of every batch is whose the trace says it is, item by item and from the row back."""
    looked_at = 0
    samples = {(c.passage.source, c.ids): c.outputs["item"] for c in trace.calls if "item" in c.outputs}
    for call in trace.calls:
        if call.stage not in ("collate", "loader", "model", "loss") or not call.passage.by_row or not call.outputs:
            continue
        said = numbers_in(next(iter(call.outputs.values())), len(call.ids))
        if said is None:
            continue
        looked_at += 1
        found = [int(samples.get((call.passage.source, (id,)), (None, id))[1]) for id in call.ids]
        assert found == said, (call.stage, said, found, call.ids)
        for row, id in enumerate(call.ids):
            assert call.batch_number is not None
            assert trace.lineage(call.batch_number, row).id == id
            item = trace.item(id, source=call.passage.source)
            assert item.loss is None or int(item.loss) == said[row], (item.loss, said[row])
            assert item.batch != call.batch_number or item.row == call.ids.index(id)
    assert looked_at


def seen_in(trace: Trace, stage: str) -> list[int]:
    return [id for call in trace[stage] for id in call.ids]


def left_behind() -> dict[str, Any]:
    """What must be the same after a trace as before."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch, pin_memory

    torch.optim.SGD([nn.Parameter(torch.zeros(1))])  # with the first one torch itself exchanges the method
    owners = (DataLoader, nn.Module, torch.optim.SGD, Subset, dataloader._BaseDataLoaderIter, fetch._MapDatasetFetcher)
    found: dict[str, Any] = {
        f"{owner.__qualname__}.{name}": value for owner in owners for name, value in vars(owner).items()
    }
    functions = {
        "pin": pin_memory.pin_memory, "step": torch.optim.SGD.step, "item": Numbers.__getitem__,
        "stream": Stream.__iter__, "subset": Subset.__getitem__, "loss": nn.functional.l1_loss,
        "thread": threading.Thread.start,
    }  # fmt: skip
    found.update({name: function.__code__ for name, function in functions.items()})
    found["start"] = threading.Thread.start
    for thread in threading.enumerate():
        if thread.name.startswith("QueueFeederThread"):  # of a loader's queues: torch closes them and does not wait
            thread.join(timeout=5)
    found["threads"] = {thread.name for thread in threading.enumerate() if "clew" not in thread.name.lower()}
    found["workers"] = workers()
    return found


def workers() -> set[int | None]:
    """The processes of loaders that are there. Those that joblib keeps for later are not ours."""
    gc.collect()
    return {child.pid for child in multiprocessing.active_children() if "Loky" not in child.name}

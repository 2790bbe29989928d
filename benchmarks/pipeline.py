"""Following items: what stages cost that nobody traces, how long it takes to see eight items, and the last batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import clew
from benchmarks.harness import Contender, Measure, compare, duration, table, timed, times

TITLE = "Following items"
ITEMS = 10_000  # of the loader whose stages nobody traces
MANY = 25  # blocks with and without stages, that take turns in one measurement
PAIRS = 3  # likewise of the training
MILLION = 1_000_000
WANTED, BATCH = 8, 4
STEPS = 100


# ---- stages that nobody traces ---------------------------------------------------------------------------------------


class Pipeline:
    """A loader of small items; what they pass is decorated, or is not."""

    def __init__(self, decorate: Callable[[str], Callable[[Any], Any]]) -> None:
        rows = torch.arange(ITEMS * 8, dtype=torch.float32).reshape(ITEMS, 8)

        @decorate("load")
        def load(index: int) -> Any:
            return rows[index]

        @decorate("clean")
        def clean(row: Any) -> Any:
            return row * 2

        @decorate("collate")
        def collate(samples: list[Any]) -> Any:
            return torch.stack(samples)

        class Rows(Dataset[Any]):
            def __len__(self) -> int:
                return ITEMS

            @decorate("dataset")
            def __getitem__(self, index: int) -> Any:
                return clean(load(index))

        self._loader = DataLoader(Rows(), batch_size=50, collate_fn=collate)

    def run(self) -> None:
        for _ in self._loader:
            pass


def undecorated(name: str) -> Callable[[Any], Any]:
    return lambda function: function


_tracing: Any = None


def asking(name: str) -> Callable[[Any], Any]:
    """hyrax's way, as lean as it gets: a function around the function asks on each call whether there is a trace."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if _tracing is None:
                return function(*args, **kwargs)
            return _tracing.run(name, function, args, kwargs)

        return wrapper

    return decorate


def idle(decorate: Callable[[str], Callable[[Any], Any]]) -> Contender:
    """How many times longer all items take; a trace was open before, and has left nothing behind."""

    def contender() -> Measure:
        torch.set_num_threads(1)
        plain, staged = Pipeline(undecorated), Pipeline(decorate)
        with clew.run("bench"), clew.items(2):
            staged.run()

        def measure() -> float:
            pairs = [(timed(plain.run), timed(staged.run)) for _ in range(MANY)]
            return median(with_it / without for without, with_it in pairs)

        return measure

    return contender


def loading() -> Measure:
    torch.set_num_threads(1)
    plain = Pipeline(undecorated)
    return lambda: timed(plain.run) / ITEMS


UNDECORATED = "undecorated"
STAGES = "clew.stage on four functions"
IDLE = {
    UNDECORATED: loading,
    STAGES: idle(clew.stage),
    "nothing at all, twice": idle(undecorated),
    "hyrax's way: a wrapper that asks": idle(asking),
}


# ---- eight items of a million ----------------------------------------------------------------------------------------


class Million(Dataset[Any]):
    """Each item is made when it is asked for."""

    def __len__(self) -> int:
        return MILLION

    def __getitem__(self, index: int) -> Any:
        generator = torch.Generator().manual_seed(index)
        return torch.rand(3, 32, 32, generator=generator), index % 10


def loader(context: str) -> DataLoader[Any]:
    return DataLoader(Million(), batch_size=BATCH, shuffle=True, num_workers=2, multiprocessing_context=context)


def train(batches: Any, epochs: int = 1) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for pictures, labels in batches:
            loss = nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def by_hand(context: str) -> Contender:
    def first() -> Iterator[Any]:
        for number, batch in enumerate(loader(context), start=1):
            yield batch
            if number * BATCH >= WANTED:
                return

    return lambda: lambda: timed(lambda: train(first()))


def traced(context: str) -> Contender:
    def contender() -> Measure:
        def work() -> None:
            with clew.run("bench"), clew.items(WANTED) as trace:
                train(loader(context), epochs=100)
            assert len(trace.items) == WANTED
            assert {"dataset", "collate", "model", "loss", "optimizer"} <= set(trace.stages)

        return lambda: timed(work)

    return contender


CONTEXTS = ("fork", "spawn")
EIGHT = {
    f"{way}, {context}": make(context) for context in CONTEXTS for way, make in (("by hand", by_hand), ("clew", traced))
}


# ---- the last batch --------------------------------------------------------------------------------------------------


class Made(Dataset[Any]):
    def __init__(self, *shape: int) -> None:
        self._rows = torch.randn(512, *shape)

    def __len__(self) -> int:
        return STEPS * 64

    def __getitem__(self, index: int) -> Any:
        return self._rows[index % 512], index % 2


def small() -> tuple[Any, Any]:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    return model, DataLoader(Made(64), batch_size=64)


def pictures() -> tuple[Any, Any]:
    layers = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Conv2d(32, 32, 3)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 2))
    return model, DataLoader(Made(3, 64, 64), batch_size=16)


class Training:
    def __init__(self, make: Callable[[], tuple[Any, Any]]) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._model, self._loader = make()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)

    def steps(self, count: int) -> None:
        for number, (x, y) in enumerate(self._loader):
            if number == count:
                return
            loss = nn.functional.cross_entropy(self._model(x), y)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()


def alone(make: Callable[[], tuple[Any, Any]], count: int) -> Contender:
    def contender() -> Measure:
        training = Training(make)
        return lambda: timed(lambda: training.steps(count)) / count

    return contender


def ringed(make: Callable[[], tuple[Any, Any]], count: int) -> Contender:
    """Seconds that a step takes longer."""

    def contender() -> Measure:
        one, other = Training(make), Training(make)

        def held() -> float:
            with clew.run("bench"), clew.items(keep="last batch"):
                return timed(lambda: other.steps(count))
            raise AssertionError("nothing ends this block")

        def measure() -> float:
            pairs = [(timed(lambda: one.steps(count)), held()) for _ in range(PAIRS)]
            return median(with_it - without for without, with_it in pairs) / count

        return measure

    return contender


JOBS = {"64 rows of 64 numbers": (small, STEPS), "16 pictures of 64 × 64": (pictures, STEPS // 5)}
LAST = {
    f"{name}: {what}": way(*job) for name, job in JOBS.items() for what, way in (("alone", alone), ("ring", ringed))
}


# ---- the page --------------------------------------------------------------------------------------------------------


CONTENDERS = IDLE | EIGHT | LAST


def report(repeats: int, pythons: list[str]) -> str:
    return "\n\n".join([_idle(repeats), _eight(repeats), _last(repeats)])


def _idle(repeats: int) -> str:
    result = compare(__name__, IDLE, repeats=repeats)
    rows = [(UNDECORATED, f"{duration(result.median(UNDECORATED))} an item", "")]
    for name in IDLE:
        if name != UNDECORATED:
            reach = "≤ 1.01 ×" if name == STAGES else ""
            rows.append((name, f"{result.median(name):.3f} × {UNDECORATED}", reach))
    return table([f"{ITEMS:,} small items, nothing traced", "", "to reach"], rows)


def _eight(repeats: int) -> str:
    result = compare(__name__, EIGHT, repeats=repeats)
    rows = [
        (f"{context}", duration(hand), duration(clew_), times(clew_ / hand), "seconds")
        for context in CONTEXTS
        for hand, clew_ in [(result.median(f"by hand, {context}"), result.median(f"clew, {context}"))]
    ]
    return table([f"{WANTED} of {MILLION:,} items, shuffled, 2 workers", "by hand", "clew", "", "to reach"], rows)


def _last(repeats: int) -> str:
    result = compare(__name__, LAST, repeats=repeats)
    rows = []
    for name in JOBS:
        alone_, more = result.median(f"{name}: alone"), result.median(f"{name}: ring")
        rows.append((name, duration(alone_), f"+ {duration(more)}", times((alone_ + more) / alone_)))
    return table(['`keep="last batch"`, a step of training', "alone", "with it", ""], rows)

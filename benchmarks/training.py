"""Loss and accuracy watched in a small training loop: what a user of the usual kind pays."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from benchmarks.harness import Measure, compare, duration, table, timed

STEPS = 100  # of a block; blocks with and without watching take turns, so that both meet the same noise
BLOCKS = 20  # of each in a turn: about four seconds, and some ten flushes of the recorder's thread
TITLE = "A small training loop"
FINISH: list[Callable[[], None]] = []  # what the worker does at its end, before its folder goes


def _training() -> Callable[[], float]:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    points = torch.randn(4096, 64)
    labels = (points[:, 0] * points[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> float:
        accuracy = 0.0
        for _ in range(STEPS):
            batch = torch.randint(0, len(points), (64,))
            output = model(points[batch])
            error = nn.functional.cross_entropy(output, labels[batch])
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            loss = error.item()
            accuracy = (output.argmax(1) == labels[batch]).float().mean().item()
        return loss + accuracy

    return train


def untraced() -> Measure:
    train = _training()
    return lambda: timed(train) / STEPS


def watched(*names: str) -> Callable[[], Measure]:
    """How much longer a block takes; the run stays open, as in a real training, and its thread stores what comes."""

    def contender() -> Measure:
        import clew

        plain, train = _training(), clew.watch(*names)(_training())
        run = clew.run("bench")
        run.__enter__()
        FINISH.append(lambda: run.__exit__(None, None, None))

        def measure() -> float:
            pairs = [(timed(plain), timed(train)) for _ in range(BLOCKS)]
            return median(with_it / without for without, with_it in pairs)

        return measure

    return contender


def open_and_close() -> Measure:
    """What a run costs once: opening it, and closing it when little is left to write."""
    import clew

    train = clew.watch("loss", "accuracy")(_training())

    def measure() -> float:
        run = clew.run("bench")
        opening = timed(run.__enter__)
        train()
        return opening + timed(lambda: run.__exit__(None, None, None))

    return measure


RATIOS = {
    "loss and accuracy, as floats": watched("loss", "accuracy"),
    "the loss as a tensor with its graph, too": watched("loss", "accuracy", "error"),
}
ONCE = "opening and closing a run"
CONTENDERS = {"untraced": untraced, **RATIOS, ONCE: open_and_close}


def report(repeats: int, pythons: list[str]) -> str:
    result = compare(__name__, CONTENDERS, repeats=repeats)
    ratios = [
        (name, f"{result.median(name):.3f} × untraced", "≤ 1.01 ×" if "floats" in name else "") for name in RATIOS
    ]
    first = ("untraced", f"{duration(result.median('untraced'))} a step", "")
    return table(["", "", "to reach"], [first, *ratios, (ONCE, f"{duration(result.median(ONCE))} once", "")])

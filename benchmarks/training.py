"""Loss and accuracy watched in a small training loop: what a user of the usual kind pays."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness import Measure, compare, duration, table, timed

STEPS = 1500  # about a second: several flushes of the recorder's thread fall into it
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
    return lambda: timed(train)


def watched(*names: str) -> Callable[[], Measure]:
    """In a run that stays open, as it does in a real training: its thread stores what comes, all the while."""

    def contender() -> Measure:
        import clew

        train = clew.watch(*names)(_training())
        run = clew.run("bench")
        run.__enter__()
        FINISH.append(lambda: run.__exit__(None, None, None))
        return lambda: timed(train)

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


CONTENDERS = {
    "untraced": untraced,
    "loss and accuracy, as floats": watched("loss", "accuracy"),
    "the loss as a tensor with its graph, too": watched("loss", "accuracy", "error"),
    "opening and closing a run": open_and_close,
}


def report(repeats: int, pythons: list[str]) -> str:
    result = compare(__name__, CONTENDERS, repeats=3 * repeats)
    rows = []
    for name in CONTENDERS:
        each = duration(result.median(name) / STEPS)
        if name == "opening and closing a run":
            rows.append((name, f"{duration(result.median(name))} once", "", ""))
            continue
        ratio, spread = result.ratio(name, "untraced"), result.spread(name, "untraced")
        rows.append((name, each, f"{ratio:.3f} ± {spread:.3f} ×", "≤ 1.01 ×" if "floats" in name else ""))
    return table(["", "a step", "untraced", "to reach"], rows)

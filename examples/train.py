"""Two interleaved spirals, a small network, and a training run that ends badly. Why?

    python examples/train.py                 about three seconds on a CPU; ends at an accuracy of 0.5
    clew show latest                         what happened on the way

The script itself logs nothing. The one line `@clew.watch(...)` records the loss, the gradient's norm, the test accuracy
and the learning rate, which has no variable of its own: it lives inside the optimizer. Together they tell the story:
the problem was as good as solved after 350 steps, and then the schedule drove the learning rate past what the
network could bear. `python examples/train.py 0.3` has the lower peak that cures it.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import nn

import clew

STEPS = 2000
BATCH = 128
SEED = 7


def spirals(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on two spiral arms, with a little noise, and the arm each belongs to."""
    label = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator).sqrt()
    angle = 3 * math.pi * radius + math.pi * label
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return points + 0.02 * torch.randn(count, 2, generator=generator), label


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))


@torch.no_grad()
def accuracy_of(model: nn.Module, points: torch.Tensor, labels: torch.Tensor) -> float:
    return (model(points).argmax(dim=1) == labels).float().mean().item()


@clew.watch("loss", "grad_norm", "accuracy", 'optimizer.param_groups[0]["lr"]', step="step")
def train(peak: float) -> float:
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    points, labels = spirals(1000, generator)
    test_points, test_labels = spirals(1000, generator)

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, STEPS, pct_start=0.6, div_factor=50)

    for step in range(STEPS):
        batch = torch.randint(0, len(points), (BATCH,), generator=generator)
        error = nn.functional.cross_entropy(model(points[batch]), labels[batch])
        optimizer.zero_grad()
        error.backward()
        grad_norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()
        optimizer.step()
        schedule.step()
        loss = error.item()
        if step % 50 == 49:
            accuracy = accuracy_of(model, test_points, test_labels)
    return accuracy


def main() -> None:
    peak = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    torch.set_num_threads(1)  # the network is too small for more, and sums in one order give the same run every time
    with clew.run("spirals", tags={"peak": peak}) as run:
        accuracy = train(peak)
    print(f"accuracy after {STEPS} steps: {accuracy:.3f}   (recorded in {run.path})")


if __name__ == "__main__":
    main()

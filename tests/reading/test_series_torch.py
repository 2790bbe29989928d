"""A series of tensors."""

from __future__ import annotations

from pathlib import Path

import torch

from reading.writing import simple_run


def test_tensors_come_back_as_tensors(tmp_path: Path) -> None:
    back = simple_run(tmp_path, {"w": [torch.arange(3, dtype=torch.bfloat16)]})["w"][0]
    assert back.dtype == torch.bfloat16
    assert back.tolist() == [0, 1, 2]


def test_losses_that_are_tensors_can_be_drawn(tmp_path: Path) -> None:
    losses = [torch.tensor(1.0 / (step + 1), requires_grad=True) for step in range(5)]
    series = simple_run(tmp_path, {"loss": losses})["loss"]
    assert len(series.points()) == 5
    assert series.to_numpy().shape == (5,)
    assert "<svg" in series._repr_html_()


def test_to_numpy_stacks_tensors_also_of_a_type_numpy_lacks(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"w": [torch.ones(2, 3), torch.zeros(2, 3)], "h": [torch.ones(2, dtype=torch.bfloat16)]})
    assert run["w"].to_numpy().shape == (2, 2, 3)
    assert run["h"].to_numpy().dtype == "float32"

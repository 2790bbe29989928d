"""Tensor Tracker's examples with tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clew
from clew.compat.ttracker import logger, var_tracker


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the handler a program has: pytest adds some of its own, in whose place stderr would be silent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_QUIET", "1")
    own = [handler for handler in logger.handlers if type(handler).__module__ == "clew.compat.ttracker"]
    monkeypatch.setattr(logger, "propagate", True)  # pytest then puts its handler on the root
    monkeypatch.setattr(logger, "handlers", own)


def decode(start_frame_idx: int, clip_total_frames: int) -> Any:
    video: Any = np.zeros((7, 64, 96, 3), dtype="uint8")
    video = torch.from_numpy(video)
    video = video.permute(0, 3, 1, 2)
    return video


def test_var_tracker_tells_arrays_and_tensors_as_their_libraries_write_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @var_tracker("video")
    def transform_video(clip_total_frames):
        return decode(0, clip_total_frames).float()

    transform_video(222)
    line = decode.__code__.co_firstlineno
    assert capsys.readouterr().err.splitlines()[3:] == [
        "│   ├─ input [Var] start_frame_idx@0 value: 0",
        "│   ├─ input [Var] clip_total_frames@0 value: 222",
        f"│   │   ├─ [Tensor] video@{line + 1} → shape=(7, 64, 96, 3) | dtype=uint8",
        f"│   │   ├─ [Tensor] video@{line + 2} → shape=torch.Size([7, 64, 96, 3]) | dtype=torch.uint8",
        f"│   │   ├─ [Tensor] video@{line + 3} → shape=torch.Size([7, 3, 64, 96]) | dtype=torch.uint8",
        "│   │   └─ output shape=torch.Size([7, 3, 64, 96])",
        "│   └─ output shape=torch.Size([7, 3, 64, 96])",
    ]


def test_a_device_other_than_the_cpu_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    @var_tracker("video")
    def to_device(n):
        video = torch.empty(n, device="meta")
        return n

    to_device(3)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "video@" in line]
    assert line.endswith("→ shape=torch.Size([3]) | dtype=torch.float32 | device=meta")


def check_hook(module, input, output):
    from clew.compat.ttracker import _log_change

    _log_change(f"{module.__class__.__name__}", "input", input, "", 0)
    _log_change(f"{module.__class__.__name__}", "output", output, "", 0)


def test_the_accuracy_monitor_logs_what_goes_through_every_layer(capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    for _name, layer in model.named_modules():
        layer.register_forward_hook(check_hook)
    with clew.run("monitor") as run:
        model(torch.zeros(2, 4))
    said = [
        "[Linear] [Tensor] input[0]@0 → shape=torch.Size([2, 4]) | dtype=torch.float32",
        "[Linear] [Tensor] output@0 → shape=torch.Size([2, 3]) | dtype=torch.float32",
        "[ReLU] [Tensor] input[0]@0 → shape=torch.Size([2, 3]) | dtype=torch.float32",
        "[ReLU] [Tensor] output@0 → shape=torch.Size([2, 3]) | dtype=torch.float32",
        "[Sequential] [Tensor] input[0]@0 → shape=torch.Size([2, 4]) | dtype=torch.float32",
        "[Sequential] [Tensor] output@0 → shape=torch.Size([2, 3]) | dtype=torch.float32",
    ]
    assert capsys.readouterr().err.splitlines() == [f"├─ {line}" for line in said]
    assert [call.message for call in run.calls("<log>")] == said


def test_the_accuracy_monitor_stands_in_the_tree_of_a_tracked_function(capsys: pytest.CaptureFixture[str]) -> None:
    layer = torch.nn.Linear(2, 1)
    layer.register_forward_hook(check_hook)

    @var_tracker("x")
    def predict(n):
        return layer(torch.zeros(n, 2))

    predict(1)
    found = [line for line in capsys.readouterr().err.splitlines() if "[Linear]" in line]
    assert len(found) == 2
    assert all(line.startswith("│   ") for line in found)

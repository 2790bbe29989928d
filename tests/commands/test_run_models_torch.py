"""`clew run --model`, `--nonfinite`: models of a program that knows nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import clew

PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(3, 3), nn.Linear(3, 1)
    def forward(self, x):
        hidden = self.encoder(x)
        return self.head(hidden if BAD == 0 else torch.log(hidden * 0 - 1))

class Trainer:
    def __init__(self):
        self.net, self.loss = Net(), nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def fit(self):
        global BAD
        for step in range(4):
            BAD = step == 2
            self.optimizer.zero_grad()
            self.loss(self.net(torch.rand(2, 3)), torch.zeros(2, 1)).backward()
            self.optimizer.step()

BAD = 0
Trainer().fit()
print("done", Net.__call__ is nn.Module.__call__)
"""


STEPS = """
import copy
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.alone(-1)
    def forward(self, x):
        return self.layer(x)
    def training_step(self, x):
        loss = self(x).sum()
        return loss
    def alone(self, x):
        doubled = x * 2
        return doubled

net = Net()
for i in range(3):
    net.alone(i)
for i in range(3):
    net.training_step(torch.ones(2) * i)
other = copy.deepcopy(net)
other.alone(7)
print("done", True)
"""


def run(tmp_path: Path, *options: str, program: str = PROGRAM) -> tuple[clew.Run, str]:
    (tmp_path / "train.py").write_text(program)
    environment = os.environ | {"CLEW_DIR": str(tmp_path / "runs"), "CLEW_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "clew", "run", *options, "train.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "done True\n", done.stderr
    (found,) = clew.runs(tmp_path / "runs")
    return found, done.stderr


def test_a_model_is_found_by_the_name_of_an_attribute_and_traced_from_its_first_call(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "--model", "net: forward.hidden, head.weight.grad, encodr")
    assert found["forward.hidden"].steps == [0, 1, 2, 3]
    assert found["head.weight.grad"].steps == [0, 1, 2]  # NaN, and still the same NaN
    assert [(note.kind, note.subject) for note in found.ledger] == [("never-seen", "encodr")]


def test_by_its_class_and_only_the_last_steps_of_it(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "--model", "Net: encoder", "--nonfinite", "find", "--keep", "last 2 steps")
    assert found["encoder"].steps == [1, 2]


def test_where_a_nan_was_born(tmp_path: Path) -> None:
    found, said = run(tmp_path, "--nonfinite", "find")
    assert "Net made a NaN from finite inputs, by log at" in said
    assert "train.py:11 (iteration 2" in said
    assert [call.args["x"].shape for call in found.calls("Net.forward")] == [(2, 3)]


def test_a_model_that_never_came_is_in_the_ledger_with_the_nearest(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "--model", "nett: encoder")
    (note,) = found.ledger
    assert "no such model; did you mean `net`?" in note.text


def test_what_is_suggested_instead_of_a_path_is_there_and_optimizers_are_found(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "--model", "net: hidden, forward.nothing, optimizer.param_groups.*.lr")
    assert found["optimizer.param_groups.0.lr"].values == [0.1]
    hints = {note.subject: note.text for note in found.ledger}
    assert hints["hidden"] == "there is no such path; did you mean `forward.hidden`?"
    assert hints["forward.nothing"].startswith("`forward` gives nothing of this name, and has no such variable;")


def test_a_program_that_does_not_load_torch_does_not_get_it_from_us(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import sys\nprint('torch' in sys.modules)")
    environment = os.environ | {"CLEW_DIR": str(tmp_path / "runs"), "CLEW_QUIET": "1"}
    command = [sys.executable, "-m", "clew", "run", "--model", "net: forward.x", "--nonfinite", "find", "plain.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
    (found,) = clew.runs(tmp_path / "runs")
    assert "the program did not load torch" in found.ledger[0].text


def test_a_model_is_found_before_the_first_call_of_a_method_that_was_asked_for(tmp_path: Path) -> None:
    found, _ = run(tmp_path, "--model", "net: training_step.loss, alone.doubled", program=STEPS)
    assert found["alone.doubled"].values == [0, 2, 4]
    assert len(found["training_step.loss"]) == 3
    assert not found.ledger

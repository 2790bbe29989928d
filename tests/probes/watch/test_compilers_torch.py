"""`torch.compile` beside `clew.watch`: the results are the same, and the watched function is seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import clew

SCRIPT = """\
import clew, torch

@clew.watch("h")
def watched(x):
    h = x.sin()
    h = h + 1
    return h

def caller(x):
    return watched(x + 1) * 2

class Model(torch.nn.Module):
    @clew.watch("y")
    def forward(self, x):
        y = x * 3
        return y

print(torch.compile(watched, backend="eager")(torch.zeros(2)))
print(torch.compile(caller, backend="eager")(torch.zeros(1)))
print(torch.compile(Model(), backend="eager")(torch.ones(2)))
clew.off()
print("_torchdynamo_disable" in watched.__dict__)
"""


def test_a_watched_function_is_left_out_of_compilation(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["tensor([1., 1.])", "tensor([3.6829])", "tensor([3., 3.])", "False"]
    assert done.stderr == ""
    run = clew.open("latest")
    assert [len(call.changes) for call in run.calls("watched")] == [2, 2]
    assert run["y"].values[0].tolist() == [3.0, 3.0]

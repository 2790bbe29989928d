"""Ranks that torchrun starts record into one run, whichever of the two stands first on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.commands import ranks
from clew.commands.launch import Words
from clew.errors import OptionError

PROGRAM = """
import os
import sys

def train(rank):
    for step in range(3):
        loss = rank + step / 2
    return loss

print(train(int(os.environ["RANK"])), sys.argv[1:])
"""


def test_ranks_of_one_launch_share_a_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "clew", "run", "--watch", "train: loss", *launcher, "train.py", "--lr", "3"],
        cwd=tmp_path, env={**os.environ, "CLEW_DIR": str(tmp_path / "runs"), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["1.0 ['--lr', '3']", "2.0 ['--lr', '3']"])
    (run,) = clew.runs(tmp_path / "runs")
    assert (run.name, run.status) == ("train", "finished")
    assert {name: run[name].values for name in run} == {
        "loss@rank=0": [0.0, 0.5, 1.0], "loss@rank=1": [1.0, 1.5, 2.0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (["--nnodes", "1", "a.py", "--x"], ["--nnodes", "1", "--module", "clew", "run", "--watch", "x", "a.py", "--x"]),
        (["-m", "pkg.a", "--", "y"], ["-m", "clew", "run", "--watch", "x", "-m", "pkg.a", "--", "y"]),
    ],
)
def test_a_launcher_gets_clew_run_as_its_program(rest: list[str], expected: list[str]) -> None:
    words = Words("-m", "torch.distributed.run", rest)
    command = ranks.with_clew_in_ranks(words, ["--watch", "x"])
    assert command == [sys.executable, "-m", "torch.distributed.run", *expected]


def test_other_modules_are_no_launchers_and_other_programs_cannot_be_recorded() -> None:
    assert ranks.with_clew_in_ranks(Words("-m", "pkg", ["a.py"]), []) is None
    assert ranks.with_clew_in_ranks(Words("", "torch.distributed.run", ["a.py"]), []) is None
    with pytest.raises(OptionError, match="--no-python"):
        ranks.with_clew_in_ranks(Words("-m", "torch.distributed.run", ["--no-python", "ls"]), [])

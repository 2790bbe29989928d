"""Calls in the children of a followed call: each in a shard of its own, of the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew

SCRIPT = """
import multiprocessing
import sys

import clew
import work_of_children

@clew.follow(show=False)
def main(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        return pool.map(work_of_children.outer, range(4))

if __name__ == "__main__":
    with clew.run("children"):
        print(main(sys.argv[1]))
"""
WORK = """
import time

def inner(x):
    time.sleep(0.1)
    return x

def outer(x):
    return inner(x) + 1
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_work_of_a_pool_is_in_the_same_run(tmp_path: Path, method: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "work_of_children.py").write_text(WORK)
    environment = os.environ | {"CLEW_DIR": str(tmp_path / "runs"), "CLEW_QUIET": "1"}
    done = subprocess.run(
        [sys.executable, "script.py", method],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[1, 2, 3, 4]\n", "")
    (run,) = clew.runs(tmp_path / "runs")
    calls = run.calls("outer")
    # a pool ends its workers without a word: of the last call the end may be missing, or the call itself
    assert len(calls) >= 2
    (main,) = run.tree().roots
    assert main.function == "main"
    assert {call.parent for call in calls} == {main}
    assert set(calls) <= set(main.children)
    assert f"[process {calls[0].pid}]" in str(run.tree())
    assert {call.function for call in run.tree(function="inner").roots} == {"main"}
    assert {call.args["x"] for call in calls} <= {0, 1, 2, 3}
    assert all(child.function == "inner" for call in calls for child in call.children)
    assert len({call.shard for call in run.calls()}) >= 2
    assert not {call.shard for call in calls} & {call.shard for call in run.calls("main")}

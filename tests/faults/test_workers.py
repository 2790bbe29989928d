"""What workers of pools record belongs to the run that started them, and all of it is there when the pool has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew

WORK = """
import sys

def double(x):
    y = x * 2
    return y
"""
POOL = (
    WORK
    + """
if __name__ == "__main__":
    import {library}
    for _ in range(2):
        with {library}.get_context(sys.argv[1]).Pool(2) as pool:  # terminated when the block is left
            pool.map(double, range(15))
"""
)
JOBLIB = (
    WORK
    + """
if __name__ == "__main__":
    from joblib import Parallel, delayed
    Parallel(n_jobs=2)(delayed(double)(i) for i in range(30))
"""
)
EXECUTOR = (
    WORK
    + """
if __name__ == "__main__":
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(double, range(30)))
"""
)
WAYS = [("--watch", "double: y"), ("--follow", "double", "--no-show")]


def recorded(folder: Path, program: str, way: tuple[str, ...], *arguments: str) -> int:
    """How many calls the only run holds."""
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "clew", "run", *way, "program.py", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, "CLEW_DIR": str(folder / "runs")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    (run,) = (folder / "runs").glob("*/*")
    return len(clew.open(run).calls("double"))


@pytest.mark.parametrize("way", WAYS, ids=["watch", "follow"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_that_is_terminated_loses_nothing(method: str, way: tuple[str, ...], tmp_path: Path) -> None:
    assert recorded(tmp_path, POOL.format(library="multiprocessing"), way, method) == 30


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_so_does_one_of_multiprocess(method: str, tmp_path: Path) -> None:
    assert recorded(tmp_path, POOL.format(library="multiprocess"), WAYS[0], method) == 30


@pytest.mark.parametrize("way", WAYS, ids=["watch", "follow"])
def test_functions_that_joblib_sends_are_recorded_in_its_workers(way: tuple[str, ...], tmp_path: Path) -> None:
    assert recorded(tmp_path, JOBLIB, way) == 30


def test_an_executor_loses_nothing(tmp_path: Path) -> None:
    assert recorded(tmp_path, EXECUTOR, WAYS[0]) == 30

"""Hundreds of forged and damaged runs, read by everything that reads: only ClewErrors come out, within bounds.

The seeds are fixed: the same commit gives the same verdict. The long forms run with `make faults`. One run takes two
seconds of a processor, one with forged values five: each form stays within one minute. For more, with other seeds:
`python -m hostile.fuzzing 7 rows=1000 --all` in the folder of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is bounded as Linux does it")
TESTS = Path(__file__).parents[1]


def fuzz(seed: int, *options: str) -> dict[str, Any]:
    """What `hostile.fuzzing` has found, in a process of its own whose memory is bounded."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "CLEW_QUIET": "1"}
    command = [sys.executable, "-m", "hostile.fuzzing", str(seed), *options]
    done = subprocess.run(command, env=environment, cwd=TESTS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_only_errors_of_ours_come_out_of_some_forged_runs() -> None:
    assert fuzz(13, "rows=3", "bodies=1", "bytes=2", "pages=2")["surprises"] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("way", "count"), [("rows", 25), ("bodies", 8), ("bytes", 20), ("pages", 20)])
def test_only_errors_of_ours_come_out_of_many_forged_runs(way: str, count: int, seed: int) -> None:
    found = fuzz(seed, f"{way}={count}", "--all")
    assert found["surprises"] == []
    assert found["read"] > count // 2

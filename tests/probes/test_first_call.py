"""What clew needs is loaded before the first recorded call begins: its time is the program's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import io
import sys
import threading
import numpy as np
import clew

running, loaded = [], []

class Finder:
    def find_spec(self, name, path=None, target=None):
        if running and threading.current_thread() is threading.main_thread():
            loaded.append(name)

sys.meta_path.insert(0, Finder())

def inner(value):
    return value

def work(n):
    running.append(n)
    values = np.arange(5.0) + n
    other = {"list": [1, 2], "array": values}
    inner(values)
    inner(other)
    running.pop()

recorded = {
    "watch": clew.watch("values", "other"),
    "follow": clew.follow(show=False),
    "show": clew.follow("values", file=io.StringIO()),
}[sys.argv[1]](work)
for n in range(2):
    recorded(n)
print(loaded)
"""


@pytest.mark.parametrize("probe", ["watch", "follow", "show"])
def test_nothing_is_loaded_while_a_call_goes_on(probe: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", probe],
        env={**os.environ, "CLEW_DIR": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"

"""Where torch is not installed, what needs it says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

PROGRAM = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else find(name, *more)
import clew
try:
    clew.ModelTracer
except clew.ClewError as error:
    print(type(error).__name__, error)
"""


def test_the_tracer_of_models_says_that_it_needs_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        "MissingLibraryError clew.ModelTracer traces torch models, and needs torch. pip install torch\n"
    )

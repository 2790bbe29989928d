"""CPython's own test modules, run with and without clew: how each test ended, and which ended differently."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import clew

RUNNER = Path(__file__).parent / "watch" / "cpython_runner.py"
ALL = os.environ.get("CLEW_CPYTHON_ALL") == "1"


def is_here(words: str) -> bool:
    """Whether this Python has the test module; each came with some version."""
    return importlib.util.find_spec(f"test.{words.split()[0]}") is not None


def outcome(folder: Path, modules: list[str], how: str = "", left_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the runner says of these modules: plainly, or with `--watch` or `--follow`."""
    out = folder / f"out{how}.json"
    words = [*([how] if how else []), *(word for name in left_out for word in ("--without", name))]
    path = str(Path(clew.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(out), *words, f"test.{modules[0]}", *modules[1:]],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": str(folder), "CLEW_QUIET": "1", "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def differing(plain: dict[str, Any], other: dict[str, Any], expected: dict[str, str]) -> dict[str, Any]:
    """The tests that ended differently, but for those that must."""
    return {
        name: (plain["ended"].get(name), other["ended"].get(name), other["details"].get(name, "")[-1500:])
        for name in {**plain["ended"], **other["ended"]}
        if plain["ended"].get(name) != other["ended"].get(name) and name not in expected
    }

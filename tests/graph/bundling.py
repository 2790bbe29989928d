"""For tests of bundles: a project of its own, a graph of it, and a process elsewhere that loads what was saved."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def python(program: str, folder: Path, *args: str, seconds: float = 600) -> str:
    """What a program prints that runs in a folder, in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "CLEW_STRICT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error::UserWarning", str(script), *args]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def reseal(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the page of a bundle, and seal it again as somebody would who wants to do harm."""
    page = json.loads((bundle / "graph.json").read_text())
    change(page)
    text = json.dumps(page).encode()
    (bundle / "graph.json").write_bytes(text)
    (bundle / "graph.sha256").write_text(f"{hashlib.sha256(text).hexdigest()}  graph.json\n")


@contextlib.contextmanager
def opened(folder: Path, name: str) -> Iterator[Any]:
    """A module of a project, as a program that runs in its folder has it; its modules are forgotten afterwards."""
    before, here = set(sys.modules), Path.cwd()
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    try:
        importlib.invalidate_caches()
        yield importlib.import_module(name)
    finally:
        os.chdir(here)
        sys.path.remove(str(folder))
        _forget(folder, before)


def _forget(folder: Path, before: set[str]) -> None:
    for name in set(sys.modules) - before:
        held = vars(sys.modules[name])
        paths = [held.get("__file__") or "", *(map(str, held.get("__path__") or ()))]
        if any(path.startswith(str(folder)) for path in paths):
            del sys.modules[name]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder whose modules can be imported, and are forgotten afterwards."""
    before = set(sys.modules)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    _forget(folder, before)

"""Helpers of the watch tests: run a small program under watch and give its changes."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import clew
from clew.instrument import source as source_module

_numbers = itertools.count()


def load(folder: Path, source: str) -> ModuleType:
    """A module made of this text, from a real file, so that its source can be found."""
    name = f"sample_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(source).lstrip("\n"))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def recorded(
    folder: Path, source: str, *expressions: str, args: tuple[Any, ...] = (), kwargs: Any = None, **options: Any
) -> clew.Run:
    """The run of `f(*args)`, watched."""
    module = load(folder, source)
    with clew.run(path=folder / f"run_{next(_numbers)}") as run:
        clew.watch(*expressions, **options)(module.f)
        try:
            module.f(*args, **(kwargs or {}))
        except Exception:
            pass
    return clew.open(run.path)


def check_trace(folder: Path, source: str, expected: list[tuple[str, int, Any]], *expressions: str, **how: Any) -> None:
    """The changes of the first call of `f`, as (name, line, value), are exactly these."""
    run = recorded(folder, source, *(expressions or ("*",)), **how)
    found = [(c.name, c.line, c.value) for c in run.calls("f")[0].changes]
    if source_module.find.__name__ != "find":  # events see a line at a time: the order within one is not known
        found, expected = _sorted_within_lines(found), _sorted_within_lines(expected)
    assert list(map(_exact, found)) == list(map(_exact, expected))


def _sorted_within_lines(changes: list[tuple[str, int, Any]]) -> list[tuple[str, int, Any]]:
    groups = itertools.groupby(changes, key=lambda change: change[1])
    return [change for _, group in groups for change in sorted(group, key=lambda change: change[0])]


def _exact(change: tuple[str, int, Any]) -> tuple[str, int, str, Any]:
    name, line, value = change
    return name, line, type(value).__name__, value

"""Small programs to follow, and what was recorded of them as plain nested tuples."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import clew

_numbers = itertools.count()


def load(folder: Path, source: str, name: str | None = None) -> ModuleType:
    """A module made of this text, imported like any other."""
    name = name or f"followed_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def followed(folder: Path, source: str, *names: str, args: tuple[Any, ...] = (), **options: Any) -> clew.Run:
    """Follows `main` of this program and calls it; gives the run."""
    module = load(folder, source)
    clew.follow(*names, **{"show": False, **options})(module.main)
    with clew.run("followed", path=folder / f"run{next(_numbers)}") as run:
        module.main(*args)
    return clew.open(run.path)


def tree(run: clew.Run) -> list[Any]:
    """(function, arguments, result or error, what it called) of each root."""
    return [_outline(call) for call in run.tree().roots]


def names(run: clew.Run) -> list[Any]:
    """The functions alone, nested: ["main", ["f", ["g"]]]."""
    return [_names(call) for call in run.tree().roots]


def _outline(call: clew.Call) -> tuple[Any, ...]:
    return call.function, call.args, call.error or call.result, [_outline(child) for child in call.children]


def _names(call: clew.Call) -> Any:
    children = [_names(child) for child in call.children]
    return [call.function, *children] if children else call.function

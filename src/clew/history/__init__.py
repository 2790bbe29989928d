"""Reads runs: turns a run folder into names, changes and calls.

    Run ──► Table (all shards as one table of changes) ──► Series, Changes, Change
     └────► CallTable (starts and ends, by id)         ──► Calls, Call, Tree

Data stays in NumPy columns until values are requested: until then, a row number stands for a change.
This module is light; NumPy and PyArrow load when the first run is opened.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from clew.history.call import Call
    from clew.history.change import Changes
    from clew.history.ledger import Ledger
    from clew.history.run import Run
    from clew.history.series import Series
    from clew.history.trace import Trace
    from clew.history.tree import Tree

__all__ = ["Call", "Changes", "Ledger", "Run", "Series", "Trace", "Tree", "all_runs", "open_run"]

_HOMES = {
    "Call": "call",
    "Changes": "change",
    "Ledger": "ledger",
    "Run": "run",
    "Series": "series",
    "Trace": "trace",
    "Tree": "tree",
}


def open_run(path: str | Path) -> Run:
    """Open a run by its folder, by `"latest"`, or by the name of a folder anywhere under the runs folder."""
    from clew.history import find, run

    return run.Run(find.run_folder(path))


def all_runs(base: str | Path | None = None) -> list[Run]:
    """The runs under `base` (default: the runs folder), oldest first. Only their metadata is read here."""
    from clew.history import find, run

    return [run.Run(folder) for folder in find.run_folders(base)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"clew.history.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'clew.history' has no attribute {name!r}")

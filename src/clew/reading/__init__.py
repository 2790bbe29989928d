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

    from clew.reading.call import Call
    from clew.reading.change import Changes
    from clew.reading.ledger import Ledger
    from clew.reading.run import Run
    from clew.reading.series import Series
    from clew.reading.trace import Trace
    from clew.reading.tree import Tree

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
    from clew.reading import run, run_lookup

    return run.Run(run_lookup.run_folder(path))


def all_runs(base: str | Path | None = None) -> list[Run]:
    """The runs under `base` (default: the runs folder), oldest first. Only their metadata is read here."""
    from clew.reading import run, run_lookup

    return [run.Run(folder) for folder in run_lookup.run_folders(base)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"clew.reading.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'clew.reading' has no attribute {name!r}")

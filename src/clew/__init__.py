"""clew records what happens to the values in Python code. Everything a user needs is here, loaded on use."""

from __future__ import annotations

from clew._version import __version__

TYPE_CHECKING = False  # not from `typing`: `python -m clew` begins beside the program, where a `typing.py` may lie
if TYPE_CHECKING:
    from typing import Any

    from clew.compare import diff
    from clew.errors import ClewError, GuardError
    from clew.export.hdf5_saver import HDF5Saver
    from clew.graph import load, map, op, record, submit
    from clew.graph.mapping.failures import Failure
    from clew.probes.follow import follow, log
    from clew.probes.follow.messages import LogHandler
    from clew.probes.model import ModelTracer, dump, reduce
    from clew.probes.pipeline import items, stage, traceable
    from clew.probes.watch import watch
    from clew.reading import Call, Run, Series, Trace
    from clew.reading import all_runs as runs
    from clew.reading import open_run as open
    from clew.recording import current, off, on
    from clew.recording import start as run
    from clew.records import DELETED, Change, NotKept

_HOMES = {
    "watch": ("clew.probes.watch", "watch"),
    "follow": ("clew.probes.follow", "follow"),
    "log": ("clew.probes.follow", "log"),
    "LogHandler": ("clew.probes.follow.messages", "LogHandler"),
    "stage": ("clew.probes.pipeline", "stage"),
    "items": ("clew.probes.pipeline", "items"),
    "traceable": ("clew.probes.pipeline", "traceable"),
    "op": ("clew.graph", "op"),
    "record": ("clew.graph", "record"),
    "load": ("clew.graph", "load"),
    "map": ("clew.graph", "map"),
    "submit": ("clew.graph", "submit"),
    "Failure": ("clew.graph.mapping.failures", "Failure"),
    "ModelTracer": ("clew.probes.model", "ModelTracer"),
    "HDF5Saver": ("clew.export.hdf5_saver", "HDF5Saver"),
    "reduce": ("clew.probes.model", "reduce"),
    "dump": ("clew.probes.model", "dump"),
    "run": ("clew.recording", "start"),
    "current": ("clew.recording", "current"),
    "on": ("clew.recording", "on"),
    "off": ("clew.recording", "off"),
    "open": ("clew.reading", "open_run"),
    "runs": ("clew.reading", "all_runs"),
    "diff": ("clew.compare", "diff"),
    "Run": ("clew.reading", "Run"),
    "Trace": ("clew.reading", "Trace"),
    "Series": ("clew.reading", "Series"),
    "Call": ("clew.reading", "Call"),
    "Change": ("clew.records", "Change"),
    "DELETED": ("clew.records", "DELETED"),
    "NotKept": ("clew.records", "NotKept"),
    "GuardError": ("clew.errors", "GuardError"),
    "ClewError": ("clew.errors", "ClewError"),
}

_FOR_IPYTHON = {  # what `%load_ext clew` looks for
    "load_ipython_extension": ("clew.magics", "load_ipython_extension"),
    "unload_ipython_extension": ("clew.magics", "unload_ipython_extension"),
}

# Written out for type checkers, which do not run code; a test compares it with the names above.
__all__ = [
    "watch", "follow", "log", "LogHandler", "stage", "items", "traceable", "op", "record", "load", "map", "submit",
    "Failure", "ModelTracer", "HDF5Saver", "reduce", "dump", "run", "current", "on", "off", "open", "runs", "diff",
    "Run", "Trace", "Series", "Call", "Change", "DELETED", "NotKept", "GuardError", "ClewError", "__version__",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker must see a misspelt name

    def __getattr__(name: str) -> Any:
        """Load a name from its home when it is first used, so that `import clew` costs next to nothing."""
        home = _HOMES.get(name) or _FOR_IPYTHON.get(name)
        if home is None:
            raise AttributeError(f"module 'clew' has no attribute {name!r}; it has: {', '.join(__all__)}")
        from importlib import import_module

        value = getattr(import_module(home[0]), home[1])
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)

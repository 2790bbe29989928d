"""What the environment says: switches, folders, Python version. A leaf; read once where speed matters."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

HAS_MONITORING: Final = sys.version_info >= (3, 12)
PACKAGE: Final = os.path.dirname(__file__) + os.sep  # where clew's own code is


_OFF: Final = ("0", "off", "false", "no")
_ON: Final = ("", "1", "on", "true", "yes")


def enabled() -> bool:
    """False under `CLEW=0`: probes then leave everything untouched."""
    return os.environ.get("CLEW", "1").strip().lower() not in _OFF


def unknown_switch() -> str | None:
    """What `CLEW` is set to, if that means neither on nor off."""
    value = os.environ.get("CLEW", "1")
    return None if value.strip().lower() in (*_OFF, *_ON) else value


def threads_run_freely() -> bool:
    """True on a free-threaded build of Python, unless its lock was asked for (`PYTHON_GIL=1`)."""
    is_locked = getattr(sys, "_is_gil_enabled", None)  # since 3.13
    return is_locked is not None and not is_locked()


def current_folder() -> str:
    """The current folder; empty if it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def runs_folder() -> Path:
    """Where runs live: `CLEW_DIR`, or `./clew_runs`."""
    return Path(os.path.expanduser(os.environ.get("CLEW_DIR") or "clew_runs")).absolute()


def strict() -> bool:
    """True under `CLEW_STRICT=1`: clew's own failures raise instead of being reported. On in all tests."""
    return os.environ.get("CLEW_STRICT", "") == "1"


def quiet() -> bool:
    """True under `CLEW_QUIET=1`: no line at exit. Troubles are still reported."""
    return os.environ.get("CLEW_QUIET", "") == "1"


def self_test() -> bool:
    """False under `CLEW_SELFTEST=0`: `graph.save` does not test what it has written, unless it is told to."""
    return os.environ.get("CLEW_SELFTEST", "1").strip().lower() not in ("0", "off", "false", "no")


def self_test_seconds() -> float:
    """How long the self-test of a bundle may take: `CLEW_SELFTEST_TIMEOUT`, in seconds, or ten minutes."""
    try:
        seconds = float(os.environ.get("CLEW_SELFTEST_TIMEOUT", ""))
    except ValueError:
        return 600.0
    return seconds if seconds > 0 else 600.0


told_rank: int | None = None  # by torch.distributed, once a tracer has asked it


def rank() -> int:
    """This process's rank in a distributed job, as launchers tell it; 0 alone."""
    if told_rank is not None:
        return told_rank
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return 0

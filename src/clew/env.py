"""What the environment says: switches, folders, Python version. A leaf; read once where speed matters."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

HAS_MONITORING: Final = sys.version_info >= (3, 12)
PACKAGE: Final = os.path.dirname(__file__) + os.sep  # where clew's own code is


def enabled() -> bool:
    """False under `CLEW=0`: probes then leave everything untouched."""
    return os.environ.get("CLEW", "1").strip().lower() not in ("0", "off", "false", "no")


def runs_folder() -> Path:
    """Where runs live: `CLEW_DIR`, or `./clew_runs`."""
    return Path(os.environ.get("CLEW_DIR") or "clew_runs").absolute()


def strict() -> bool:
    """True under `CLEW_STRICT=1`: clew's own failures raise instead of being reported. On in all tests."""
    return os.environ.get("CLEW_STRICT", "") == "1"


def quiet() -> bool:
    """True under `CLEW_QUIET=1`: no line at exit. Troubles are still reported."""
    return os.environ.get("CLEW_QUIET", "") == "1"


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

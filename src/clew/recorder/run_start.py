"""When a run began."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from clew.errors import ClewError


@lru_cache(maxsize=64)
def run_started(folder: Path, otherwise: int) -> int:
    """When the run in this folder began, ns since 1970, whoever opened it; `otherwise` if it is not stored."""
    from clew.store.folder import read_meta

    try:
        return int(read_meta(folder)["started_ns"])
    except (ClewError, KeyError):
        return otherwise

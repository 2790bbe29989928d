"""ztrace's face: `from clew.compat.ztrace import ztrace`."""

from __future__ import annotations

from collections.abc import Sequence

from clew.export.ztracelog import write_call
from clew.probes.lines import watch


def ztrace(names: Sequence[str]) -> watch:
    """Trace the named values of a function; `./ztrace_logs/<date>/<time>.json` is complete when each call returns."""
    return watch(*names, on_return=write_call)

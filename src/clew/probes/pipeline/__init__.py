"""Following a few items through a data pipeline: `clew.stage`, `clew.items`, `clew.traceable`."""

from __future__ import annotations

from .item_sessions import items, traceable
from .stages import stage

__all__ = ["items", "stage", "traceable"]

"""Loads what writing needs, late and without a trace."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Final

_ALLOCATOR: Final = "JE_ARROW_MALLOC_CONF"


def load_output() -> ModuleType:
    """The module that writes shards, and with it pyarrow, which must not start a thread when it is loaded: from 3.12 on
    Python warns of forks in a process that has several."""
    is_set = _ALLOCATOR in os.environ
    if not is_set:
        os.environ[_ALLOCATOR] = "background_thread:false"
    try:
        from . import call_log_rows, row_output  # noqa: F401
    finally:
        if not is_set:
            os.environ.pop(_ALLOCATOR, None)
    return row_output

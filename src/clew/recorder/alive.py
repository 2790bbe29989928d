"""Objects of this process that recorded calls belong to, and that no file can hold: a module, for `call.rerun()`."""

from __future__ import annotations

import os
from typing import Any

_kept: dict[tuple[int, int], Any] = {}  # by process and call


def keep(call: int, owner: Any) -> None:
    """This is the `self` of the call."""
    _kept[os.getpid(), call] = owner


def owner_of(process: int, call: int) -> Any:
    """The `self` of a call of this process; None if it is not known."""
    return _kept.get((process, call)) if process == os.getpid() else None

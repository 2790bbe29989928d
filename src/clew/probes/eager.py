"""While anybody traces, what torch has compiled runs as it was written; when the last one ends, as before.

One stance for all: torch's own gives back the one that was there when it was set, so that of two which end in the
order they began, the second would leave compiling off for good.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

_lock = threading.Lock()
_users = 0
_stance: Any = None


def begin() -> None:
    global _users, _stance
    with _lock:
        _users += 1
        if _users == 1:
            _stance = torch.compiler.set_stance("force_eager")


def end() -> None:
    global _users, _stance
    with _lock:
        _users -= 1
        if _users == 0:
            stance, _stance = _stance, None
            stance.__exit__(None, None, None)

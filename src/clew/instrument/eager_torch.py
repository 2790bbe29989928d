"""While anybody traces, what torch has compiled runs as it was written; when the last one ends, as before.

One stance for all: torch's own gives back the one that was there when it was set, so that of two which end in the
order they began, the second would leave compiling off for good.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import torch
import wrapt

_COMPILER = "torch._dynamo"
_lock = threading.RLock()
_users = 0
_stance: Any = None
_waiting = False


def begin() -> None:
    global _users, _waiting
    with _lock:
        _users += 1
        if not _waiting:
            _waiting = True
            wrapt.register_post_import_hook(_loaded, _COMPILER)  # to load it only for this would take seconds
        _take_stance()


def end() -> None:
    global _users, _stance
    with _lock:
        _users -= 1
        if _users == 0 and _stance is not None:
            stance, _stance = _stance, None
            stance.__exit__(None, None, None)


def _loaded(compiler: Any) -> None:
    with _lock:
        _take_stance()


def _take_stance() -> None:
    global _stance
    if _users and _stance is None and _COMPILER in sys.modules:
        _stance = torch.compiler.set_stance("force_eager")

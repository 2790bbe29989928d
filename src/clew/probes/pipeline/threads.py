"""Threads that are started inside a trace belong to it."""

from __future__ import annotations

import threading
from typing import Any

from clew.instrument.call_guard import attempt

from .trace_recording import _threads, current

_lock = threading.Lock()
_users = 0
_start: Any = None


def inherit() -> None:
    """From now on a new thread belongs to the trace of the one that starts it."""
    global _users, _start
    with _lock:
        _users += 1
        if _users == 1:
            _start = threading.Thread.start
            threading.Thread.start = _starting  # type: ignore[method-assign,assignment]


def stop_inheriting() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0 and threading.Thread.start is _starting:
            threading.Thread.start = _start  # type: ignore[method-assign]


def _starting(thread: threading.Thread) -> None:
    attempt(lambda: _adopt(thread))
    _start(thread)


def _adopt(thread: threading.Thread) -> None:
    tracing = current()
    if tracing is not None:
        _threads[thread] = tracing

"""Small things the recorder needs beside other threads."""

from __future__ import annotations

import threading
import time
from typing import Any


def is_ending() -> bool:
    """Whether the interpreter is at its end: other threads do not go on."""
    return not threading.main_thread().is_alive()


def wait(wake: threading.Event, seconds: float) -> float:
    """Wait so long, or until woken; gives by how much it took longer. Beside busy threads it does."""
    begun = time.monotonic()
    if wake.wait(seconds):
        return 0.0
    return time.monotonic() - begun - seconds


def emptied(queue: list[Any]) -> list[Any]:
    """What is in `queue`, taken out of it. Another thread may be appending: the list stays the same object."""
    count = len(queue)
    taken = queue[:count]
    del queue[:count]
    return taken

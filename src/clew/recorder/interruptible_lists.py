"""Hot: lists that instrumented code appends to, and two ways for the recorder's thread to get its turn.

That thread shares the interpreter's lock with the program. Each of its steps that lets go of the lock gets it back only
after 5 ms for every other busy thread, so that beside a busy program writing can take seconds. When it is late, the
recorder asks for shorter turns (`quick_turns`), which works beside any thread, and pulls the brake: the class of the
open logs becomes one whose `append` waits until the recorder has written. While the brake is off, a log is a plain
list, and instrumented code pays nothing for it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

_TURN = 0.0001234  # seconds; a number that nobody else chooses
_LONGEST_WAIT = 2.0  # seconds; a thread may hold a lock that the recorder needs


class Log(list[Any]):
    """Values and sites, in turn."""

    __slots__ = ()


class _StoppedLog(Log):
    __slots__ = ()

    def append(self, item: Any) -> None:
        list.append(self, item)
        if not len(self) & 1:  # never between a value and its site
            brake.wait()


class Brake:
    """Stops the threads that write into logs, all but the one that has pulled it."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._released.set()
        self._owner = 0

    def pull(self, logs: Iterable[Log]) -> None:
        self._owner = get_ident()
        self._released.clear()
        for log in logs:
            log.__class__ = _StoppedLog

    def release(self, logs: Iterable[Log]) -> None:
        for log in logs:
            log.__class__ = Log
        self._released.set()

    def wait(self) -> None:
        if get_ident() != self._owner:
            self._released.wait(_LONGEST_WAIT)


brake = Brake()


@contextmanager
def quick_turns() -> Iterator[None]:
    """Meanwhile a thread that waits for the interpreter's lock gets it sooner."""
    before = sys.getswitchinterval()
    if before <= _TURN:
        yield
        return
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        if abs(sys.getswitchinterval() - _TURN) < 1e-6:  # the program may have set another one meanwhile
            sys.setswitchinterval(before)

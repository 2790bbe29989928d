"""Hot: the threads in which an expression, hook or callback of the user's is run for clew: nothing is recorded there.

Without this, an expression that reaches watched code (a property, `len(self)`, `f(x - 1)`) would watch itself without
end. A list and not a set: an expression may lead to another one, and each takes out what it has put in. Whoever begins
a call asks `if threads and is_quiet()`, which is nearly always one look at an empty list.

A thread is quiet too while the expression waits for it (`join`, the result of an executor): else an expression that
hands the watched function to a thread would never end either.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from threading import get_ident
from types import FrameType
from typing import Any, Final

from clew import trouble

threads: Final[list[int]] = []
_NOBODY: Final = -1  # stands among the threads when all are quiet, for good
_JOINING: Final = (threading.Thread.join.__code__, threading.Thread.start.__code__)
_DEEPEST: Final = 200  # frames that are looked at


class Quiet:
    """While code of the user's runs for clew."""

    __slots__ = ()

    def __enter__(self) -> None:
        threads.append(get_ident())

    def __exit__(self, *error: object) -> None:
        threads.remove(get_ident())


def is_quiet() -> bool:
    return bool(threads) and (_NOBODY in threads or get_ident() in threads or _is_waited_for())


def stop() -> None:
    """Nothing is recorded any more: what clew does leads to watched code, and that to clew, without end."""
    if _NOBODY not in threads:
        threads.insert(0, _NOBODY)


def is_stopped() -> bool:
    return _NOBODY in threads


trouble.on_endless(stop)


QUIET: Final = Quiet()


def _is_waited_for() -> bool:
    """Whether a thread that evaluates an expression waits for this one, or for one that waits for this one."""
    stacks = sys._current_frames()
    if not any(ident in stacks and _is_waiting(stacks[ident]) for ident in threads):
        return False
    known: set[int] = set()
    asked = [get_ident()]
    while asked:
        ident = asked.pop()
        known.add(ident)
        work = _work_of(ident, stacks)
        waiting = [each for each in stacks if each not in known and not work.isdisjoint(_awaited_by(stacks[each]))]
        if any(each in threads for each in waiting):
            return True
        asked += waiting
    return False


def _is_waiting(innermost: FrameType) -> bool:
    return innermost.f_code.co_filename == threading.__file__


def _work_of(ident: int, stacks: dict[int, FrameType]) -> set[int]:
    """What a thread does, by the id of what others wait for: the thread itself, and the futures it works on."""
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    futures: Any = sys.modules.get("concurrent.futures.thread")
    running = [futures._WorkItem.run.__code__] if futures is not None else []
    items = [frame.f_locals.get("self") for frame in _outwards(stacks[ident]) if frame.f_code in running]
    return {
        id(thread if thread is not None else stacks),
        *(id(getattr(item, "future", None)) for item in items if item is not None),
    }


def _awaited_by(innermost: FrameType) -> Iterator[int]:
    """What a thread waits for."""
    if not _is_waiting(innermost):
        return
    futures: Any = sys.modules.get("concurrent.futures._base")
    codes = [futures.Future.result.__code__, futures.Future.exception.__code__] if futures is not None else []
    for frame in _outwards(innermost):
        if frame.f_code in _JOINING or frame.f_code in codes:
            yield id(frame.f_locals.get("self", threads))  # never that of None, which may be nobody's thread


def _outwards(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    for _ in range(_DEEPEST):
        if frame is None:
            return
        yield frame
        frame = frame.f_back

"""What `clew.watch("*")` must record, found the slow and simple way: `sys.settrace`, and copies of everything.

For programs with one statement on a line. Before each line runs, and when the frame is left, every local is compared
with the exact copy made before; what is new belongs to the line that ran last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

GONE = ("gone",)
OPAQUE = ("opaque",)
_ATOMS = (int, float, bool, str, bytes, type(None))


@dataclass(frozen=True)
class Seen:
    name: str
    value: Any  # as `exact` gives it
    line: int


def exact(value: Any, around: tuple[int, ...] = ()) -> Any:
    """A copy that compares exactly, by type and content; whatever is not plain data through and through is OPAQUE."""
    if isinstance(value, float):
        return (float, value.hex())
    if type(value) in _ATOMS:
        return (type(value), value)
    if id(value) in around:
        return ("itself", around.index(id(value)))
    if type(value) in (list, tuple, dict, set):
        parts = [part for pair in value.items() for part in pair] if type(value) is dict else value
        inside = [exact(part, (*around, id(value))) for part in parts]
        return OPAQUE if OPAQUE in inside else (type(value), *inside)
    return OPAQUE


class Oracle:
    """Watches the frames of one code object."""

    def __init__(self, code: CodeType, not_its_own: frozenset[str] = frozenset()) -> None:
        """From 3.12 on a comprehension's variable shows among the locals; it must be named in `not_its_own`."""
        self._code = code
        self._others = not_its_own.union(code.co_freevars)
        self.calls: list[list[Seen]] = []  # one list for each call
        self._frames: dict[FrameType, _Frame] = {}

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return function(*args)
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not self._code:
            return None
        if event == "call" and frame not in self._frames:
            self._frames[frame] = _Frame(frame.f_lineno, self._others)
            self.calls.append(self._frames[frame].seen)
        else:
            self._frames[frame].look(frame, event)
        return self._trace


class _Frame:
    def __init__(self, line: int, others: frozenset[str]) -> None:
        self._others = others
        self.seen: list[Seen] = []
        self._line = line
        self._was: dict[str, Any] = {}

    def look(self, frame: FrameType, event: str) -> None:
        if event == "line" and frame.f_lineno == self._line:
            return  # from 3.12 on: a comprehension goes round, inside its statement
        now = {name: exact(value) for name, value in frame.f_locals.items() if name not in self._others}
        for name, value in now.items():
            if self._was.get(name, GONE) != value:
                self.seen.append(Seen(name, value, self._line))
        for name in self._was.keys() - now.keys():
            self.seen.append(Seen(name, GONE, self._line))
        self._was = now
        if event == "line":
            self._line = frame.f_lineno


def by_name(changes: list[Seen]) -> dict[str, list[tuple[Any, int | None]]]:
    """The changes of each name in order. Where a name went away is left open: `except ... as` does it on no line."""
    found: dict[str, list[tuple[Any, int | None]]] = {}
    for change in changes:
        found.setdefault(change.name, []).append((change.value, None if change.value == GONE else change.line))
    return found

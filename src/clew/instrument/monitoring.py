"""Events from `sys.monitoring` (Python 3.12 and later): only for the code objects that are watched."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from . import events

_mon: Any = getattr(sys, "monitoring", None)
_tool: int | None = None
_counts: dict[CodeType, int] = {}  # how many ask for a code object's events


def _tool_id() -> int:
    """A free tool number; debuggers and profilers keep theirs."""
    global _tool
    if _tool is None:
        for candidate in (4, 3, 5):
            if _mon.get_tool(candidate) is None:
                _mon.use_tool_id(candidate, "clew")
                _tool = candidate
                break
        else:
            raise RuntimeError("no free tool id in sys.monitoring")
        names = _mon.events
        _mon.register_callback(_tool, names.PY_START, _start)
        _mon.register_callback(_tool, names.LINE, _line)
        _mon.register_callback(_tool, names.PY_RETURN, _return)
        _mon.register_callback(_tool, names.PY_UNWIND, _unwind)
    return _tool


def watch_code(code: CodeType) -> None:
    names = _mon.events
    _counts[code] = _counts.get(code, 0) + 1
    _mon.set_local_events(_tool_id(), code, names.PY_START | names.LINE | names.PY_RETURN)
    _mon.set_events(_tool_id(), names.PY_UNWIND)


def unwatch_code(code: CodeType) -> None:
    _counts[code] = _counts.get(code, 1) - 1
    if _counts[code] <= 0:
        _counts.pop(code, None)
        _mon.set_local_events(_tool_id(), code, 0)
    if not _counts:
        _mon.set_events(_tool_id(), 0)


def watch_frame(frame: FrameType) -> None:
    watch_code(frame.f_code)


def unwatch_frame(frame: FrameType) -> None:
    unwatch_code(frame.f_code)


def _start(code: CodeType, offset: int) -> None:
    events.on_start(sys._getframe(1))


def _line(code: CodeType, line: int) -> None:
    if events.on_line(sys._getframe(1), line):
        _debug(sys._getframe(1))


def _return(code: CodeType, offset: int, result: object) -> None:
    events.on_end(sys._getframe(1), None, result)


def _unwind(code: CodeType, offset: int, error: BaseException) -> None:
    if code in _counts:
        events.on_end(sys._getframe(1), error)


def _debug(frame: FrameType) -> None:
    import pdb

    pdb.Pdb().set_trace(frame)

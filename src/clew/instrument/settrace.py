"""Events from `sys.settrace` (Python 3.11): a tracer that was there before goes on getting its events."""

from __future__ import annotations

import atexit
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from . import events

_codes: set[CodeType] = set()
_frames: dict[int, FrameType] = {}
_before: Any = None
_installed = False


def _install() -> None:
    global _before, _installed
    if sys.gettrace() is not _dispatch:
        _before = sys.gettrace()
        sys.settrace(_dispatch)
    if not _installed:
        threading.settrace(_dispatch)
        atexit.register(_at_exit)
        _installed = True


def _at_exit() -> None:
    """Before modules are taken apart: a tracer without its module would complain."""
    _codes.clear()
    _frames.clear()
    _uninstall_if_idle()


def _uninstall_if_idle() -> None:
    global _installed
    if not _codes and not _frames and _installed:
        if sys.gettrace() is _dispatch:
            sys.settrace(_before)
        threading.settrace(_before)
        _installed = False


def watch_code(code: CodeType) -> None:
    _codes.add(code)
    _install()


def unwatch_code(code: CodeType) -> None:
    _codes.discard(code)
    _uninstall_if_idle()


def watch_frame(frame: FrameType) -> None:
    if id(frame) not in _frames:
        _frames[id(frame)] = frame
        frame.f_trace = _Local(frame.f_trace)
    _install()


def unwatch_frame(frame: FrameType) -> None:
    if _frames.pop(id(frame), None) is not None:
        local = frame.f_trace
        frame.f_trace = local.before if isinstance(local, _Local) else local
    _uninstall_if_idle()


def _dispatch(frame: FrameType, event: str, arg: Any) -> Any:
    before = _before(frame, event, arg) if _before is not None else None
    if frame.f_code not in _codes:
        return before
    if event == "call" and id(frame) not in events._looks:
        events.on_start(frame)
    return _Local(before)


class _Local:
    """The tracer of one frame: ours, and whoever's was there before."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.error: BaseException | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.before is not None:
            self.before = self.before(frame, event, arg)
        if event == "line":
            self.error = None
            if events.on_line(frame, frame.f_lineno):
                _debug(frame)
        elif event == "exception":
            self.error = arg[1]
        elif event == "return" and not _suspended(frame, arg, self.error):
            events.on_end(frame, self.error if arg is None else None, arg)
        return self


def _suspended(frame: FrameType, arg: Any, error: BaseException | None) -> bool:
    """A generator that yields also "returns"; its last instruction tells the difference."""
    if not frame.f_code.co_flags & 0x2A0:
        return False
    if arg is None and error is not None:
        return False
    import opcode

    return opcode.opname[frame.f_code.co_code[frame.f_lasti]] in ("YIELD_VALUE", "SEND", "ASYNC_GEN_WRAP", "RESUME")


def _debug(frame: FrameType) -> None:
    import pdb

    pdb.Pdb().set_trace(frame)

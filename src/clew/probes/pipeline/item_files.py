"""Which file an item came from: files opened while it was made are told to its call by Python's own audit events."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from clew.instrument.library_code import is_library
from clew.recorder.live_call import place_of

from .passage import StagedCall, looking
from .trace_recording import current, open_traces

_PROGRAM = (".py", ".pyc", ".pyi", ".so", ".pth", ".json.lock")
_MANY = 64
_listening = False


def listen() -> None:
    """Hear of opened files. A hook cannot be taken out again; while no trace is open it asks for nothing."""
    global _listening
    if not _listening:
        _listening = True
        sys.addaudithook(_heard)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if event != "open":
        return
    try:
        if open_traces() and threading.get_ident() not in looking:
            _opened(*args)
    except Exception:  # an exception here would be the program's: it could not open its file
        return


def _opened(path: Any, mode: Any, flags: Any) -> None:
    if isinstance(mode, str) and any(letter in mode for letter in "wax"):
        return
    if mode is None and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
        return
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if type(path) is not str or path.endswith(_PROGRAM) or path.startswith(("/proc/", "/sys/", "/dev/")):
        return
    call = place_of(threading.get_ident()).call
    tracing = current()
    if tracing is None or not isinstance(call, StagedCall) or call.recorder is not tracing.recorder:
        return
    full = os.path.abspath(path)
    if is_library(full) or full in sys.path:  # a package that is loaded meanwhile, or looked for in an archive
        return
    if full.startswith(str(tracing.recorder.folder) + os.sep):
        return
    found = call.meta.setdefault("files", [])
    if full not in found and len(found) < _MANY:
        found.append(full)

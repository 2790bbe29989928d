"""Files that code of a bundle opens by their old names, found in the bundle."""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import constructors

_here = threading.local()
_lock = threading.Lock()
_depth = 0
_patched = [(builtins, "open"), (io, "open"), (os, "open"), (os, "stat"), (os, "listdir"), (os, "scandir")]
_originals: dict[tuple[str, str], Any] = {}


def found(table: Mapping[str, str], path: Any) -> Any:
    """Where a path leads in a bundle; as it was given if it is none of the bundle's."""
    if not table or not isinstance(path, str | bytes | os.PathLike):
        return path
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    direct = table.get(text) or table.get(os.path.normpath(text))
    known = text
    while direct is None and os.sep in known:  # a folder it is in
        known = known.rpartition(os.sep)[0]
        if known in table:
            direct = table[known] + text[len(known) :]
    if direct is None:
        return path
    constructors.led(text, direct)
    return direct


def in_this_thread(path: Any) -> Any:
    """Where a path leads in the bundle that is being loaded here, if one is."""
    return found(getattr(_here, "table", None) or {}, path)


def opening(table: Mapping[str, str]) -> Callable[..., Any]:
    """`open`, as the code of a bundle sees it."""

    def open(file: Any, *args: Any, **kwargs: Any) -> Any:
        return builtins.open(found(table, file), *args, **kwargs)

    return open


@contextmanager
def redirected(table: Mapping[str, str]) -> Iterator[None]:
    """In this thread, whatever opens or looks for one of these paths finds the bundle's."""
    if not table:
        yield
        return
    before = getattr(_here, "table", None)
    _here.table = table
    _enter()
    try:
        yield
    finally:
        _leave()
        _here.table = before


def _enter() -> None:
    global _depth
    with _lock:
        _depth += 1
        if _depth == 1:
            for owner, name in _patched:
                original = _originals[owner.__name__, name] = getattr(owner, name)
                setattr(owner, name, _leading(original))


def _leave() -> None:
    global _depth
    with _lock:
        _depth -= 1
        if _depth == 0:
            for owner, name in _patched:
                setattr(owner, name, _originals.pop((owner.__name__, name)))


def _leading(original: Any) -> Any:
    def led(*args: Any, **kwargs: Any) -> Any:
        table = getattr(_here, "table", None)
        if table and args:
            args = (found(table, args[0]), *args[1:])
        elif table:
            kwargs = {key: found(table, value) if key in ("file", "path") else value for key, value in kwargs.items()}
        return original(*args, **kwargs)

    led.__name__ = getattr(original, "__name__", "led")
    return led

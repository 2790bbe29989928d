"""Libraries that open files outside Python, where no audit hook hears of it: their doors, by name.

While a constructor runs, what is given to one of them is noticed as if it had been opened by Python; while one runs
again in a loaded bundle, it leads into the bundle.
"""

from __future__ import annotations

import builtins
import functools
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from clew import trouble

from . import constructors, file_redirection

# Of a class, the name of its constructor: it stays the class that it is.
_DOORS = {
    "pandas": ("read_parquet", "read_feather", "read_orc", "read_hdf"),
    "pyarrow": ("memory_map",),
    "pyarrow.parquet": ("read_table", "read_schema", "read_metadata", "ParquetFile.__init__"),
    "pyarrow.dataset": ("dataset",),
    "pyarrow.feather": ("read_table", "read_feather"),
    "pyarrow.csv": ("read_csv", "open_csv"),
    "pyarrow.json": ("read_json",),
    "polars": ("read_parquet", "read_csv", "read_ipc", "scan_parquet", "scan_csv", "scan_ipc"),
    "h5py": ("File.__init__",),
    "safetensors": ("safe_open",),
    "safetensors.torch": ("safe_open",),
    "safetensors.numpy": ("safe_open",),
    "torch.jit": ("load",),
    "cv2": ("imread", "imreadmulti"),
}
_ROOTS = {home.partition(".")[0] for home in _DOORS}
_IMPORT = ("builtins", "__import__")
_STAT = ("os", "stat")
_lock = threading.RLock()
_depth = 0
_patched: dict[tuple[str, str], tuple[Any, str, Any]] = {}  # a door → whose it is, under which name, what it was


@contextmanager
def watched() -> Iterator[None]:
    global _depth
    with _lock:
        _depth += 1
    try:
        _watch()
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                for owner, name, original in _patched.values():
                    setattr(owner, name, original)
                _patched.clear()


def _watch() -> None:
    """Stand at the doors of the libraries that are imported by now, and at the one through which more of them come."""
    with _lock:
        if _depth and _IMPORT not in _patched:
            _patched[_IMPORT] = (builtins, "__import__", builtins.__import__)
            builtins.__import__ = _importing(builtins.__import__)
            _patched[_STAT] = (os, "stat", os.stat)
            os.stat = _looking(os.stat)
        for home, names in _DOORS.items():
            module = sys.modules.get(home)
            for name in names if module is not None and _depth else ():
                if (home, name) not in _patched:
                    _stand_at(home, name, module)


def _stand_at(home: str, name: str, module: Any) -> None:
    path, _, method = name.rpartition(".")
    owner = vars(module).get(path) if path else module
    original = vars(owner).get(method) if owner is not None else None
    if original is None:  # a library that is still being imported, or a version without it
        return
    try:
        setattr(owner, method, _led(original, 1 if path else 0))
    except (AttributeError, TypeError):  # it cannot be changed
        return
    _patched[home, name] = (owner, method, original)


def _looking(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def looked(path: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(path, *args, **kwargs)
        if stat.S_ISREG(found.st_mode):
            constructors.looked(path)
        return found

    return looked


def _importing(original: Callable[..., Any]) -> Callable[..., Any]:
    def imported(name: str, *args: Any, **kwargs: Any) -> Any:
        found = original(name, *args, **kwargs)
        if name.partition(".")[0] in _ROOTS:
            _watch_more()
        return found

    return imported


def _led(original: Callable[..., Any], at: int) -> Callable[..., Any]:
    @functools.wraps(original, updated=())
    def led(*args: Any, **kwargs: Any) -> Any:
        if len(args) > at:
            args = (*args[:at], _place_or_given(args[at]), *args[at + 1 :])
        else:
            kwargs = {key: _place_or_given(value) for key, value in kwargs.items()}
        return original(*args, **kwargs)

    return led


def _place(given: Any) -> Any:
    if type(given) in (list, tuple):
        return type(given)(map(_place, given))
    if not isinstance(given, str | os.PathLike):
        return given
    place = file_redirection.in_this_thread(given)
    if place is given and os.path.exists(given):
        constructors.noticed(given)
    return place


# in the user's constructor, where nothing of ours may fail
_watch_more = trouble.entry_point()(_watch)
_place_or_given = trouble.entry_point(lambda given: given)(_place)

"""Modules of the user's own: which those are, their text, and whether that can be run again."""

from __future__ import annotations

import linecache
import os
from types import ModuleType

from clew.instrument.library_code import is_library

from .names import public_name


def is_user_module(module: ModuleType) -> bool:
    """Whether a module is the user's own."""
    if module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        paths = list(getattr(module, "__path__", ()))  # a package without __init__.py
        return bool(paths) and not is_library(os.path.join(paths[0], "x.py"))
    return isinstance(file, str) and file.endswith(".py") and not is_library(file)


def is_whole(module: ModuleType) -> bool:
    """Whether a module can be run again: a script that is running, and a notebook, cannot."""
    spec = getattr(module, "__spec__", None)
    running = public_name(module.__name__) == "__main__" or getattr(spec, "_initializing", False)
    return not running and (text_of(module) is not None or hasattr(module, "__path__"))


def text_of(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    linecache.checkcache(file)
    lines = linecache.getlines(file, vars(module))
    if not lines and os.path.isfile(file):
        return ""
    return "".join(lines) if lines else None

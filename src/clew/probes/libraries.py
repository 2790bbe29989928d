"""Whose code a file is: the user's own, or the standard library's, an installed package's, clew's."""

from __future__ import annotations

import os
import sysconfig
from functools import cache

from clew import env

_IN_PACKAGES = f"{os.sep}site-packages{os.sep}"


@cache
def is_library(file: str) -> bool:
    """Whether a file belongs to the standard library, to an installed package, or to clew."""
    path = os.path.realpath(file)
    return path.startswith(_folders()) or _IN_PACKAGES in path


@cache
def _folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = {os.path.realpath(sysconfig.get_paths()[name]) + os.sep for name in names}
    return (*installed, os.path.realpath(env.PACKAGE) + os.sep)

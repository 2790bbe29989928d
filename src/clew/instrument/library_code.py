"""Whose code a file is: the user's own, or the standard library's, an installed package's, clew's.

Installed is what lies in `site-packages` (`dist-packages` on Debian) of any environment, or what a package that was
installed into another folder (`pip install --target`) says is its own. A package in development mode lies elsewhere, or
is a linked folder: that is the user's own code.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache

from clew import env

_PACKAGES = ("site-packages", "dist-packages")


@cache
def is_library(file: str) -> bool:
    """Whether a file belongs to the standard library, to an installed package, or to clew."""
    path = os.path.realpath(file)
    return path.startswith(_folders()) or _in_packages(path) or _is_linked(file) or _is_installed_elsewhere(path)


@cache
def _folders() -> tuple[str, ...]:
    installed = {
        os.path.realpath(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    version = "".join(map(str, sys.version_info[:2]))
    zipped = os.path.join(os.path.realpath(sys.base_prefix), sys.platlibdir, f"python{version}.zip")
    return tuple(folder + os.sep for folder in (*installed, zipped, os.path.realpath(env.PACKAGE)))


def _in_packages(path: str) -> bool:
    return any(f"{os.sep}{name}{os.sep}" in path for name in _PACKAGES)


def _is_linked(file: str) -> bool:
    """Whether it stands in `site-packages` as a link to where it is kept; a linked folder is one under development."""
    path = os.path.abspath(file)
    if not _in_packages(path):
        return False
    folder = os.path.dirname(path)
    while os.path.basename(folder) not in _PACKAGES:
        if os.path.islink(folder):
            return False
        folder = os.path.dirname(folder)
    return True


def _is_installed_elsewhere(path: str) -> bool:
    for folder in {os.path.realpath(entry) for entry in sys.path if entry}:
        if path.startswith(folder + os.sep):
            top = path[len(folder) + 1 :].partition(os.sep)[0]
            if any(top in names for names in _installed_into(folder)):
                return True
    return False


@cache
def _installed_into(folder: str) -> list[set[str]]:
    """The files and folders that packages installed there call their own."""
    return [set(_top_names(os.path.join(folder, name))) for name in _listed(folder) if name.endswith(".dist-info")]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # a zip file, or a folder that is not there
        return []


def _top_names(distribution: str) -> Iterator[str]:
    try:
        with open(os.path.join(distribution, "RECORD"), encoding="utf-8") as record:
            for line in record:
                yield line.partition(",")[0].partition("/")[0].strip('"')
    except (OSError, UnicodeDecodeError):
        return

"""Deleting run folders: at once for everybody who looks, and never anything that is not of a run."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Final

from clew.errors import NotARunError

from .format import META_NAME, SHARDS_NAME

_OF_A_RUN: Final = frozenset([META_NAME, SHARDS_NAME])


def remove_run(folder: Path, *, everything: bool = False) -> None:
    """Delete a run's folder. Other files in it are not clew's: the folder then stays, unless everything is meant."""
    if folder.is_symlink():
        raise NotARunError("not-a-run", f"{folder} is a link.", "Delete the run that it leads to, or the link itself.")
    others = sorted(entry.name for entry in os.scandir(folder) if not _is_of_a_run(entry.name))
    if others and not everything:
        what = f"{folder} holds files that are not of the run: {', '.join(others[:5])}{', ...' if others[5:] else ''}."
        raise NotARunError("not-only-a-run", what, "Move them away, or give --force.")
    doomed = folder.with_name(f".deleted-{secrets.token_hex(6)}")
    os.rename(folder, doomed)  # in one step: nobody finds half a run
    shutil.rmtree(doomed)
    try:
        folder.parent.rmdir()  # the day's folder, if this was its last run
    except OSError:
        pass


def _is_of_a_run(name: str) -> bool:
    return name in _OF_A_RUN or name.startswith(f".{META_NAME}.")  # a draft that a killed process has left


def size_on_disk(folder: Path) -> int:
    """Bytes of all files in a folder; what cannot be looked at counts nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                continue
    return total

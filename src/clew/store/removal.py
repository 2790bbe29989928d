"""Deletes run folders in one step, and never files that do not belong to a run."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Final

from clew.errors import NotARunError

from .format import META_NAME, SHARDS_NAME
from .graph_files import is_graph_file

_RUN_FILES: Final = frozenset([META_NAME, SHARDS_NAME])


def check_removable(folder: Path, *, everything: bool = False) -> None:
    """Refuse a link, and a folder that holds other files unless `everything` is set."""
    if folder.is_symlink():
        raise NotARunError("not-a-run", f"{folder} is a link.", "Delete the run that it leads to, or the link itself.")
    foreign = sorted(entry.name for entry in os.scandir(folder) if not _belongs_to_run(entry.name))
    if foreign and not everything:
        names = f"{', '.join(foreign[:5])}{', ...' if foreign[5:] else ''}"
        message = f"{folder} holds files that do not belong to the run: {names}."
        raise NotARunError("not-only-a-run", message, "Move them away, or give --force.")


def remove_run(folder: Path, *, everything: bool = False) -> None:
    """Delete a run's folder, if it may be deleted."""
    check_removable(folder, everything=everything)
    renamed = folder.with_name(f".deleted-{secrets.token_hex(6)}")
    os.rename(folder, renamed)  # in one step, so that nobody finds half a run
    shutil.rmtree(renamed)
    try:
        folder.parent.rmdir()  # the day's folder, if this was its last run
    except OSError:
        pass


def _belongs_to_run(name: str) -> bool:
    is_draft = name.startswith(f".{META_NAME}.")  # that a killed process left behind
    return name in _RUN_FILES or is_draft or is_graph_file(name)


def size_on_disk(folder: Path) -> int:
    """The bytes of all files in a folder that can be examined."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                continue
    return total

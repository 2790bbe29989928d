"""Holds the runs that the page can show: those under one folder, and others added to them. The page knows only ids.

The browser never sends a path: an id is looked up in a table made by reading the folder.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from clew.errors import ClewError, PageError, UnknownNameError
from clew.page.cache import Cache
from clew.page.open_run import OpenedRun
from clew.page.plain_json import number
from clew.reading import status as how_it_ended
from clew.reading.run_lookup import run_folders
from clew.store.folder import read_meta
from clew.store.format import META_NAME, SHARDS_NAME
from clew.text.brief import brief

SECONDS = 0.5  # between two scans of the folder
OPEN = 6  # runs that are kept open
STATUSES = ("running", "finished", "incomplete", "failed", "interrupted", "exited", "killed")


class Shelf:
    """All runs by id. Runs under `base` can be renamed and deleted, others are read-only."""

    def __init__(self, base: Path, extra_folders: list[Path] | None = None) -> None:
        self.base = base.absolute()
        self._extra_folders = [folder.absolute() for folder in extra_folders or []]
        self._lock = threading.RLock()
        self._folders: dict[str, Path] = {}
        self._scanned_at = 0.0
        self._opened: OrderedDict[str, OpenedRun] = OrderedDict()
        self._rows: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._cache = Cache()

    def add(self, folder: Path) -> None:
        """Add a run from any place."""
        with self._lock:
            if folder.absolute() not in self._extra_folders:
                self._extra_folders.append(folder.absolute())
                self._scanned_at = 0.0

    # ---- the list of runs

    def rows(self) -> list[dict[str, Any]]:
        """A row per run, newest first."""
        with self._lock:
            self._scan()
            folders = list(self._folders.items())
        return [self._row(id, folder) for id, folder in reversed(folders)]

    def row(self, id: str) -> dict[str, Any]:
        return self._row(id, self.folder(id))

    def folder(self, id: str) -> Path:
        """The folder of a run. If it was deleted since, reading it reports that."""
        with self._lock:
            if id not in self._folders:
                self._scan(force=True)
            if id in self._folders:
                return self._folders[id]
        message = "There is no such run: it was deleted or moved, or is of another folder."
        raise UnknownNameError("no-such-run", message, "Go back to the list of runs and choose another.")

    def _scan(self, force: bool = False) -> None:
        if not force and time.monotonic() - self._scanned_at < SECONDS:
            return
        folders = dict.fromkeys([*self._extra_folders, *run_folders(self.base)])
        self._folders = {**{id: path for id, path in self._folders.items() if id in self._opened}, **_by_id(folders)}
        self._scanned_at = time.monotonic()

    def forget(self, id: str) -> None:
        """Drop everything about a run whose folder was deleted."""
        with self._lock:
            self._folders.pop(id, None)
            self._opened.pop(id, None)
            self._rows.pop(id, None)
            self._scanned_at = 0.0
            self._cache.forget(lambda key: key[0] == id)

    # ---- one run

    def opened(self, id: str) -> OpenedRun:
        folder = self.folder(id)
        with self._lock:
            opened = self._opened.pop(id, None) or OpenedRun(id, folder, self._cache)
            self._opened[id] = opened
            while len(self._opened) > OPEN:
                self._opened.popitem(last=False)
            return opened

    def is_ours(self, folder: Path) -> bool:
        """Whether a folder is under the base folder without any symbolic link in between."""
        try:
            parts = folder.relative_to(self.base).parts
        except ValueError:
            return False
        if not 1 <= len(parts) <= 2 or ".." in parts:
            return False
        steps = [self.base.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
        return all(_is_folder(step) for step in steps)

    def _row(self, id: str, folder: Path) -> dict[str, Any]:
        signature = _meta_signature(folder)
        cached = self._rows.get(id)
        if cached is not None and cached[0] == signature and cached[1]["status"] != "running":
            return cached[1]
        row = run_row(id, folder)
        self._rows[id] = signature, row
        return row


def run_id(folder: Path) -> str:
    """An id that is always the same for a folder, so that addresses stay valid."""
    return blake2b(os.fsencode(folder), digest_size=8).hexdigest()


def _by_id(folders: Any) -> dict[str, Path]:
    return {run_id(folder): folder for folder in folders}


def run_row(id: str, folder: Path) -> dict[str, Any]:
    """One row of the list of runs."""
    problem = None
    meta: dict[str, Any] = {}
    try:
        meta = read_meta(folder)
    except ClewError as error:
        if error.slug == "newer-format" or not _is_folder(folder / SHARDS_NAME):
            problem = str(error)
    status = how_it_ended.status(meta) if meta else "killed"
    begin, end = meta.get("started_ns"), meta.get("ended_ns")
    if status == "running":
        end = time.time_ns()
    has_duration = type(begin) is int and type(end) is int
    return {
        "id": id,
        "name": str(meta.get("name") or folder.name),
        "tags": tags_of(meta),
        "started": number(begin / 1e9) if type(begin) is int else None,
        "duration": max((end - begin) / 1e9, 0.0) if has_duration else None,  # type: ignore[operator]
        "status": status if status in STATUSES else "killed",
        "error": str(meta["error"]) if meta.get("error") else None,
        "size": _folder_size(folder),
        "path": str(folder),
        "problem": problem,
    }


def tags_of(meta: dict[str, Any]) -> dict[str, str]:
    """Tags as text; in the file they may be any JSON."""
    tags = meta.get("tags")
    if not isinstance(tags, dict):
        return {}
    return {str(key): value if isinstance(value, str) else brief(value, 200) for key, value in tags.items()}


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _meta_signature(folder: Path) -> tuple[int, int] | None:
    try:
        stat_result = (folder / META_NAME).lstat()
    except OSError:
        return None
    return stat_result.st_mtime_ns, stat_result.st_size


def _folder_size(folder: Path) -> int:
    """The size of all regular files in a folder; links are not followed."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    total += _folder_size(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return total  # deleted meanwhile
    return total


def run_elsewhere_error(folder: Path, base: Path) -> PageError:
    message = f"{folder} is not a run under {base}; the page changes only those."
    return PageError("run-elsewhere", message, "Start `clew view` with CLEW_DIR set to the folder it is in.")

"""The runs the page can show: those under one folder, and those it was given beside. Known to the page by ids alone.

No path ever comes from the browser: an id is looked up in a table that was made by reading the folder.
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
from clew.history import status as how_it_ended
from clew.history.find import run_folders
from clew.page.cache import Cache
from clew.page.opened import Opened
from clew.page.plain import number
from clew.show.text import brief
from clew.store.folder import read_meta
from clew.store.format import META_NAME, SHARDS_NAME

SECONDS = 0.5  # between two looks at the folder
OPEN = 6  # runs that are held open
STATUSES = ("running", "finished", "incomplete", "failed", "interrupted", "exited", "killed")


class Shelf:
    """All runs by id. Those under `base` can be renamed and deleted, others only looked at."""

    def __init__(self, base: Path, given: list[Path] | None = None) -> None:
        self.base = base.absolute()
        self._given = [folder.absolute() for folder in given or []]
        self._lock = threading.RLock()
        self._folders: dict[str, Path] = {}
        self._looked = 0.0
        self._opened: OrderedDict[str, Opened] = OrderedDict()
        self._rows: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._cache = Cache()

    def add(self, folder: Path) -> None:
        """One more run to look at, wherever it is."""
        with self._lock:
            if folder.absolute() not in self._given:
                self._given.append(folder.absolute())
                self._looked = 0.0

    # ---- which there are

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, the newest first."""
        with self._lock:
            self._look()
            folders = list(self._folders.items())
        return [self._row(id, folder) for id, folder in reversed(folders)]

    def row(self, id: str) -> dict[str, Any]:
        return self._row(id, self.folder(id))

    def folder(self, id: str) -> Path:
        """Where a run is. One that was there, and is no more, says so when it is read."""
        with self._lock:
            if id not in self._folders:
                self._look(now=True)
            if id in self._folders:
                return self._folders[id]
        what = "There is no such run: it was deleted or moved, or is of another folder."
        raise UnknownNameError("no-such-run", what, "Go back to the list of runs and choose another.")

    def _look(self, now: bool = False) -> None:
        if not now and time.monotonic() - self._looked < SECONDS:
            return
        found = dict.fromkeys([*self._given, *run_folders(self.base)])
        self._folders = {**{id: path for id, path in self._folders.items() if id in self._opened}, **_by_id(found)}
        self._looked = time.monotonic()

    def forget(self, id: str) -> None:
        """After its folder was deleted."""
        with self._lock:
            self._folders.pop(id, None)
            self._opened.pop(id, None)
            self._rows.pop(id, None)
            self._looked = 0.0
            self._cache.forget(lambda key: key[0] == id)

    # ---- one of them

    def opened(self, id: str) -> Opened:
        folder = self.folder(id)
        with self._lock:
            found = self._opened.pop(id, None) or Opened(id, folder, self._cache)
            self._opened[id] = found
            while len(self._opened) > OPEN:
                self._opened.popitem(last=False)
            return found

    def is_ours(self, folder: Path) -> bool:
        """Whether it lies under the base folder, without a link anywhere between."""
        try:
            parts = folder.relative_to(self.base).parts
        except ValueError:
            return False
        if not 1 <= len(parts) <= 2 or ".." in parts:
            return False
        steps = [self.base.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
        return all(_is_folder(step) for step in steps)

    def _row(self, id: str, folder: Path) -> dict[str, Any]:
        signature = _signature(folder)
        held = self._rows.get(id)
        if held is not None and held[0] == signature and held[1]["status"] != "running":
            return held[1]
        row = run_row(id, folder)
        self._rows[id] = signature, row
        return row


def run_id(folder: Path) -> str:
    """The same for the same folder every time, so that addresses stay good."""
    return blake2b(os.fsencode(folder), digest_size=8).hexdigest()


def _by_id(folders: Any) -> dict[str, Path]:
    return {run_id(folder): folder for folder in folders}


def run_row(id: str, folder: Path) -> dict[str, Any]:
    """A line of the list of runs."""
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
    known = type(begin) is int and type(end) is int
    return {
        "id": id,
        "name": str(meta.get("name") or folder.name),
        "tags": tags_of(meta),
        "started": number(begin / 1e9) if type(begin) is int else None,
        "duration": max((end - begin) / 1e9, 0.0) if known else None,  # type: ignore[operator]
        "status": status if status in STATUSES else "killed",
        "error": str(meta["error"]) if meta.get("error") else None,
        "size": _size(folder),
        "path": str(folder),
        "problem": problem,
    }


def tags_of(meta: dict[str, Any]) -> dict[str, str]:
    """Tags as text; they may be anything JSON can say."""
    tags = meta.get("tags")
    if not isinstance(tags, dict):
        return {}
    return {str(key): value if isinstance(value, str) else brief(value, 200) for key, value in tags.items()}


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _signature(folder: Path) -> tuple[int, int] | None:
    try:
        found = (folder / META_NAME).lstat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _size(folder: Path) -> int:
    """Bytes of all plain files in it; no link is followed."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    total += _size(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    except OSError:
        return total  # deleted meanwhile
    return total


def outside(folder: Path, base: Path) -> PageError:
    what = f"{folder} is not a run under {base}; the page changes only those."
    return PageError("run-elsewhere", what, "Start `clew view` with CLEW_DIR set to the folder it is in.")

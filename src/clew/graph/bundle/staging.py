"""A bundle that is being written: beside its place, and put there whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from clew.errors import GraphError

from .layout import ASSETS, GRAPH, SEAL, seal

_CHUNK = 1 << 20
_STAGING = ".clew"
_SETTLED = 60.0  # seconds after which a folder that nobody holds was left behind
_ATTEMPTS = 100
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE, as Linux has them
_STORED = (".safetensors", ".pt2", ".pt")  # numbers hardly shrink, and a bundle that does not unfold is no bomb


class Staging:
    """The files of a bundle, in a folder of their own until it is finished."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(os.path.abspath(target))
        self.is_zip = self.target.suffix == ".zip"
        self.files: dict[str, dict[str, Any]] = {}
        _refuse_others(self.target, self.is_zip)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(self.target)
        self.folder = Path(tempfile.mkdtemp(prefix=f".{self.target.name}.", suffix=_STAGING, dir=self.target.parent))
        self._lock = ExitStack()
        self._lock.enter_context(_held(self.folder))

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        path.write_bytes(data)
        self.files[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def copy(self, source: str, name: str) -> None:
        with open(source, "rb") as read:
            self.write_parts(name, iter(lambda: read.read(_CHUNK), b""))

    def write_parts(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        digest, size = hashlib.sha256(), 0
        with open(self._path(name), "wb") as written:
            for part in parts:
                digest.update(part)
                size += len(part)
                written.write(part)
        self.files[name] = {"size": size, "sha256": digest.hexdigest()}

    def count(self, under: str) -> int:
        """How many files there are in a folder of it."""
        return sum(file.startswith(under) for file in self.files)

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def seal(self, page: dict[str, Any]) -> None:
        """Write the page: the folder is a bundle then."""
        text = json.dumps({**page, "files": dict(sorted(self.files.items()))}, indent=1).encode()
        (self.folder / GRAPH).write_bytes(text)
        (self.folder / SEAL).write_bytes(seal(hashlib.sha256(text).hexdigest()))

    def finish(self) -> Path:
        """Put everything into its place."""
        if self.is_zip:
            self._zip()
        else:
            self._exchange()
        return self.target

    def _zip(self) -> None:
        packed = self.folder / self.target.name
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in (GRAPH, SEAL, *self.files):
                stored = name.endswith(_STORED) or name.startswith(ASSETS)
                archive.write(self.folder / name, name, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)
        os.replace(packed, self.target)

    def _exchange(self) -> None:
        self.folder.chmod(stat.S_IMODE(0o777 & ~_umask()))
        for _ in range(_ATTEMPTS):
            try:
                if self.target.exists():
                    self._swap()
                else:
                    os.rename(self.folder, self.target)
                return
            except OSError as error:  # another process saves there, too
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise
        raise GraphError("bundle-target", f"{self.target} is being written by others.", "Give another name.")

    def _swap(self) -> None:
        """At no moment is there no bundle of the name, where the system can do that; the old one is removed later."""
        if _swapped(self.folder, self.target):
            return
        old = self.folder.with_suffix(f".old{_STAGING}")
        os.rename(self.target, old)
        try:
            os.rename(self.folder, self.target)
        except OSError:
            os.rename(old, self.target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _swapped(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system has none for it."""
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is None:
        return False
    done = exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
    if done and ctypes.get_errno() == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, "it was moved meanwhile", str(other))
    return not done


def _remove_leftovers(target: Path) -> None:
    """What saves that were killed have left: folders that nobody holds, and that are not just being made."""
    for folder in target.parent.glob(f".{glob.escape(target.name)}.*{_STAGING}"):
        try:
            if time.time() - folder.stat().st_mtime < _SETTLED:
                continue
            with _held(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """A lock that goes with the process, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _refuse_others(target: Path, is_zip: bool) -> None:
    """Nothing but an earlier bundle is written over."""
    if not target.exists() and not target.is_symlink():
        return
    if is_zip:
        known = target.is_file() and zipfile.is_zipfile(target) and _has_page(target)
    else:
        known = target.is_dir() and not target.is_symlink()
        known = known and (((target / GRAPH).is_file() and (target / SEAL).is_file()) or not any(target.iterdir()))
    if not known:
        what = f"{target} is there already, and is no bundle."
        raise GraphError("bundle-target", what, "Give another name, or remove it: clew writes over bundles only.")


def _has_page(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return {GRAPH, SEAL} <= set(archive.namelist())

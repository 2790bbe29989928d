"""A bundle that is being written: beside its place, and put there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from clew.errors import GraphError

from .layout import ASSETS, GRAPH, SEAL, seal

_CHUNK = 1 << 20
_STORED = (".safetensors", ".pt2")  # numbers hardly shrink, and a bundle that does not unfold is no bomb


class Staging:
    """The files of a bundle, in a folder of their own until it is finished."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(os.path.abspath(target))
        self.is_zip = self.target.suffix == ".zip"
        self.files: dict[str, dict[str, Any]] = {}
        _refuse_others(self.target, self.is_zip)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f".{self.target.name}.", suffix=".clew", dir=self.target.parent))

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

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

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def finish(self, page: dict[str, Any]) -> Path:
        """Write the page, and put everything into its place."""
        text = json.dumps({**page, "files": dict(sorted(self.files.items()))}, indent=1).encode()
        (self.folder / GRAPH).write_bytes(text)
        (self.folder / SEAL).write_bytes(seal(hashlib.sha256(text).hexdigest()))
        if self.is_zip:
            self._zip()
        else:
            self._exchange()
        return self.target

    def _zip(self) -> None:
        packed = self.folder.with_suffix(".packed")
        try:
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in (GRAPH, SEAL, *self.files):
                    stored = name.endswith(_STORED) or name.startswith(ASSETS)
                    archive.write(self.folder / name, name, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)
            os.replace(packed, self.target)
        finally:
            packed.unlink(missing_ok=True)

    def _exchange(self) -> None:
        self.folder.chmod(stat.S_IMODE(0o777 & ~_umask()))
        old = self.folder.with_suffix(".old")
        if self.target.exists():
            os.rename(self.target, old)
        try:
            os.rename(self.folder, self.target)
        except OSError:
            if old.exists():
                os.rename(old, self.target)
            raise
        shutil.rmtree(old, ignore_errors=True)


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

"""What a bundle is on disk, and whether it is what it says.

    bundle/                    or bundle.zip with the same inside
      graph.json               the graph, and SHA-256 and size of every file below
      graph.sha256             SHA-256 of graph.json, as `sha256sum -c` reads it
      code/tokenizer.py        user code, as text: modules under their own names
      code/__main__.py         what was needed of a script or a notebook
      code/parts/0.py          functions and classes that have no name in a module
      arrays.safetensors       arrays and tensors
      models/0.pt2             torch modules, exported
      models/1.pt              modules and functions of TorchScript
      assets/0/vocab.txt       files that constructors were given or have opened
      examples.json            what it was recorded with, and what each step gave: for testing it
      examples.safetensors     arrays of those
      requirements.txt         the packages that its steps import, with exact versions
      README.md                what goes in, what comes out and how to run it, for people

Version 1: the first.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

from clew.errors import GraphError, NotABundleError
from clew.graph.brief_values import visible

SCHEMA = 1
GRAPH, SEAL = "graph.json", "graph.sha256"
CODE, PARTS, MODELS, ASSETS, ARRAYS = "code", "code/parts", "models", "assets", "arrays.safetensors"
EXAMPLES, EXAMPLES_ARRAYS = "examples.json", "examples.safetensors"
REQUIREMENTS, README = "requirements.txt", "README.md"
_CHUNK = 1 << 20
_LONGEST = 1_000  # characters of a message: a forged name may be of any length
_SMALL = 16 << 20  # models and arrays that are kept in memory once they are checked
_MOST = 64 << 20  # of graph.json
_MOST_PACKED, _RATIO_PACKED = 16 << 20, 100  # likewise in a zip: beyond the first, so many times what it takes there
_RATIO, _PLAUSIBLE = 200, 256 << 20  # a zip that unfolds more than so many times, beyond this size, is a bomb
AGAIN = "Get the bundle again from where it was made."


def damaged(what: str, remedy: str = AGAIN) -> GraphError:
    return GraphError("bundle-damaged", visible(_cut(what)), remedy)


def _cut(what: str) -> str:
    """The path at the beginning and what is wrong at the end stay."""
    half = _LONGEST // 2
    return what if len(what) <= _LONGEST else f"{what[:half]}…{what[-half:]}"


@contextmanager
def as_it_should_be(path: Path) -> Iterator[None]:
    """Whatever goes wrong while a page is looked at: the page is not what clew writes."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        if isinstance(error, GraphError):
            raise
        raise damaged(f"{path}: {GRAPH} is not as it should be: {error!r}.") from None


def unsafe(what: str) -> GraphError:
    return GraphError("bundle-unsafe", visible(_cut(what)), "Nothing of it was used. clew writes no such bundles.")


_unpacking = threading.RLock()
_unpacked: dict[str, tempfile.TemporaryDirectory[str]] = {}  # the files of zips, by SHA-256


class Source(Protocol):
    """Where the files of a bundle are."""

    def sizes(self) -> dict[str, int]: ...

    def open(self, name: str) -> IO[bytes]: ...


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        folders = [""]  # those that are still to be looked into: somebody may have made them very deep
        while folders:
            before = folders.pop()
            try:
                entries = list(os.scandir(self.path / before))
            except OSError as error:
                raise damaged(f"{self.path}: {before} cannot be read: {error.strerror}.") from None
            for entry in entries:
                name, known = before + entry.name, entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(known.st_mode):
                    folders.append(f"{name}/")
                elif stat.S_ISREG(known.st_mode):
                    found[name] = known.st_size
                else:
                    raise unsafe(f"{self.path}: {name} is a link or no plain file.")
        return found

    def open(self, name: str) -> IO[bytes]:
        return open(self.path / name, "rb")


class Zip:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except Exception as error:  # zipfile and struct have many ways to say so
            raise damaged(f"{path} is no zip that can be read: {error}.") from None

    def sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for info in self._zip.infolist():
            if not _is_safe(info.filename.rstrip("/")):
                raise unsafe(f"{self.path}: a member is called {info.filename!r}, which leads out of the bundle.")
            mode = info.external_attr >> 16
            if mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and stat.S_IFMT(mode):
                raise unsafe(f"{self.path}: {info.filename} is a link or no plain file.")
            if info.flag_bits & 0x1:
                raise damaged(f"{self.path}: {info.filename} is encrypted.")
            if info.filename in found:
                raise unsafe(f"{self.path}: {info.filename} is in it twice.")
            if not info.is_dir():
                found[info.filename] = info.file_size
        self._weigh(found)
        return found

    def _weigh(self, sizes: dict[str, int]) -> None:
        whole = os.path.getsize(self.path)
        total = sum(sizes.values())
        packed = sum(info.compress_size for info in self._zip.infolist())
        if packed > whole or (total > _PLAUSIBLE and total > _RATIO * whole):
            raise unsafe(f"{self.path} has {whole:,} bytes and would unfold to {total:,}: a zip bomb.")
        page = self._zip.NameToInfo.get(GRAPH)
        if page is not None and page.file_size > max(_MOST_PACKED, _RATIO_PACKED * page.compress_size):
            raise unsafe(f"{self.path}: {GRAPH} would unfold to {page.file_size:,} bytes: a zip bomb.")

    def open(self, name: str) -> IO[bytes]:
        return self._zip.open(name)


class Bundle:
    """A bundle whose every byte was compared with what its page says. Nothing of it is run here."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.source = self._source()
        self._kept: dict[str, bytes] = {}
        sizes = self.source.sizes()
        self.page = self._page(sizes)
        self.files: dict[str, dict[str, Any]] = self._listed()
        self._compare(sizes)

    def _source(self) -> Source:
        if self.path.is_dir():
            return Folder(self.path)
        if not self.path.exists():
            what = f"{self.path} is not there."
            raise NotABundleError("not-a-bundle", what, "Give the folder or zip that graph.save() has written.")
        return Zip(self.path)

    # ---- checking

    def _page(self, sizes: dict[str, int]) -> dict[str, Any]:
        """graph.json, if it is whole and of a version that is known."""
        for name in (GRAPH, SEAL):
            if name not in sizes:
                what = f"{self.path} has no {name}."
                raise GraphError("not-a-bundle", what, "Give the folder or zip that graph.save() has written.")
        if sizes[GRAPH] > _MOST:
            raise unsafe(f"{self.path}: {GRAPH} has {sizes[GRAPH]:,} bytes.")
        text = self._bytes(GRAPH, sizes[GRAPH])
        self.digest = hashlib.sha256(text).hexdigest()
        is_sealed = self._bytes(SEAL, 200) == seal(self.digest)
        try:
            page = json.loads(text)
        except (ValueError, RecursionError) as error:
            page = error
        if isinstance(page, dict) and type(page.get("schema")) is int and page["schema"] != SCHEMA:
            raise self._of_another_time(page)  # first of all: another version may be sealed in another way
        if not is_sealed:
            raise damaged(f"{self.path}: {GRAPH} is not what {SEAL} says: it was changed.")
        if isinstance(page, Exception):
            raise damaged(f"{self.path}: {GRAPH} cannot be read: {page}.")
        if not isinstance(page, dict) or page.get("schema") != SCHEMA:
            raise damaged(f"{self.path}: {GRAPH} has no schema version.")
        return page

    def _of_another_time(self, page: dict[str, Any]) -> GraphError:
        what = f"{self.path} is of schema {page['schema']}, and this clew reads {SCHEMA}."
        made_with = visible(str(page.get("clew"))[:40])
        return GraphError("bundle-schema", what, f"It was made with clew {made_with}: install that or a newer.")

    def _listed(self) -> dict[str, dict[str, Any]]:
        files = self.page.get("files")
        if not isinstance(files, dict):
            raise damaged(f"{self.path}: {GRAPH} lists no files.")
        for name, said in files.items():
            if not _is_safe(name) or name in (GRAPH, SEAL):
                raise unsafe(f"{self.path}: {GRAPH} lists {name!r}, which leads out of the bundle.")
            if not (isinstance(said, dict) and type(said.get("size")) is int and type(said.get("sha256")) is str):
                raise damaged(f"{self.path}: {GRAPH} says neither size nor SHA-256 of {name}.")
            if len(said) > 2:  # another name, for instance, under which it would be shown
                raise unsafe(f"{self.path}: {GRAPH} says more than size and SHA-256 of {name}.")
        return files

    def _compare(self, sizes: dict[str, int]) -> None:
        there = set(sizes) - {GRAPH, SEAL}
        if missing := sorted(set(self.files) - there):
            raise damaged(f"{self.path}: {missing[0]} is missing.")
        if extra := sorted(there - set(self.files)):
            raise damaged(
                f"{self.path}: {extra[0]} does not belong to it.", "Remove the file, or get the bundle again."
            )
        for name, said in self.files.items():
            if sizes[name] != said["size"]:
                raise damaged(f"{self.path}: {name} has {sizes[name]:,} bytes and should have {said['size']:,}.")
        for name in self.files:
            self._check(name)

    def _check(self, name: str) -> None:
        size = self.files[name]["size"]
        # Code is run from the bytes that were looked at, whatever happens to the file meanwhile. Files of the user's
        # are for the code to open, and those for people for them: there may be many.
        is_for_others = name.startswith(f"{ASSETS}/") or name in (REQUIREMENTS, README)
        if name.startswith(f"{CODE}/") or (size <= _SMALL and not is_for_others):
            data = self._kept[name] = self._bytes(name, size)
            digest = hashlib.sha256(data).hexdigest()
        else:
            digest = self._digest(name, size)
        if digest != self.files[name]["sha256"]:
            raise damaged(f"{self.path}: {name} is not what it was when the bundle was made.")

    def _bytes(self, name: str, size: int) -> bytes:
        with self._reading(name), self.source.open(name) as file:
            data = file.read(size + 1)
        if len(data) > size:
            raise unsafe(f"{self.path}: {name} is larger than it says.")
        return data

    def _digest(self, name: str, size: int) -> str:
        digest, left = hashlib.sha256(), size
        with self._reading(name), self.source.open(name) as file:
            while chunk := file.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise unsafe(f"{self.path}: {name} is larger than it says.")
                digest.update(chunk)
        return digest.hexdigest()

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Whatever a file system or a packed file says: each kind of compression has its own errors."""
        try:
            yield
        except GraphError:
            raise
        except Exception as error:
            raise damaged(f"{self.path}: {name} cannot be read: {error}.") from None

    # ---- reading

    def text(self, name: str) -> str:
        return self.view(name).tobytes().decode("utf-8")

    def view(self, name: str) -> memoryview:
        """The bytes of a file; large ones are mapped."""
        self.inside(name)
        if name in self._kept:
            return memoryview(self._kept[name])
        with open(self.place(name), "rb") as file, closing(file):
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    @property
    def folder(self) -> Path:
        """Where its files are; those of a zip are unpacked into a folder of this process, once for all its loads."""
        if isinstance(self.source, Folder):
            return Path(os.path.abspath(self.path))
        with _unpacking:
            if self.digest not in _unpacked:
                made = tempfile.TemporaryDirectory(prefix="clew_bundle_", ignore_cleanup_errors=True)
                _unpacked[self.digest] = made
        return Path(_unpacked[self.digest].name)

    def place(self, name: str) -> Path:
        """A file of it, on disk."""
        path = self.folder / name
        if isinstance(self.source, Zip):
            with _unpacking:  # another thread may be loading it
                if not path.exists():
                    self._unpack_one(name, path)
        return path

    def _unpack_one(self, name: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.part")
        with self.source.open(name) as packed, open(half, "wb") as file:
            while chunk := packed.read(_CHUNK):
                file.write(chunk)
        os.replace(half, path)

    def unpack(self, under: str) -> Path:
        """A file or folder of it, on disk with everything in it."""
        for name in self.inside(under):
            self.place(name)
        return self.folder / under

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """The files of each folder, also those deep in it."""
        found: dict[str, list[str]] = {}
        for name in self.files:
            folder = name.rpartition("/")[0]
            while folder:
                found.setdefault(folder, []).append(name)
                folder = folder.rpartition("/")[0]
        return found

    def inside(self, under: str) -> list[str]:
        """The files that a file or folder of it is made of."""
        if under in self.files:
            return [under]
        found = self._folders.get(under)
        if not found:
            raise unsafe(f"{self.path}: {under!r} is used and is not in it.")
        return found


def seal(digest: str) -> bytes:
    return f"{digest}  {GRAPH}\n".encode()


def _is_safe(name: str) -> bool:
    """Whether a name stays inside: no `..`, nothing absolute, no other system's separators."""
    parts = name.split("/")
    return all(part not in ("", ".", "..") for part in parts) and not set(name) & set("\\:\0")

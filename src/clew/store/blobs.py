"""Writes and reads the bytes of arrays: equal ones are kept once, each 64-byte aligned so that it can be mapped."""

from __future__ import annotations

import io
import mmap
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import xxhash

from clew.store.format import BLOB_ALIGNMENT, INLINE_LIMIT, NO_ID
from clew.store.run_files import open_regular, read_exactly, write_all

if TYPE_CHECKING:
    from pathlib import Path

_REMEMBERED: Final = 65_536  # blobs with which later ones are compared; about 10 MB
_MAP_FROM: Final = 1 << 20  # smaller blobs are read, which is as fast and does not count against the limit of mappings
# Before 3.13 each of Python's mappings holds a file descriptor, of which the user's program also needs some.
_MOST_MAPPINGS: Final = 16_384 if sys.version_info >= (3, 13) else 64
_Key = tuple[bytes, int]  # the digest and the length of a blob
_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


class Part(NamedTuple):
    """Where a buffer of a value is: inline, or at an offset in the blob file."""

    offset: int
    length: int
    inline: bytes | None = None
    digest: bytes | None = None  # xxh3-128, only for blobs: the batch's checksum covers inline bytes


class BlobWriter:
    """The blob file of one shard. `rollback` removes everything that was put since the last `mark`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = 0
        self._file: io.RawIOBase | None = None
        self._offsets: dict[_Key, int] = {}  # offsets, oldest first
        self._mark = 0
        self._since_mark: list[_Key] = []

    def put(self, buffer: Any, digest: bytes = b"") -> Part:
        """Keep the bytes of `buffer`, which is neither copied nor changed; `digest` is their digest, if known."""
        view = _as_bytes(buffer)
        if len(view) <= INLINE_LIMIT:
            return Part(NO_ID, len(view), bytes(view))
        key = digest or xxhash.xxh3_128_digest(view), len(view)
        offset = self._offsets.get(key)
        if offset is None:
            offset = self._append(view)
            self._remember(key, offset)
        return Part(offset, len(view), None, key[0])

    def mark(self) -> None:
        """Make everything that was put so far permanent."""
        self._mark = self.length
        self._since_mark.clear()

    def rollback(self) -> None:
        """Remove what was put since `mark`; OSError if the file cannot be truncated."""
        for key in self._since_mark:
            self._forget(key)
        self._since_mark.clear()
        self.length = self._mark
        if self._file is not None:
            self._file.truncate(self._mark)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, view: memoryview) -> int:
        file, offset = self._seek()
        write_all(file, view)
        self.length = offset + len(view)
        return offset

    def _seek(self) -> tuple[io.RawIOBase, int]:
        if self._file is None:
            self._file = io.FileIO(self.path, "x")
        offset = -(-self.length // BLOB_ALIGNMENT) * BLOB_ALIGNMENT
        self._file.seek(offset)  # the skipped padding reads as zeros
        return self._file, offset

    def _remember(self, key: _Key, offset: int) -> None:
        if len(self._offsets) >= _REMEMBERED:
            self._forget(next(iter(self._offsets)))
        self._offsets[key] = offset
        self._since_mark.append(key)

    def _forget(self, key: _Key) -> None:
        self._offsets.pop(key, None)


def max_growth(buffer: Any) -> int:
    """The most bytes that `put` adds to the file."""
    size = memoryview(buffer).nbytes
    return 0 if size <= INLINE_LIMIT else size + BLOB_ALIGNMENT


def _as_bytes(buffer: Any) -> memoryview:
    """`buffer` as bytes in C order, without a copy if it is contiguous."""
    view = memoryview(buffer)
    if not view.c_contiguous:
        return memoryview(view.tobytes())
    return view.cast("B") if view.nbytes else memoryview(b"")


class DamagedBlobError(Exception):
    """The bytes of a blob are missing, or are not those that were written."""


def read_blob(path: Path, part: Part) -> memoryview:
    """The bytes of `part`: writable, private to the caller, and exactly those written; DamagedBlobError otherwise."""
    try:
        with open_regular(path) as file:
            if part.offset < 0 or part.length < 0 or part.offset + part.length > os.fstat(file.fileno()).st_size:
                raise DamagedBlobError(f"{path.name} ends before byte {part.offset + part.length}")
            view = _read_or_map(file, part)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise DamagedBlobError(
            f"{path.name} is missing" if missing else f"{path.name} cannot be read: {error}"
        ) from error
    if len(view) != part.length or xxhash.xxh3_128_digest(view) != part.digest:
        raise DamagedBlobError(f"the bytes at {part.offset} of {path.name} are not those that were written")
    return view


def _read_or_map(file: io.FileIO, part: Part) -> memoryview:
    if part.length >= _MAP_FROM and len(_mappings) < _MOST_MAPPINGS:
        try:
            return _map(file, part)
        except OSError:
            pass  # the map table is full: read instead
    return memoryview(read_exactly(file, part.offset, part.length))


def _map(file: io.FileIO, part: Part) -> memoryview:
    """A private mapping: no other reader sees what is written to it."""
    skip = part.offset % mmap.ALLOCATIONGRANULARITY
    options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    mapped = mmap.mmap(file.fileno(), skip + part.length, access=mmap.ACCESS_COPY, offset=part.offset - skip, **options)
    _mappings.add(mapped)
    return memoryview(mapped)[skip:]

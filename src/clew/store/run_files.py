"""Opens the files of a run with care: links, pipes and devices in a run folder are never followed or waited for."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path

_SAFE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MAP_FROM = 256 * 1024  # a smaller read is cheaper than a mapping, and needs no entry in the process' map table


def open_regular(path: Path) -> io.FileIO:
    """Open `path` for reading if it is a plain file and not a link; OSError otherwise."""
    file = io.FileIO(path, "r", opener=lambda name, flags: os.open(name, flags | _SAFE_FLAGS))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return file


def size_of(path: Path) -> int | None:
    """The size of a plain file; None if there is none. A link is not a plain file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def read_range(path: Path, start: int, stop: int) -> pa.Buffer:
    """The bytes from `start` to `stop` (or the file's end), mapped if they are many; the file does not stay open."""
    with open_regular(path) as file:
        stop = min(stop, os.fstat(file.fileno()).st_size)
        if stop - start < _MAP_FROM:
            return pa.py_buffer(read_exactly(file, start, max(0, stop - start)))
    # pyarrow's mapping outlives its file; Python's mmap keeps a descriptor each, and a run may have 1000 shards
    with pa.memory_map(str(path)) as mapped:
        mapped.seek(start)
        return mapped.read_buffer(stop - start)


def read_exactly(file: io.FileIO, start: int, length: int) -> bytearray:
    """Up to `length` bytes from `start`; fewer only if the file ends before."""
    buffer = bytearray(length)
    view = memoryview(buffer)
    file.seek(start)
    position = 0
    while position < length:
        count = file.readinto(view[position:])
        if not count:
            break
        position += count
    view.release()
    del buffer[position:]
    return buffer


def write_all(file: io.RawIOBase, data: Any) -> None:
    """Write all of `data`: a raw write may be partial if the disk is full or a signal arrives."""
    view = memoryview(data).cast("B")
    while view:
        count = file.write(view)
        if not count:
            raise OSError(errno.EIO, "nothing was written")
        view = view[count:]

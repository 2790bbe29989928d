"""Files of a run, opened with suspicion: a link, a pipe or a device in a run folder is never followed or waited for."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path

_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MAP_FROM = 256 * 1024  # below this a read is cheaper than a mapping, and costs no entry in the process' map table


def open_regular(path: Path) -> io.FileIO:
    """`path` for reading, if it is a plain file and no link; OSError otherwise."""
    file = io.FileIO(path, "r", opener=lambda name, flags: os.open(name, flags | _SAFELY))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return file


def size_of(path: Path) -> int | None:
    """The size of a plain file; None if there is none (a link is none)."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def read_range(path: Path, start: int, stop: int) -> pa.Buffer:
    """The bytes from `start` to `stop` (or the file's end), mapped where that pays, without keeping the file open."""
    with open_regular(path) as file:
        stop = min(stop, os.fstat(file.fileno()).st_size)
        if stop - start < _MAP_FROM:
            return pa.py_buffer(read_exactly(file, start, max(0, stop - start)))
    # pyarrow's mapping outlives its file (Python's mmap holds on to a descriptor each, and a run may have 1000 shards)
    with pa.memory_map(str(path)) as mapped:
        mapped.seek(start)
        return mapped.read_buffer(stop - start)


def read_exactly(file: io.FileIO, start: int, length: int) -> bytearray:
    """Up to `length` bytes from `start`; fewer only where the file ends."""
    into = bytearray(length)
    view = memoryview(into)
    file.seek(start)
    done = 0
    while done < length:
        count = file.readinto(view[done:])
        if not count:
            break
        done += count
    view.release()
    del into[done:]
    return into


def write_all(file: io.RawIOBase, data: Any) -> None:
    """All of `data`: a raw write may take a part of it only, when the disk fills or a signal comes."""
    view = memoryview(data).cast("B")
    while view:
        written = file.write(view)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        view = view[written:]

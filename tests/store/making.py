"""Small runs to write, damage and read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np

from clew.records import Function, Kind, Site, Summary, Value
from clew.store.flush import CallStart, ChangeColumns, Flush, Span
from clew.store.folder import write_meta
from clew.store.format import END_OF_STREAM
from clew.store.reader import RunReader, ShardReader
from clew.store.writer import ShardWriter

PER_FLUSH = 5
DEAD = {"host": socket.gethostname(), "pid": 999_999_999}  # no process has this number


def new_run(folder: Path, **meta: object) -> Path:
    folder.mkdir()
    write_meta(folder, {"name": folder.name, "how": "finished", **meta})
    return folder


def new_writer(run: Path, **options: object) -> ShardWriter:
    """A writer whose process is not alive, so that readers take an unfinished end for what it is."""
    return ShardWriter(run, **{**DEAD, "rank": 0, "disk": None, **options})  # type: ignore[arg-type]


def changes(*numbers: float, site: int = 0) -> ChangeColumns:
    count = len(numbers)
    return ChangeColumns(
        site=np.full(count, site, np.int32),
        kind=np.full(count, Kind.FLOAT, np.uint8),
        number=np.array(numbers, np.float64),
        spans=[Span(count, 1, 999, 999 + count)],
    )


def array(seed: int, size: int = 20_000) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def array_value(seed: int, size: int = 20_000) -> Value:
    data = array(seed, size)
    summary = Summary(shape=(size,), dtype="|u1", size=size)
    return Value("numpy.ndarray", '{"$":"numpy"}', [data], summary=summary, digest=bytes(16))


def first_flush() -> Flush:
    """What everything later points to."""
    return Flush(
        time=1,
        functions=[Function(0, "train", "job", "/x/job.py", 3)],
        sites=[Site(0, 0, "loss", 5), Site(1, 0, "acc", 6), Site(2, 0, "step", 4, "step")],
        starts=[CallStart(1, -1, 0, 900, 77, "MainThread")],
    )


def numbered_flush(number: int) -> Flush:
    """PER_FLUSH changes that can be told apart, and one array."""
    numbers = [float(number * PER_FLUSH + i) for i in range(PER_FLUSH)]
    return Flush(time=number, changes=changes(*numbers), values=[(number, array_value(number))])


def small_run(folder: Path, flushes: int = 3, *, close: bool = True) -> Path:
    run = new_run(folder)
    writer = new_writer(run)
    writer.write(first_flush())
    for number in range(flushes):
        writer.write(numbered_flush(number))
    writer.close()
    if not close:  # as after kill -9
        os.truncate(records(run), records(run).stat().st_size - len(END_OF_STREAM))
    return run


def only_shard(run: Path) -> ShardReader:
    (shard,) = RunReader(run).shards
    return shard


def shard_folder(run: Path) -> Path:
    (folder,) = (run / "shards").iterdir()
    return folder


def records(run: Path) -> Path:
    return shard_folder(run) / "records.arrow"


def blobs(run: Path) -> Path:
    return shard_folder(run) / "blobs.bin"


def here() -> dict[str, object]:
    """The identity of this very process, which is alive."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def damage_in(reader: RunReader) -> list[str]:
    """What is wrong with what was written; not that more might have been."""
    return [problem for problem in reader.problems if "was killed or cut off" not in problem]

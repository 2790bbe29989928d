"""ShardWriter writes the records of one process and hands them to the operating system flush by flush."""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from clew.records import Kept, Note, Summary, Value
from clew.store.blobs import BlobWriter, Part, max_growth
from clew.store.encode import UNSEALED, encode
from clew.store.folder import host_slug
from clew.store.format import BLOBS_NAME, END_OF_STREAM, FORMAT, RECORDS_NAME, SHARDS_NAME, schema
from clew.store.framing import header, seal_batch
from clew.store.run_files import write_all
from clew.store.state_file import StateFile

if TYPE_CHECKING:
    from pathlib import Path

    from clew.store.flush import Flush

_ARRAY_SHARE: Final = 0.9  # of the disk budget; the rest is for records, which say what was left out


class ShardWriter:
    """Writes a new shard of `run_folder`. It must not be used by two threads at once, or in a forked child.

    When `write` returns, the operating system has the flush, and `kill -9` cannot undo it. When it raises OSError,
    nothing of that flush is in the file, and the same flush may be written again later.
    `disk` limits the bytes of this shard: arrays beyond 90 % of it are kept as summaries that tell why, and `write`
    raises OSError (EDQUOT) if the records themselves would exceed it.
    """

    def __init__(
        self,
        run_folder: Path,
        *,
        host: str,
        rank: int,
        pid: int,
        disk: int | None = None,
        summarise: Callable[[Value], Summary] = lambda value: value.summary,
    ) -> None:
        self._summarise = summarise  # makes the summary of a value that does not fit any more
        self.folder = _new_shard_folder(run_folder, host, rank, pid)
        self.writing_since: float | None = None  # by the monotonic clock, while bytes are being written
        self.dropped = 0  # values whose bytes did not fit the disk budget
        self._disk = disk
        self._owner = os.getpid()
        self._records: io.RawIOBase = io.FileIO(self.folder / RECORDS_NAME, "x")
        self._inode = os.fstat(self._records.fileno()).st_ino
        self._length = 0
        self._blobs = BlobWriter(self.folder / BLOBS_NAME)
        opened: list[Any] = [self._records, self._blobs]
        try:
            self._state = StateFile(self.folder)
            opened.append(self._state)
            self._append(header(schema(), {"clew.format": str(FORMAT)}))
        except BaseException:
            for file in opened:
                file.close()
            raise

    @property
    def bytes_written(self) -> int:
        """The size of this shard on disk."""
        return self._length + self._blobs.length

    def write(self, flush: Flush) -> None:
        """Append one batch, its blobs first."""
        self._require_usable()
        try:
            flush, parts, dropped = self._put_blobs(flush)
            message = encode(flush, parts, self._blobs.length).serialize()
            if self._disk is not None and self.bytes_written + message.size > self._disk:
                raise OSError(errno.EDQUOT, f"the run's disk budget of {self._disk:,} bytes is used up")
            self._append(seal_batch(message, self._length, UNSEALED))
        except BaseException:
            self._roll_back_blobs()
            raise
        self._blobs.mark()
        self.dropped += dropped

    def sync(self) -> None:
        """Nothing is buffered in Python, so nothing is written; OSError if the files no longer exist."""
        self._require_usable()

    def stop(self, reason: str) -> None:
        """Note, if that is still possible, why nothing more is written."""
        if os.getpid() == self._owner:
            self._state.stop(reason)

    def close(self, *, complete: bool = True) -> None:
        """Close the files, and mark the stream as complete if it is. A forked child only closes its copies."""
        try:
            if complete and not self._records.closed and os.getpid() == self._owner:
                self._append(END_OF_STREAM)
        finally:
            self._records.close()
            self._blobs.close()
            self._state.close()

    def _require_usable(self) -> None:
        if self._records.closed:
            raise OSError(errno.EBADF, "this shard is closed", str(self.folder))
        if os.getpid() != self._owner:
            raise OSError(errno.EBADF, f"this shard belongs to process {self._owner}", str(self.folder))
        # Writing to a deleted file succeeds but keeps nothing; only the missing name shows it.
        if os.stat(self.folder / RECORDS_NAME).st_ino != self._inode:
            raise FileNotFoundError(errno.ENOENT, "this shard was replaced", str(self.folder))

    def _append(self, data: bytes | memoryview) -> None:
        """Write all of `data` or none of it: nothing may ever follow half a batch."""
        self.writing_since = time.monotonic()
        try:
            write_all(self._records, data)
        except BaseException:
            self._truncate_records()
            raise
        finally:
            self.writing_since = None
        self._length += len(data)

    def _truncate_records(self) -> None:
        try:
            self._records.truncate(self._length)
            self._records.seek(self._length)
        except OSError:
            self._records.close()  # no more writing; readers skip the half batch

    def _roll_back_blobs(self) -> None:
        try:
            self._blobs.rollback()
        except OSError:
            pass  # bytes that nothing refers to do no harm

    def _put_blobs(self, flush: Flush) -> tuple[Flush, list[list[Part]], int]:
        """Write the parts of all values; a value that does not fit the budget becomes a summary."""
        parts: list[list[Part]] = []
        values: list[tuple[int, Value]] = []
        dropped = 0
        for id, value in flush.values:
            if not self._fits_budget(value):
                value = self._without_bytes(value)
                dropped += 1
            values.append((id, value))
            digests = value.part_digests or [b""] * len(value.parts)
            parts.append(list(map(self._blobs.put, value.parts, digests)))
        if not dropped:
            return flush, parts, 0
        # noted with the first one and not at the end, because a killed process has no end
        notes = flush.notes if self.dropped else [*flush.notes, self._budget_note()]
        return replace(flush, values=values, notes=notes), parts, dropped

    def _fits_budget(self, value: Value) -> bool:
        if self._disk is None or not value.parts:
            return True
        return self.bytes_written + sum(map(max_growth, value.parts)) <= self._disk * _ARRAY_SHARE

    def _without_bytes(self, value: Value) -> Value:
        why = f"the run's disk budget of {self._disk:,} bytes is used up"
        summary = self._summarise(value)
        return replace(value, body=None, parts=[], kept=max(value.kept, Kept.SUMMARY), why=why, summary=summary)

    def _budget_note(self) -> Note:
        text = f"arrays from here on are kept as summaries: the run's disk budget of {self._disk:,} bytes is used up"
        return Note("dropped", "arrays", text)


def _new_shard_folder(run_folder: Path, host: str, rank: int, pid: int) -> Path:
    """A new folder; a process id may occur again, in another container or after a restart."""
    shards = run_folder / SHARDS_NAME
    shards.mkdir(exist_ok=True)
    stem = f"{host_slug(host)}-r{int(rank)}-{int(pid)}"
    for n in range(1_000_000):
        try:
            folder = shards / f"{stem}-{n}"
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise OSError(errno.EEXIST, "no free name for a shard", str(shards / stem))

"""ShardReader reads the undamaged records of one process, also while that process is writing."""

from __future__ import annotations

import os
import re
import socket
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from clew.records import Function, Note, Origin, Site, Value
from clew.store.folder import host_slug
from clew.store.format import BLOBS_NAME, RECORDS_NAME
from clew.store.run_files import size_of
from clew.store.shard_columns import Array, Changes, Columns, Ends, Piece, SpannedPiece, Starts, StructPiece
from clew.store.state_file import read_stop
from clew.store.stream import Batch, RecordStream
from clew.store.value_table import Outline, ValueTable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_SMALL_SITES: Final = 1 << 14
_NAME: Final = re.compile(r"(?P<host>.+)-r(?P<rank>-?\d{1,9})-(?P<pid>\d{1,9})-(?P<n>\d+)", re.ASCII)
_RECENT_SECONDS: Final = 60  # another machine may still write to a file that changed this recently
_TABLES: Final[dict[type[Columns], str]] = {Changes: "changes", Starts: "starts", Ends: "ends"}
_UNKNOWN_NAME: Final = "<unknown>"
_Table = TypeVar("_Table", bound=Columns)


class SiteIds:
    """Maps the ids of a shard's sites to small ones: readers have tables by site, and a file may use any number.

    A process numbers its sites as functions are instrumented, so a short run of a large program also has large ids.
    """

    def __init__(self) -> None:
        self._small: dict[int, int] = {}

    def small_id(self, id: int) -> int:
        return id if id < _SMALL_SITES else self._small.setdefault(id, _SMALL_SITES + len(self._small))

    def make_small(self, changes: StructPiece) -> None:
        """Replace large ids in the column of sites."""
        sites = changes.column("site")
        if not len(sites) or int(sites.max()) < _SMALL_SITES:
            return
        ids, places = np.unique(sites, return_inverse=True)
        changes.replace("site", np.array([self.small_id(id) for id in ids.tolist()], np.int32)[places])


class ShardReader:
    """The records of a shard. `refresh` reads what was written since; columns read before stay as they were.

    Every site that a change refers to and every function that a site or a call refers to exists; if damage destroyed
    its definition, its name is "<unknown>". A change may refer to a call whose start was lost.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        match = _NAME.fullmatch(folder.name)
        self.host = match["host"] if match else ""
        self.rank = int(match["rank"]) if match else 0
        self.pid = int(match["pid"]) if match else 0
        self.functions: dict[int, Function] = {}
        self.sites: dict[int, Site] = {}
        self._site_ids = SiteIds()
        self.notes: list[Note] = []
        self.origins: list[Origin] = []
        self.batches = 0
        self.run_ended = False  # set by RunReader; an unfinished end is then certainly damage
        self._pieces: dict[type[Columns], list[Piece]] = {kind: [] for kind in _TABLES}
        self._tables: dict[type[Columns], Columns] = {}
        self._stream = RecordStream(folder / RECORDS_NAME)
        self._blob_damage: dict[str, None] = {}  # in order, each once
        self._blob_length = 0
        self._last_batch = 0  # when it was written, in ns
        self.value_table = ValueTable(folder / BLOBS_NAME, self._blob_damage.setdefault)
        self.refresh()

    @property
    def changes(self) -> Changes:
        return self._table(Changes)

    @property
    def starts(self) -> Starts:
        return self._table(Starts)

    @property
    def ends(self) -> Ends:
        return self._table(Ends)

    def value(self, id: int) -> Value:
        """The written form of a value; `why` tells if it was lost or damaged."""
        return self.value_table.read_one(id)

    def values(self, ids: Iterable[int]) -> list[Value]:
        """Many values, in the order of `ids`; several times faster than one by one."""
        return self.value_table.read_many(ids)

    def outlines(self, ids: Iterable[int]) -> list[Outline]:
        """These values without their bodies and bytes, and how many bytes reading each would take."""
        return self.value_table.outlines(ids)

    def stored_bytes(self, ids: Array) -> Array:
        """By value: how many bytes reading it takes."""
        return self.value_table.stored_bytes(ids)

    def single_numbers(self, ids: Iterable[int]) -> tuple[Array, Array]:
        """The number in each value that is an array or a scalar of one element, and which values are."""
        return self.value_table.single_numbers(ids)

    def verify(self) -> None:
        """Read every blob; `problems` then lists each damaged one."""
        self.value_table.check_blobs()

    @property
    def closed(self) -> bool:
        """True if the writer closed the shard, so that nothing is missing at the end."""
        return self._stream.closed

    @property
    def problems(self) -> list[str]:
        """What is damaged or missing, as messages for people."""
        tail = [self._stream.tail] if self._stream.tail and not self.may_be_written() else []
        messages = [*self._stream.damage, *tail, *self._missing_blobs(), *self._blob_damage]
        return [f"shard {self.name}: {message}" for message in messages]

    @property
    def missing_end(self) -> str:
        """Why the last records of the process may be missing; empty if the shard is complete or being written."""
        if self.closed or self.may_be_written():
            return ""
        stop = read_stop(self.folder)
        if stop is not None:
            return f"recording stopped at {_clock_time(stop.time)}, and nothing later was kept: {stop.reason}"
        if self._last_batch:
            last = _clock_time(self._last_batch)
            return f"process {self.pid} was killed or cut off: nothing it recorded after {last} was kept"
        return f"process {self.pid} was killed or cut off before it could write anything"

    def may_be_written(self) -> bool:
        """True if the process that writes this shard may be alive, as far as this machine can tell."""
        if self.closed or self.run_ended or not self.host:
            return False
        if self.host != host_slug(socket.gethostname()) or os.name == "nt":  # os.kill(pid, 0) ends processes there
            return self._is_recent()
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except OSError:
            return False
        return self.pid > 0

    def refresh(self) -> bool:
        """Read what was written since the last time; True if there was anything."""
        was_closed = self.closed
        new = self._stream.read_new()
        if new:
            read_before = {kind: len(pieces) for kind, pieces in self._pieces.items()}
            for batch in new:
                self._add_batch(batch)
            self._tables.clear()
            self._add_unknown_names(read_before)
        return bool(new) or self.closed != was_closed

    def _table(self, kind: type[_Table]) -> _Table:
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = kind(self._pieces[kind])
        assert isinstance(table, kind)
        return table

    def _add_batch(self, batch: Batch) -> None:
        self.batches += 1
        self._blob_length = max(self._blob_length, batch.blob_length)
        self._last_batch = max(self._last_batch, batch.time)
        self.functions.update((row["id"], Function(**row)) for row in _rows_as_dicts(batch, "functions", Function))
        for row in _rows_as_dicts(batch, "sites", Site):
            id = row["id"] = self._site_ids.small_id(row["id"])
            self.sites[id] = Site(**row)
        self.notes.extend(Note(**row) for row in _rows_as_dicts(batch, "notes", Note))
        self.origins.extend(Origin(**row) for row in _rows_as_dicts(batch, "origins", Origin))
        for kind, name in _TABLES.items():
            if name in batch.tables:
                self._pieces[kind].append(_make_piece(batch, name, self._site_ids))
        if "values" in batch.tables:
            self.value_table.add(batch.tables["values"])

    def _add_unknown_names(self, read_before: dict[type[Columns], int]) -> None:
        """Add the sites and functions that the new rows refer to and that damage destroyed."""
        for id in _missing_ids(
            self.sites, [piece.column("site") for piece in self._pieces[Changes][read_before[Changes] :]]
        ):
            self.sites[id] = Site(id, -1, _UNKNOWN_NAME, 0)
        called = [piece.column("function") for piece in self._pieces[Starts][read_before[Starts] :]]
        of_sites = np.array([site.function for site in self.sites.values()], np.int32)
        for id in _missing_ids(self.functions, [*called, of_sites]):
            self.functions[id] = Function(id, _UNKNOWN_NAME, _UNKNOWN_NAME, _UNKNOWN_NAME, 0)

    def _missing_blobs(self) -> list[str]:
        if not self._blob_length:
            return []
        size = size_of(self.folder / BLOBS_NAME)
        if size is None:
            return [f"{BLOBS_NAME} is missing: large arrays have no content"]
        missing = self._blob_length - size
        return [f"{BLOBS_NAME} is {missing:,} bytes short: some arrays have no content"] if missing > 0 else []

    def _is_recent(self) -> bool:
        try:
            return time.time() - (self.folder / RECORDS_NAME).lstat().st_mtime < _RECENT_SECONDS
        except OSError:
            return False


def _clock_time(ns: int) -> str:
    """A date and time in this machine's time zone."""
    try:
        return f"{datetime.fromtimestamp(ns / 1e9):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    except (OverflowError, OSError, ValueError):  # a damaged file
        return "an unknown time"


def _make_piece(batch: Batch, name: str, site_ids: SiteIds) -> Piece:
    rows = StructPiece(batch.tables[name])
    if name == "changes":
        site_ids.make_small(rows)
    if name != "changes" or "spans" not in batch.tables:  # format 1 has no spans
        return rows
    return SpannedPiece(rows, StructPiece(batch.tables["spans"]))


_ADDED_LATER = frozenset(["code_hash", "file_hash", "source", "mode"])  # see the history in format.py


def _rows_as_dicts(batch: Batch, table: str, record: Any) -> list[dict[str, Any]]:
    """The rows of a table as dicts with the fields of `record`; fields of other versions are left out."""
    rows = batch.tables.get(table)
    if rows is None:
        return []
    names = [name for name in record.__slots__ if rows.type.get_field_index(name) >= 0 or name not in _ADDED_LATER]
    fields = [rows.field(name).to_pylist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*fields, strict=True)]


def _missing_ids(entries: dict[int, Any], columns: list[Array]) -> list[int]:
    """Ids in `columns` that have no entry. Ids count from 0, so their range usually settles it."""
    count = len(entries)
    is_dense = all(id in entries for id in range(count))
    unsettled = [
        column for column in columns if len(column) and not (is_dense and 0 <= column.min() <= column.max() < count)
    ]
    if not unsettled:
        return []
    return [id for id in np.unique(np.concatenate(unsettled)).tolist() if id not in entries]

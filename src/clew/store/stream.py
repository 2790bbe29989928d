"""RecordStream: the whole batches of a records.arrow, whatever else is in it, also while it grows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from clew.errors import FormatError
from clew.store.checking import is_compressed, is_plain, require_own_bytes, require_sense
from clew.store.files import read_range, size_of
from clew.store.format import FORMAT, schema
from clew.store.framing import End, Frame, Gap, frames, header_is_whole, header_length

if TYPE_CHECKING:
    from pathlib import Path

_FORMAT_KEY: Final = b"clew.format"


class Batch(NamedTuple):
    """One flush: the rows of each table that has any, how long the blob file was then, and when that was, in ns."""

    tables: dict[str, pa.StructArray]
    blob_length: int
    time: int


class RecordStream:
    """Reads on from where it stopped. What is not whole is told: `damage` for good, `tail` as long as it stands."""

    def __init__(self, path: Path) -> None:
        self.damage: list[str] = []
        self.tail = ""  # what is wrong at the end; a writer at work may still set it right
        self.closed = False  # the writer said it was done
        self._path = path
        self._position = 0  # up to here everything is read
        self._size = 0
        self._signature: tuple[int, int] | None = None
        self._foreign = False  # whole, but not written by clew
        self._schema: pa.Schema | None = None  # None until the header is past

    def read_new(self) -> list[Batch]:
        """The batches that are whole now and were not yet given."""
        try:
            if not self._changed():
                return []
            data = read_range(self._path, self._position, self._size)
        except OSError as error:
            self.tail = f"{self._path.name} cannot be read: {error}"
            return []
        return self._batches(data)

    def _changed(self) -> bool:
        size = size_of(self._path)
        if size is None:
            self.tail = f"{self._path.name} is missing"
            self._signature = None
            return False
        signature = (size, self._path.lstat().st_mtime_ns)
        if signature == self._signature:
            return False
        self._signature = signature
        self._size = size
        if size < self._position:
            self.tail = f"{self._path.name} became shorter than it was when it was read"
            return False
        return True

    def _batches(self, data: pa.Buffer) -> list[Batch]:
        self.tail = ""
        view = memoryview(data).cast("B")
        base = self._position
        if self._schema is None and not self._read_header(view):
            return []
        if self._foreign:
            return []
        found: list[Batch] = []
        gap: Gap | None = None
        for item in frames(view[self._position - base :], self._position):
            if isinstance(item, Gap):
                gap = item  # damage only if something whole follows: else the writer may be in the middle of it
                continue
            if gap is not None or self.closed:
                self._tell_gap(gap)
                gap = None
            self._position = item.stop
            self.closed = isinstance(item, End)
            if isinstance(item, Frame):
                found += self._decode(data.slice(item.start - base, item.stop - item.start), item)
        if gap is not None:
            self._tell_tail(view[gap.start - base :], gap)
        return found

    def _read_header(self, view: memoryview) -> bool:
        """Take the schema from the header, or do without; False if nothing can be read yet."""
        length = header_length(view)
        if length is None or length > len(view) or not header_is_whole(bytes(view[:length])):
            return self._do_without_header(view)
        try:
            written = pa.ipc.read_schema(pa.py_buffer(view[:length]))
        except Exception:  # pyarrow has many ways to say that a schema is none
            return self._do_without_header(view)
        version = _version(written)
        if version > FORMAT:
            raise FormatError(
                "newer-format",
                f"{self._path} is of format {version}; this clew reads up to {FORMAT}.",
                "Install a newer clew to read it.",
            )
        self._schema = written
        self._position = length
        self._foreign = not _is_ours(written)
        if self._foreign:
            self.damage.append(f"the header of {self._path.name} is not one that clew wrote")
        return True

    def _do_without_header(self, view: memoryview) -> bool:
        """A damaged header is no loss, as long as whole batches follow: the schema is known."""
        if not any(isinstance(item, Frame) for item in frames(view, 0)):
            self.tail = f"{self._path.name} is empty" if not len(view) else f"{self._path.name} has no whole header"
            return False
        self._schema = schema()
        return True

    def _decode(self, message: pa.Buffer, frame: Frame) -> list[Batch]:
        """The batch of a message with the right checksum; none if its content makes no sense all the same."""
        try:
            read = pa.ipc.read_message(message)
            if is_compressed(memoryview(read.metadata)):
                raise ValueError("it is compressed")
            found = pa.ipc.read_record_batch(read, self._schema)
            found.validate(full=True)
            require_own_bytes(found, len(message))
            return [_batch(found)]
        except Exception as error:  # pyarrow has many ways to say that a message is none
            what = f"the batch at byte {frame.start:,} of {self._path.name} makes no sense: {error!s:.200}"
            self.damage.append(what)
            return []

    def _tell_gap(self, gap: Gap | None) -> None:
        name = self._path.name
        if gap is None:
            self.damage.append(f"{name} goes on after its end")
        elif gap.start == 0:
            self.damage.append(f"the first {gap.stop:,} bytes of {name}, with its header, are damaged")
        else:
            self.damage.append(f"bytes {gap.start:,} to {gap.stop:,} of {name} are damaged; what they held is lost")

    def _tell_tail(self, rest: memoryview, gap: Gap) -> None:
        name, length = self._path.name, len(rest)
        if self.closed:
            self.tail = f"{length:,} bytes follow the end of {name}; they are no records"
        elif not np.frombuffer(rest, np.uint8).any():
            self.tail = f"{name} ends with {length:,} zero bytes, where records may have been"
        else:
            self.tail = f"the last {length:,} bytes of {name}, from byte {gap.start:,}, are not a whole batch"


def _version(written: pa.Schema) -> int:
    try:
        return int((written.metadata or {})[_FORMAT_KEY])
    except (KeyError, ValueError, OverflowError):
        return 0


def _is_ours(written: pa.Schema) -> bool:
    """True if every column that we know has, where it is there, the type that we know, and any other a plain one."""
    if _version(written) < 1 or not all(is_plain(field.type) for field in written):
        return False
    return all(_fits(ours, written.field(ours.name)) for ours in schema() if written.get_field_index(ours.name) >= 0)


def _fits(ours: pa.Field, theirs: pa.Field) -> bool:
    if pa.types.is_list(ours.type):
        return pa.types.is_list(theirs.type) and _fits(ours.type.value_field, theirs.type.value_field)
    if not pa.types.is_struct(ours.type):
        return bool(ours.type == theirs.type)
    return pa.types.is_struct(theirs.type) and all(_has(theirs.type, field) for field in ours.type)


def _has(struct: pa.StructType, field: pa.Field) -> bool:
    """A field may be missing in an older file if it can be null."""
    at = struct.get_field_index(field.name)
    return field.nullable if at < 0 else _fits(field, struct.field(at))


def _batch(found: pa.RecordBatch) -> Batch:
    """ValueError if it is valid for Arrow but no flush: not one row, or null where something must be."""
    if found.num_rows != 1:
        raise ValueError(f"it has {found.num_rows} rows")
    tables = {name: _rows(found, name) for name, _ in _required()}
    for name, fields in _required():
        table = tables[name]
        if table is not None:
            _require_no_nulls(table, fields)
    require_sense(tables)
    blobs = found.column("blobs")[0].as_py() if "blobs" in found.schema.names else 0
    time = found.column("time")[0].as_py() if "time" in found.schema.names else 0
    return Batch({name: table for name, table in tables.items() if table is not None}, blobs or 0, time or 0)


@cache
def _required() -> list[tuple[str, list[str]]]:
    """The tables of a flush, each with those of its fields that are never null."""
    tables = [field for field in schema() if pa.types.is_list(field.type)]
    return [(table.name, [f.name for f in table.type.value_type if not f.nullable]) for table in tables]


def _rows(found: pa.RecordBatch, name: str) -> pa.StructArray | None:
    """The structs of a table; None if there are none."""
    if found.schema.get_field_index(name) < 0:
        return None
    rows = found.column(name)[0].values
    return rows if rows is not None and len(rows) else None


def _require_no_nulls(table: pa.StructArray, fields: list[str]) -> None:
    columns = [table, *(table.field(name) for name in fields)]
    for column in columns:
        if column.null_count:
            raise ValueError("something is missing in it")
        if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):  # the parts of values
            parts = column.flatten()
            _require_no_nulls(parts, ["offset", "length"])

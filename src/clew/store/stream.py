"""RecordStream reads the complete batches of a records.arrow, whatever else is in it, also while it grows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from clew.errors import FormatError
from clew.store.format import FORMAT, schema
from clew.store.framing import End, Frame, Gap, frames, header_is_whole, header_length
from clew.store.row_checks import is_compressed, is_plain, require_own_bytes, require_valid_rows
from clew.store.run_files import read_range, size_of

if TYPE_CHECKING:
    from pathlib import Path

_FORMAT_KEY: Final = b"clew.format"


class Batch(NamedTuple):
    """One flush: the rows of each non-empty table, the length of the blob file then, and the time in ns."""

    tables: dict[str, pa.StructArray]
    blob_length: int
    time: int


class RecordStream:
    """Continues to read where it stopped. `damage` lists permanent damage; `tail` is the problem at the end, if any."""

    def __init__(self, path: Path) -> None:
        self.damage: list[str] = []
        self.tail = ""  # an active writer may still complete the end
        self.closed = False  # the writer has closed the stream
        self._path = path
        self._position = 0  # everything before is read
        self._size = 0
        self._signature: tuple[int, int] | None = None
        self._foreign = False  # complete, but not written by clew
        self._schema: pa.Schema | None = None  # None until the header is read

    def read_new(self) -> list[Batch]:
        """The batches that were completed since the last call."""
        try:
            if not self._has_changed():
                return []
            data = read_range(self._path, self._position, self._size)
        except OSError as error:
            self.tail = f"{self._path.name} cannot be read: {error}"
            return []
        return self._read_batches(data)

    def _has_changed(self) -> bool:
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

    def _read_batches(self, data: pa.Buffer) -> list[Batch]:
        self.tail = ""
        view = memoryview(data).cast("B")
        base = self._position
        if self._schema is None and not self._read_header(view):
            return []
        if self._foreign:
            return []
        batches: list[Batch] = []
        gap: Gap | None = None
        for item in frames(view[self._position - base :], self._position):
            if isinstance(item, Gap):
                gap = item  # damage only if something complete follows: else the writer may be in the middle of it
                continue
            if gap is not None or self.closed:
                self._report_gap(gap)
                gap = None
            self._position = item.stop
            self.closed = isinstance(item, End)
            if isinstance(item, Frame):
                batches += self._decode_batch(data.slice(item.start - base, item.stop - item.start), item)
        if gap is not None:
            self._report_tail(view[gap.start - base :], gap)
        return batches

    def _read_header(self, view: memoryview) -> bool:
        """Take the schema from the header, or from the format if it is damaged; False if nothing can be read yet."""
        length = header_length(view)
        if length is None or length > len(view) or not header_is_whole(bytes(view[:length])):
            return self._do_without_header(view)
        try:
            file_schema = pa.ipc.read_schema(pa.py_buffer(view[:length]))
        except Exception:  # pyarrow raises many kinds of errors for an invalid schema
            return self._do_without_header(view)
        version = _format_version(file_schema)
        if version > FORMAT:
            raise FormatError(
                "newer-format",
                f"{self._path} has format {version}; this clew reads up to {FORMAT}.",
                "Install a newer clew to read it.",
            )
        self._schema = file_schema
        self._position = length
        self._foreign = not _has_clew_schema(file_schema)
        if self._foreign:
            self.damage.append(f"the header of {self._path.name} is not one that clew wrote")
        return True

    def _do_without_header(self, view: memoryview) -> bool:
        """A damaged header costs nothing if complete batches follow, because the schema is known."""
        if not any(isinstance(item, Frame) for item in frames(view, 0)):
            self.tail = f"{self._path.name} is empty" if not len(view) else f"{self._path.name} has no whole header"
            return False
        self._schema = schema()
        return True

    def _decode_batch(self, message: pa.Buffer, frame: Frame) -> list[Batch]:
        """The batch of a message with a correct checksum; none if its content is invalid nevertheless."""
        try:
            arrow_message = pa.ipc.read_message(message)
            if is_compressed(memoryview(arrow_message.metadata)):
                raise ValueError("it is compressed")
            record_batch = pa.ipc.read_record_batch(arrow_message, self._schema)
            record_batch.validate(full=True)
            require_own_bytes(record_batch, len(message))
            return [_make_batch(record_batch)]
        except Exception as error:  # pyarrow raises many kinds of errors for an invalid message
            position = f"{frame.start:,} of {self._path.name}"
            self.damage.append(f"the batch at byte {position} makes no sense: {error!s:.200}")
            return []

    def _report_gap(self, gap: Gap | None) -> None:
        name = self._path.name
        if gap is None:
            self.damage.append(f"{name} continues after its end")
        elif gap.start == 0:
            self.damage.append(f"the first {gap.stop:,} bytes of {name}, with its header, are damaged")
        else:
            self.damage.append(f"bytes {gap.start:,} to {gap.stop:,} of {name} are damaged; what they held is lost")

    def _report_tail(self, rest: memoryview, gap: Gap) -> None:
        name, length = self._path.name, len(rest)
        if self.closed:
            self.tail = f"{length:,} bytes follow the end of {name}; they are not records"
        elif not np.frombuffer(rest, np.uint8).any():
            self.tail = f"{name} ends with {length:,} zero bytes, where records may have been"
        else:
            self.tail = f"the last {length:,} bytes of {name}, from byte {gap.start:,}, are not a whole batch"


def _format_version(file_schema: pa.Schema) -> int:
    try:
        return int((file_schema.metadata or {})[_FORMAT_KEY])
    except (KeyError, ValueError, OverflowError):
        return 0


def _has_clew_schema(file_schema: pa.Schema) -> bool:
    """True if every column of the format that exists has the format's type, and every other a plain type."""
    if _format_version(file_schema) < 1 or not all(is_plain(field.type) for field in file_schema):
        return False
    return all(
        _field_fits(expected, file_schema.field(expected.name))
        for expected in schema()
        if file_schema.get_field_index(expected.name) >= 0
    )


def _field_fits(expected: pa.Field, file_field: pa.Field) -> bool:
    if pa.types.is_list(expected.type):
        return pa.types.is_list(file_field.type) and _field_fits(expected.type.value_field, file_field.type.value_field)
    if not pa.types.is_struct(expected.type):
        return bool(expected.type == file_field.type)
    return pa.types.is_struct(file_field.type) and all(_struct_has(file_field.type, field) for field in expected.type)


def _struct_has(struct: pa.StructType, field: pa.Field) -> bool:
    """Whether a struct has a field with a fitting type; an older file may lack a nullable one."""
    at = struct.get_field_index(field.name)
    return field.nullable if at < 0 else _field_fits(field, struct.field(at))


def _make_batch(record_batch: pa.RecordBatch) -> Batch:
    """ValueError if the record batch is not a flush: if it has not one row, or nulls where the format has none."""
    if record_batch.num_rows != 1:
        raise ValueError(f"it has {record_batch.num_rows} rows")
    tables = {name: _table_rows(record_batch, name) for name, _ in _required_fields()}
    for name, fields in _required_fields():
        table = tables[name]
        if table is not None:
            _require_no_nulls(table, fields)
    require_valid_rows(tables)
    blobs = record_batch.column("blobs")[0].as_py() if "blobs" in record_batch.schema.names else 0
    time = record_batch.column("time")[0].as_py() if "time" in record_batch.schema.names else 0
    return Batch({name: table for name, table in tables.items() if table is not None}, blobs or 0, time or 0)


@cache
def _required_fields() -> list[tuple[str, list[str]]]:
    """The tables of a flush, each with its fields that are never null."""
    tables = [field for field in schema() if pa.types.is_list(field.type)]
    return [(table.name, [f.name for f in table.type.value_type if not f.nullable]) for table in tables]


def _table_rows(record_batch: pa.RecordBatch, name: str) -> pa.StructArray | None:
    """The structs of a table; None if there are none."""
    if record_batch.schema.get_field_index(name) < 0:
        return None
    rows = record_batch.column(name)[0].values
    return rows if rows is not None and len(rows) else None


def _require_no_nulls(table: pa.StructArray, fields: list[str]) -> None:
    columns = [table, *(table.field(name) for name in fields)]
    for column in columns:
        if column.null_count:
            raise ValueError("it lacks required cells")
        if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):  # the parts of values
            parts = column.flatten()
            _require_no_nulls(parts, ["offset", "length"])

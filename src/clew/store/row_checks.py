"""Checks the rows of a flush: a checksum shows that a file is as it was written, but not by whom.

A batch with rows that break these rules (`_RANGES`) counts as damaged: times lie between 1970 and 2116,
ids, lines and lengths are counts, a change has an existing kind, and the spans of a batch fit its changes.
A batch never takes more memory than its message has bytes: it is not compressed, and its columns do not
share bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from clew.records import Kind
from clew.store.arrow_arrays import valid_mask, view

if TYPE_CHECKING:
    from collections.abc import Mapping

_LATEST: Final = (1 << 62) + 1  # ns since 1970: in 2116
_LARGEST_ID: Final = 1 << 53  # as a float holds it
_ANY_COUNT: Final = (0, 1 << 31)
_TIME: Final = (0, _LATEST)
_ID: Final = (-1, _LARGEST_ID)  # of a value; -1 means none
_CALL: Final = (-1, 1 << 63)
_SIZE: Final = (0, 1 << 63)
#: table → field → the smallest number, and the first that is too large
_RANGES: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "functions": {"id": _ANY_COUNT, "line": _ANY_COUNT},
    "sites": {"id": _ANY_COUNT, "line": _ANY_COUNT},
    "starts": {"call": _CALL, "parent": _CALL, "time": _TIME, "args": _ID, "line": (-1, 1 << 31)},
    "ends": {"call": _CALL, "time": _TIME, "result": _ID},
    "spans": {"call": _CALL, "start": _TIME, "stop": _TIME},
    "changes": {"kind": (0, max(Kind) + 1)},
    "values": {"id": (0, _LARGEST_ID), "length": _SIZE, "size": _SIZE, "nan": _SIZE, "inf": _SIZE},
    "notes": {"count": _SIZE},
    "origins": {"call": _CALL, "parent": _CALL},
}
_EXTRA_BYTES: Final = 4096

_PLAIN: Final = frozenset(
    type.id
    for type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("ns"), pa.duration("ns")),
        *(pa.decimal128(1), pa.decimal256(1)),
    )
)


def is_plain(type: pa.DataType) -> bool:
    """Whether values of this type lie in buffers in order: no encodings, unions, views or extensions."""
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return is_plain(type.value_type)
    if pa.types.is_struct(type):
        return type.num_fields > 0 and all(is_plain(field.type) for field in type)
    return type.id in _PLAIN


def is_compressed(metadata: Any) -> bool:
    """Whether the body of a record batch is compressed, or this is unclear: a few bytes could require any amount of
    memory. The flatbuffer is read by hand."""
    try:
        message = _root_table(metadata, 0)
        header = _field_offset(metadata, message, 2)
        if header is None:
            return True
        (offset,) = struct.unpack_from("<I", metadata, header)
        return _field_offset(metadata, header + offset, 3) is not None  # RecordBatch.compression
    except (struct.error, ValueError):
        return True


def _root_table(data: Any, at: int) -> int:
    (offset,) = struct.unpack_from("<I", data, at)
    return at + int(offset)


def _field_offset(data: Any, table: int, number: int) -> int | None:
    """The offset of a field of a flatbuffer's table; None if the table lacks it."""
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - back
    if vtable < 0:
        raise ValueError("outside the message")
    (size,) = struct.unpack_from("<H", data, vtable)
    slot = 4 + 2 * number
    if size < slot + 2:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + slot)
    return table + int(offset) if offset else None


def require_own_bytes(batch: pa.RecordBatch, size: int) -> None:
    """ValueError if the columns refer to more bytes than `size`, and so share some of them."""
    # not `batch.nbytes`, which crashes before pyarrow 26 on lists without offsets
    referred = sum(buffer.size for column in batch.columns for buffer in column.buffers() if buffer is not None)
    if referred > size + _EXTRA_BYTES:
        raise ValueError(f"its columns refer to {referred:,} bytes, of which there are {size:,}")


def require_valid_rows(tables: Mapping[str, pa.StructArray | None]) -> None:
    """ValueError if the rows of a flush hold something that no writer writes."""
    for name, ranges in _RANGES.items():
        table = tables.get(name)
        if table is not None:
            for field, (low, high) in ranges.items():
                _require_between(table, field, low, high)
    values = tables.get("values")
    if values is not None:
        sides = values.field("shape").flatten()
        if sides.null_count or (len(sides) and view(sides).min() < 0):
            raise ValueError("a shape is not a list of counts")
        _require_between(values.field("parts").flatten(), "length", *_SIZE)
    _require_spans(tables.get("changes"), tables.get("spans"))


def _require_between(table: pa.StructArray, name: str, low: int, high: int) -> None:
    """ValueError for a number out of range. Nulls, and fields that an older file lacks, are allowed."""
    if table.type.get_field_index(name) < 0:
        return
    field = table.field(name)
    column = view(field)[valid_mask(field)] if field.null_count else view(field)
    if len(column) and not (column.min() >= low and column.max() < high):
        raise ValueError(f"{name} is out of range")


def _require_spans(changes: pa.StructArray | None, spans: pa.StructArray | None) -> None:
    """ValueError if the spans do not fit the changes; format 1 has none."""
    if changes is None or changes.type.get_field_index("call") >= 0:
        return
    counts = view(spans.field("changes")) if spans is not None else np.empty(0, np.int64)
    # checked one by one first, because a sum of large counts may overflow to any number
    if len(counts) and (counts.min() < 0 or counts.max() > len(changes)):
        raise ValueError("a span has more changes than there are")
    if counts.sum() != len(changes):
        raise ValueError(f"it has {len(changes)} changes, and spans for {counts.sum()}")

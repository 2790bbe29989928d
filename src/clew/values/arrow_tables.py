"""An Arrow table from bytes that anybody may have made.

The types are plain ones, nothing is compressed, every offset is checked before it is followed, and all columns together
refer to no more bytes than there are, and have no more cells than those can hold: `_CELLS_A_BYTE`, and `_FEW_CELLS`.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any, Final

import pyarrow as pa

_CELLS_A_BYTE: Final = 8  # a truth value is a bit
_FEW_CELLS: Final = 1 << 20  # of columns that hold nothing
_SLACK: Final = 4096
_DTYPE: Final = re.compile(r"(?!.*dateutil)[\w\[\](), :/+.<>|=-]{0,120}", re.ASCII)
_OF_PANDAS: Final = ("pandas.period", "pandas.interval")
_WITH_BODY: Final = ("record batch", "dictionary")

_PLAIN: Final = frozenset(
    type.id
    for type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1)),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("ns"), pa.duration("ns")),
        *(pa.decimal128(1), pa.decimal256(1), pa.month_day_nano_interval()),
    )
)


def read_table(raw: Any) -> pa.Table:
    """The table; ValueError, or an error of pyarrow's, for what makes no sense or could take more than its bytes."""
    buffer = pa.py_buffer(raw)
    for message in pa.ipc.MessageReader.open_stream(buffer):
        if message.type in _WITH_BODY and _is_compressed(memoryview(message.metadata), message.type):
            raise ValueError("a table that is compressed")
    with pa.ipc.open_stream(buffer) as stream:
        _require_plain(stream.schema)
        table = stream.read_all()
    table.validate(full=True)
    if sum(_referred_bytes(chunk) for column in table.columns for chunk in column.chunks) > buffer.size + _SLACK:
        raise ValueError("columns that share their bytes")
    cells = sum(_cells(chunk) for column in table.columns for chunk in column.chunks)
    if cells > _CELLS_A_BYTE * buffer.size + _FEW_CELLS:
        raise ValueError(f"a table of {cells:,} cells in {buffer.size:,} bytes")
    _require_sensible_words(table)
    return table


def _referred_bytes(array: pa.Array) -> int:
    """Not `nbytes`, which crashes before pyarrow 26 on lists without offsets."""
    size: int = sum(buffer.size for buffer in array.buffers() if buffer is not None)
    return size + (_referred_bytes(array.dictionary) if isinstance(array, pa.DictionaryArray) else 0)


def require_dtype(text: Any) -> str:
    """The name of a type of columns, or of a zone; ValueError if it makes no sense to pandas.

    `dateutil/<path>` would: it is a zone, and the path any file's.
    """
    if type(text) is not str or not _DTYPE.fullmatch(text):
        raise ValueError("a type of columns that pandas does not have")
    return text


def _require_plain(schema: pa.Schema) -> None:
    for field in schema:
        type = field.type
        if pa.types.is_dictionary(type):  # a category; inside something else each cell would be written out
            type = type.value_type
        if not _is_plain(type):
            raise ValueError(f"a column of {type!s:.40}")


def _is_plain(type: pa.DataType) -> bool:
    """No encodings, unions or views, and no extensions but those of pandas: cells lie one after the other."""
    if isinstance(type, pa.BaseExtensionType):
        return type.extension_name in _OF_PANDAS and _is_plain(type.storage_type)
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        return _is_plain(type.value_type)
    if pa.types.is_struct(type):
        return all(_is_plain(field.type) for field in type)
    if pa.types.is_map(type):
        return _is_plain(type.key_type) and _is_plain(type.item_type)
    if pa.types.is_timestamp(type) and type.tz is not None:
        require_dtype(type.tz)
    return type.id in _PLAIN


def _cells(array: pa.Array) -> int:
    """How many cells there are, those inside cells among them."""
    type, count = array.type, len(array)
    if isinstance(array, pa.ExtensionArray):
        return _cells(array.storage)
    if pa.types.is_dictionary(type):
        return count + _cells(array.dictionary)
    if pa.types.is_struct(type):
        return count + sum(_cells(array.field(i)) for i in range(type.num_fields))
    if pa.types.is_map(type):
        return count + _cells(array.keys) + _cells(array.items)
    if pa.types.is_nested(type):
        return count + _cells(array.values)
    return count


def _require_sensible_words(table: pa.Table) -> None:
    """What pandas wrote beside the columns for itself: it builds types and indexes by it."""
    words = json.loads((table.schema.metadata or {}).get(b"pandas", b"null"))
    if words is None:
        return
    if len(words["column_indexes"]) > 1:
        raise ValueError("names of columns that are no texts")
    for index in words["index_columns"]:
        if type(index) is dict:
            length = len(range(index["start"], index["stop"], index["step"]))
            if length > (table.num_rows if table.num_columns else _FEW_CELLS):
                raise ValueError(f"an index of {length:,} rows")
    categories = {field.name for field in table.schema if pa.types.is_dictionary(field.type)}
    for column in words["columns"]:
        numpy_type = require_dtype(column["numpy_type"])
        is_category = {column.get("name"), column.get("field_name")} & categories
        if is_category and not re.fullmatch(r"int(8|16|32|64)", numpy_type):
            raise ValueError("a category that is none")  # each of its cells would be written out


def _is_compressed(metadata: Any, kind: str) -> bool:
    """Whether a message's body is compressed, read from its flatbuffer by hand: a few bytes could ask for any amount
    of memory. True also of what cannot be told."""
    try:
        (root,) = struct.unpack_from("<I", metadata, 0)
        header = _follow(metadata, root, 2)
        batch = _follow(metadata, header, 1) if kind == "dictionary" else header
        return _field(metadata, batch, 3) is not None  # RecordBatch.compression
    except (struct.error, ValueError):
        return True


def _follow(data: Any, table: int, number: int) -> int:
    at = _field(data, table, number)
    if at is None:
        raise ValueError("a message without a content")
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: Any, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table stands; None if it is not there."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if vtable < 0:
        raise ValueError("outside the message")
    slot = 4 + 2 * number
    if struct.unpack_from("<H", data, vtable)[0] < slot + 2:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + slot)
    return table + int(offset) if offset else None

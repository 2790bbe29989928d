"""Converts Python lists and numpy memory to Arrow arrays, and back.

`pa.array` and `to_numpy` are slower, and import pandas if it is installed, which the program may not want.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

_DTYPES: Final[dict[int, np.dtype[Any]]] = {  # by the type's number: an Arrow type itself is slow to hash
    pa.uint8().id: np.dtype(np.uint8),
    pa.int32().id: np.dtype(np.int32),
    pa.int64().id: np.dtype(np.int64),
    pa.uint64().id: np.dtype(np.uint64),
    pa.float64().id: np.dtype(np.float64),
}
_TEXTS: Final = (pa.string(), pa.large_string())
_LONG: Final = (pa.large_string(), pa.large_binary())
_LARGEST_OFFSET: Final = 2**31 - 1  # of 32-bit offsets


def make_array(items: Sequence[Any] | pa.Array, type: pa.DataType) -> pa.Array:
    """`items`, some of which may be None, as an array of `type`; an Arrow array is returned as it is."""
    if isinstance(items, pa.Array):
        return items
    missing = items.count(None)
    if missing == len(items):
        return pa.nulls(len(items), type)
    valid = _validity_bitmap(items) if missing else None
    if type.id in _DTYPES:
        filled = [0 if item is None else item for item in items] if missing else items
        return numbers(np.array(filled, _DTYPES[type.id]), type, valid)
    if pa.types.is_list(type):
        return _make_nested_lists(items, type, valid)
    existing = [item for item in items if item is not None] if missing else items
    data, lengths = _encode_texts(existing) if type in _TEXTS else (b"".join(existing), list(map(len, existing)))
    return _make_strings(data, _insert_empty(lengths, items) if missing else lengths, type, valid)


def numbers(array: Any, type: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
    """A numpy array as an Arrow array of `type`, without a copy if it already has that type."""
    array = np.ascontiguousarray(array, _DTYPES[type.id])
    return pa.Array.from_buffers(type, len(array), [valid, pa.py_buffer(array)])


def view(array: pa.Array) -> Any:
    """The numbers of an Arrow array, in the same memory, and arbitrary where it is null. Do not write to it."""
    dtype = _DTYPES[array.type.id]
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def valid_mask(array: pa.Array) -> Any:
    """By item of an Arrow array: whether it is not null."""
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.ones(len(array), bool)
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(bool)


def make_lists(
    lengths: Sequence[int], content: pa.Array, type: pa.DataType, valid: pa.Buffer | None = None
) -> pa.Array:
    """Lists of these lengths, taken one after the other from `content`."""
    buffers = [valid, pa.py_buffer(_make_offsets(lengths, np.int32))]
    return pa.Array.from_buffers(type, len(lengths), buffers, children=[content])


def repeat_text(item: str | bytes, count: int, type: pa.DataType) -> pa.Array:
    """An array with the same text `count` times."""
    data = item.encode() if isinstance(item, str) else item
    return _make_strings(data * count, [len(data)] * count, type, None)


def _make_nested_lists(items: Sequence[Any], type: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    flat = [number for item in items if item is not None for number in item]
    return make_lists(
        [0 if item is None else len(item) for item in items], make_array(flat, type.value_type), type, valid
    )


def _make_strings(data: bytes, lengths: Sequence[int], type: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    offsets = _make_offsets(lengths, np.int64 if type in _LONG else np.int32)
    return pa.Array.from_buffers(type, len(lengths), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def _encode_texts(texts: Sequence[str]) -> tuple[bytes, list[int]]:
    """The texts in UTF-8, and the length of each. A lone surrogate, as in a file name that is not UTF-8, becomes the
    escape `\\udc80`, which has the same meaning inside JSON."""
    joined = "".join(texts)
    if joined.isascii():
        return joined.encode("ascii"), list(map(len, texts))
    encoded = [text.encode("utf-8", "backslashreplace") for text in texts]
    return b"".join(encoded), list(map(len, encoded))


def _insert_empty(lengths: list[int], items: Sequence[Any]) -> list[int]:
    """The lengths of all items, given those of the items that are not None."""
    remaining = iter(lengths)
    return [0 if item is None else next(remaining) for item in items]


def _validity_bitmap(items: Sequence[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits([item is not None for item in items], bitorder="little"))


def _make_offsets(lengths: Sequence[int], dtype: Any) -> Any:
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if dtype is np.int32 and ends[-1] > _LARGEST_OFFSET:
        raise OverflowError("more than 2 GiB of names or other short texts in one flush")
    return ends.astype(dtype)

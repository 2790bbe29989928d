"""Arrow arrays straight from Python lists and numpy memory.

And back. Not with `pa.array` and `to_numpy`: they import pandas, where there is one, into a program that may not want
it, and are slower.
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
_MOST: Final = 2**31 - 1  # what 32-bit offsets reach


def make(items: Sequence[Any] | pa.Array, type: pa.DataType) -> pa.Array:
    """`items`, some of which may be None, as an array of `type`; what is an Arrow array already is given back."""
    if isinstance(items, pa.Array):
        return items
    missing = items.count(None)
    if missing == len(items):
        return pa.nulls(len(items), type)
    valid = _bitmap(items) if missing else None
    if type.id in _DTYPES:
        given = [0 if item is None else item for item in items] if missing else items
        return numbers(np.array(given, _DTYPES[type.id]), type, valid)
    if pa.types.is_list(type):
        return _lists(items, type, valid)
    there = [item for item in items if item is not None] if missing else items
    data, lengths = _encoded(there) if type in _TEXTS else (b"".join(there), list(map(len, there)))
    return _strings(data, _spread(lengths, items) if missing else lengths, type, valid)


def numbers(array: Any, type: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
    """A numpy array as an Arrow array of `type`, without a copy where it has that type already."""
    array = np.ascontiguousarray(array, _DTYPES[type.id])
    return pa.Array.from_buffers(type, len(array), [valid, pa.py_buffer(array)])


def view(array: pa.Array) -> Any:
    """The numbers of an Arrow array, in the same memory; anything at all where it is null. Not to be written to."""
    dtype = _DTYPES[array.type.id]
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def present(array: pa.Array) -> Any:
    """True for each item of an Arrow array that is not null."""
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.ones(len(array), bool)
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(bool)


def lists(lengths: Sequence[int], content: pa.Array, type: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
    """Lists of these lengths, one after the other out of `content`."""
    buffers = [valid, pa.py_buffer(_offsets(lengths, np.int32))]
    return pa.Array.from_buffers(type, len(lengths), buffers, children=[content])


def same(item: str | bytes, count: int, type: pa.DataType) -> pa.Array:
    """`count` times the same text."""
    data = item.encode() if isinstance(item, str) else item
    return _strings(data * count, [len(data)] * count, type, None)


def _lists(items: Sequence[Any], type: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    flat = [number for item in items if item is not None for number in item]
    return lists([0 if item is None else len(item) for item in items], make(flat, type.value_type), type, valid)


def _strings(data: bytes, lengths: Sequence[int], type: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    offsets = _offsets(lengths, np.int64 if type in _LONG else np.int32)
    return pa.Array.from_buffers(type, len(lengths), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def _encoded(texts: Sequence[str]) -> tuple[bytes, list[int]]:
    """UTF-8, and the length of each. A lone surrogate, as in a file name that is not UTF-8, is written as `\\udc80`,
    which inside JSON is exactly what it is."""
    joined = "".join(texts)
    if joined.isascii():
        return joined.encode("ascii"), list(map(len, texts))
    each = [text.encode("utf-8", "backslashreplace") for text in texts]
    return b"".join(each), list(map(len, each))


def _spread(lengths: list[int], items: Sequence[Any]) -> list[int]:
    """The lengths of `items`, from those of the items that are there."""
    there = iter(lengths)
    return [0 if item is None else next(there) for item in items]


def _bitmap(items: Sequence[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits([item is not None for item in items], bitorder="little"))


def _offsets(lengths: Sequence[int], dtype: Any) -> Any:
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if dtype is np.int32 and ends[-1] > _MOST:
        raise OverflowError("more than 2 GiB of names or other short texts in one flush")
    return ends.astype(dtype)

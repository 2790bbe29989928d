"""NumPy arrays and scalars. Loaded when the user's program has loaded NumPy, or when one is read back.

An array is judged by the xxh3 hash of its bytes: one read-only pass, and no second copy stays in memory. Nothing here
holds the array itself, not even weakly, since `ndarray.resize` would notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from operator import is_
from typing import Any, Final

import numpy as np
from xxhash import xxh3_128, xxh3_128_digest

from clew.records import Kept, NotKept, Summary
from clew.values import objects
from clew.values.adapters import SEQUENCE, Handler, Look, Looking, Node, Unwatched
from clew.values.array_stats import can_describe, describe
from clew.values.class_facts import inherits, module_of, type_name
from clew.values.dtypes import (
    check_places,
    checked_shape,
    dtype_text,
    read_dtype,
    read_shape,
    require_characters,
    write_dtype,
)
from clew.values.json_text import plain

_PIECE: Final = 1 << 20  # bytes of a scattered array gathered at a time
_BYTES_AN_OBJECT: Final = 64  # memory that an array of objects may take for each of its items and bytes of its body
_LONG_DOUBLE: Final = np.dtype(np.longdouble)
_HAS_PADDING: Final = _LONG_DOUBLE.itemsize == 16 and np.finfo(np.longdouble).nmant == 63  # 10 bytes mean something


def claim(cls: type) -> Handler | None:
    if inherits(cls, np.ndarray):
        return Handler(None, _array_look(cls), _alone() if cls is np.ndarray else None)
    if inherits(cls, np.generic) and _is_of_numpy(cls):
        return Handler(None, _look_void) if inherits(cls, np.void) else Handler(_scalar_atom(cls), None)
    if inherits(cls, np.dtype):
        return Handler(lambda x: {"$": "numpy.dtype", "is": write_dtype(x)}, None)
    return None


def load() -> None:
    """Load now what the first value would have to wait for."""
    _alone()


def _alone() -> Any:
    from clew.values.lone_arrays import alone

    return alone


def _is_of_numpy(cls: type) -> bool:
    return module_of(cls).partition(".")[0] in ("numpy", "ml_dtypes")


def _array_look(cls: type) -> Look:
    if cls is np.ndarray or cls is np.memmap:
        return look_array
    if cls is np.ma.MaskedArray:
        return _look_masked
    if cls is np.matrix or cls is np.recarray:
        return _look_named_class
    return objects.look_of_class(cls, "value", _base_view, np.ndarray)


# ---- the bytes of an array


def _raw(array: Any) -> memoryview:
    """The bytes of a C-contiguous array, seen without a copy, whatever its dtype."""
    if array.size == 0 or array.itemsize == 0:
        return memoryview(b"")
    return memoryview(array.reshape(-1).view(np.uint8))


def _hash(array: Any) -> bytes:
    """xxh3 of the elements in C order."""
    if _is_padded(array.dtype):
        return _hash_without_padding(array)
    if array.flags.c_contiguous:
        return xxh3_128_digest(_raw(array))
    hasher = xxh3_128()
    for piece in _gathered(array):
        hasher.update(_raw(piece))
    return hasher.digest()


@lru_cache(256)
def _is_padded(dtype: Any) -> bool:
    """True if some bytes of an element mean nothing: those of x86 long doubles, and those between fields."""
    if dtype.subdtype is not None:
        return _is_padded(dtype.subdtype[0])
    if dtype.names is None:
        return bool(_HAS_PADDING and dtype.char in "gG" and dtype.isnative)
    seen: set[int] = set()
    for field, offset, *_ in (dtype.fields[name] for name in dtype.names):
        seen.update(range(offset, offset + field.itemsize))
        if _is_padded(field):
            return True
    return bool(len(seen) < dtype.itemsize)


def _hash_without_padding(array: Any) -> bytes:
    if array.dtype.names is not None:
        return xxh3_128_digest(b"".join(_hash(array[name]) for name in array.dtype.names))
    if array.size == 0:
        return xxh3_128_digest(b"")
    rows = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, 16)
    return xxh3_128_digest(rows[:, :10].tobytes())


def _gathered(array: Any) -> Iterator[Any]:
    """A scattered array in contiguous pieces, in C order."""
    if array.nbytes <= _PIECE:
        yield np.ascontiguousarray(array)
        return
    size = max(1, _PIECE // max(1, array.itemsize))
    flat = array.flat
    for start in range(0, array.size, size):
        yield flat[start : start + size]


def _plain(array: Any) -> Any:
    """The array as a base ndarray, so that no method of a subclass is met."""
    return array if type(array) is np.ndarray else np.ndarray.view(array, np.ndarray)


class ArrayWatch:
    """The test of an array: outline and hash. One of Fortran order is hashed as it lies, without being gathered."""

    __slots__ = ("_content", "_dtype", "_shape", "_type", "_whole")

    def __init__(self, array: Any, base: Any, content: bytes) -> None:
        self._type = type(array)
        self._dtype = base.dtype
        self._shape = base.shape
        self._whole = _is_turned(base)
        self._content = _hash(base.T) if self._whole else content

    def __call__(self, obj: Any) -> bool:
        if type(obj) is not self._type:
            return False
        base = _plain(obj)
        if base.shape != self._shape or (base.dtype is not self._dtype and base.dtype != self._dtype):
            return False
        if self._whole:
            return _is_turned(base) and _hash(base.T) == self._content
        return _hash(base) == self._content


def _is_turned(base: Any) -> bool:
    flags = base.flags
    return bool(flags.f_contiguous and not flags.c_contiguous)


# ---- arrays


def look_array(obj: Any, walk: Looking) -> Node:
    base = _plain(obj)
    dtype = base.dtype
    if dtype.hasobject or dtype.kind == "T":
        return _look_objects(obj, base, walk)
    name = "numpy.ndarray" if base is obj else type_name(type(obj))
    node = Node(name, "numpy", note={"dtype": write_dtype(dtype), "shape": list(base.shape)})
    node.summary = Summary(base.shape, dtype_text(dtype), "cpu", size=base.nbytes)
    node.why = walk.room_for(base.nbytes)
    if node.why:
        node.kept = Kept.SUMMARY
        if walk.light and walk.stats:
            _describe(node, base, walk)
            return node
        if walk.light:
            node.aside = {"why": node.why, "summary": written_summary(node.summary)}
            return node
        node.content = _hash(base)
        _describe(node, base, walk)
    else:
        raw = base.tobytes()
        digest = xxh3_128_digest(raw)
        node.content = _hash(base) if _is_padded(dtype) else digest
        node.aside = {"part": walk.add_part(raw, digest)}
    walk.watch(obj, ArrayWatch(obj, base, node.content))
    return node


def _describe(node: Node, base: Any, walk: Looking) -> None:
    """Statistics now, since nobody will have the bytes later."""
    assert node.summary is not None
    if walk.describing and can_describe(base.dtype):
        with np.errstate(all="ignore"):
            describe(_gathered(base) if not base.flags.c_contiguous else _gathered(base.reshape(-1)), node.summary)
    node.aside = {"why": node.why, "summary": written_summary(node.summary)}


def written_summary(summary: Summary) -> dict[str, Any]:
    """A summary inside a body: JSON, so that an infinity is an atom."""
    names = ("device", "size", "min", "max", "mean", "std", "nan", "inf", "norm", "zeros")
    found = {name: plain(getattr(summary, name)) for name in names if getattr(summary, name) is not None}
    return {"shape": list(summary.shape or ()), "dtype": summary.dtype, **found}


def _look_objects(obj: Any, base: Any, walk: Looking) -> Node:
    """Arrays of Python objects: a container like any other."""
    items = base.reshape(-1).tolist()
    note = {"dtype": write_dtype(base.dtype), "shape": list(base.shape)}
    node = Node(type_name(type(obj)), "numpy.object", SEQUENCE, items, note=note)
    node.summary = Summary(base.shape, dtype_text(base.dtype), "cpu", size=base.nbytes)
    walk.guard(_same_objects, obj, (base.dtype, base.shape, items))
    return node


def _same_objects(obj: Any, kept: tuple[Any, tuple[int, ...], list[Any]]) -> bool:
    base = _plain(obj)
    dtype, shape, items = kept
    return base.dtype is dtype and base.shape == shape and all(map(is_, base.reshape(-1).tolist(), items))


def _look_named_class(obj: Any, walk: Looking) -> Node:
    """`matrix` and `recarray`: an array and the name of NumPy's own class for it."""
    node = look_array(obj, walk)
    node.note = {**(node.note or {}), "class": type(obj).__name__}
    return node


def _look_masked(obj: Any, walk: Looking) -> Node:
    mask = object.__getattribute__(obj, "_mask")
    data = np.ndarray.view(obj, np.ndarray)
    hidden = None if mask is np.ma.nomask else _plain(mask)
    fill = object.__getattribute__(obj, "_fill_value")
    node = Node("numpy.ma.MaskedArray", "numpy.masked", SEQUENCE, [data, hidden, fill])
    node.summary = Summary(data.shape, dtype_text(data.dtype), "cpu", size=data.nbytes)
    walk.guard(_same_masked, obj, (mask, fill, _outline(data)))
    return node


def _same_masked(obj: Any, kept: tuple[Any, Any, Any]) -> bool:
    mask, fill, outline = kept
    return (
        object.__getattribute__(obj, "_mask") is mask
        and object.__getattribute__(obj, "_fill_value") is fill
        and _outline(np.ndarray.view(obj, np.ndarray)) == outline
    )


def _outline(base: Any) -> tuple[Any, ...]:
    return base.shape, base.strides, base.dtype, base.ctypes.data


def _base_view(obj: Any, walk: Looking) -> Any:
    """The content of a user's subclass: the view shares its memory, so the guard of the view sees its changes."""
    view = np.ndarray.view(obj, np.ndarray)
    walk.guard(_same_outline, obj, _outline(view))
    return view


def _same_outline(obj: Any, outline: tuple[Any, ...]) -> bool:
    return _outline(np.ndarray.view(obj, np.ndarray)) == outline


def _look_void(obj: Any, walk: Looking) -> Node:
    """A structured scalar, which can be changed in place: an array of no dimensions."""
    node = look_array(np.asarray(obj), Unwatched(walk))
    node.type, node.note = "numpy.void", {**(node.note or {}), "class": "void"}
    walk.watch(obj, _VoidWatch(obj, node.content))
    return node


class _VoidWatch:
    __slots__ = ("_content", "_dtype")

    def __init__(self, obj: Any, content: bytes) -> None:
        self._dtype = obj.dtype
        self._content = content

    def __call__(self, obj: Any) -> bool:
        return inherits(type(obj), np.void) and obj.dtype == self._dtype and _hash(np.asarray(obj)) == self._content


# ---- scalars


def _scalar_atom(cls: type) -> Any:
    if cls is np.str_:
        return lambda x: {"$": "numpy.str", "is": plain(str.__str__(x))}
    if cls is np.bytes_:
        return lambda x: {"$": "numpy.bytes", "is": plain(bytes.__getitem__(x, slice(None)))}
    if cls is np.longdouble or cls is np.clongdouble:
        return lambda x: {"$": "numpy.scalar", "is": [x.dtype.str, _padded_hex(x)]}
    return lambda x: {"$": "numpy.scalar", "is": [write_dtype(x.dtype), x.tobytes().hex()]}


def _padded_hex(x: Any) -> str:
    raw = x.tobytes()
    if not _HAS_PADDING:
        return raw.hex()  # type: ignore[no-any-return]
    return "".join(raw[i : i + 10].hex() + "00" * 6 for i in range(0, len(raw), 16))


# ---- reading back


def _read_array(tree: dict[str, Any], reader: Any) -> Any:
    if "part" not in tree:
        return not_kept(tree, "numpy.ndarray")
    array = from_bytes(reader.part(tree), read_dtype(tree["dtype"]), tree["shape"])
    kind = tree.get("class")
    if kind == "void":
        return array[()]
    known = {"matrix": np.matrix, "recarray": np.recarray}.get(kind or "")
    return array if known is None else array.view(known)


def from_bytes(raw: Any, dtype: Any, shape: Any) -> Any:
    """An array on the given bytes: not copied if they may be written to (a private memory map), else a copy.

    `dtype` is one that `read_dtype` gave; ValueError if the bytes do not fill the shape exactly.
    """
    size = memoryview(raw).nbytes
    shape = checked_shape(shape, dtype.itemsize, size)
    if not size:
        return np.zeros(shape, dtype)
    array = np.ndarray(shape, dtype, bytearray(raw) if memoryview(raw).readonly else raw)
    require_characters(array)
    return array


_SUMMARY_TEXTS: Final = ("dtype", "device")
_SUMMARY_COUNTS: Final = ("length", "size", "nan", "inf")


def not_kept(tree: dict[str, Any], name: str) -> NotKept:
    """What stands for an array of which only a summary was kept."""
    why, summary = tree.get("why", ""), tree.get("summary", {})
    if type(why) is not str or type(summary) is not dict:
        raise TypeError("the summary of an array is missing")
    return NotKept(name, Kept.SUMMARY, why, read_summary(summary))


def read_summary(given: dict[str, Any]) -> Summary:
    fields: Any = {name: _summary_field(name, found) for name, found in given.items() if name != "shape"}
    return Summary(shape=read_shape(given.get("shape", [])), **fields)


def _summary_field(name: str, given: Any) -> Any:
    """A text, a count or a number (an infinity is an atom); TypeError where another kind of thing stands."""
    if given is None or type(given) is (str if name in _SUMMARY_TEXTS else int):
        return given
    if name in (*_SUMMARY_TEXTS, *_SUMMARY_COUNTS):
        raise TypeError(f"{name} of a summary")
    return float(given["is"]) if type(given) is dict else float(given)


def _read_objects(tree: dict[str, Any], reader: Any) -> Any:
    dtype, shape = read_dtype(tree["dtype"], objects=True), read_shape(tree["shape"])
    count = len(tree["items"])
    if prod(shape) != count or count * dtype.itemsize > _BYTES_AN_OBJECT * (count + len(reader.value.body)):
        raise ValueError(f"{count:,} items do not fill the array")
    check_places(shape if not count else ())
    array = reader.begin(np.empty(shape, dtype))
    flat = array.reshape(-1)
    for index, item in enumerate(tree["items"]):
        flat[index] = reader.read(item)
    return array


def _read_masked(tree: dict[str, Any], reader: Any) -> Any:
    data, mask, fill = (reader.read(x) for x in tree["items"])
    if type(data) is not np.ndarray:  # its bytes were not kept
        return data
    if mask is not None and (type(mask) is not np.ndarray or mask.shape != data.shape):
        raise ValueError("the mask is not that of the array")
    array: Any = np.ma.MaskedArray(data, mask=np.ma.nomask if mask is None else mask)
    if fill is not None:
        array.fill_value = fill[()] if isinstance(fill, np.ndarray) else fill
    return array


def _read_scalar(tree: dict[str, Any], reader: Any) -> Any:
    dtype, raw = tree["is"]
    return from_bytes(bytes.fromhex(raw), read_dtype(dtype), [])[()]


def _read_text(tree: dict[str, Any], reader: Any) -> Any:
    found = reader.read(tree["is"])
    if type(found) is not str:
        raise TypeError("a text of NumPy holds a text")
    return np.str_(found)


def _read_bytes(tree: dict[str, Any], reader: Any) -> Any:
    found = reader.read(tree["is"])
    if type(found) is not bytes:  # of a number NumPy would make so many zeros
        raise TypeError("bytes of NumPy hold bytes")
    return np.bytes_(found)


READERS: Final[dict[str, Any]] = {
    "numpy": _read_array,
    "numpy.object": _read_objects,
    "numpy.masked": _read_masked,
    "numpy.scalar": _read_scalar,
    "numpy.str": _read_text,
    "numpy.bytes": _read_bytes,
    "numpy.dtype": lambda tree, reader: read_dtype(tree["is"], objects=True),
}

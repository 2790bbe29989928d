"""The names of element types, and arrays made from raw bytes. Also of types NumPy does not have: bfloat16, float8.

Bytes and names may come from a file that anybody made. Only the types in `_PLAIN`, and records of them, are laid over
bytes: an array of objects over forged bytes would follow any address. A shape must be exactly what the bytes fill, so
memory is never taken on a file's word alone; without bytes it may have `MOST_WITHOUT_BYTES` places.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

_PLAIN: Final = re.compile(
    r"[<>|=]?(\?|b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32)|[SUV]\d{1,9}|[mM]8(\[\d{0,9}[a-zA-Zμ]{1,7}(/\d{1,9})?\])?"
    r"|bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128))",
    re.ASCII,
)
_OBJECTS: Final = ("|O", "O", "object")
_EXTENSIONS: Final = re.compile(r"bfloat16|u?int[24]|float[4-8]_e\dm\d\w{0,8}", re.ASCII)  # of ml_dtypes
_DIMENSIONS: Final = 64
_LAST_CHARACTER: Final = 0x10FFFF
MOST_WITHOUT_BYTES: Final = 1 << 20

# torch's names of types that NumPy has under another one
_TORCH_NAMES: Final = {"complex64": "<c8", "complex128": "<c16", "bool": "?"}

# bits of exponent and mantissa, bias, and how the type treats its top codes
_FLOAT8: Final = {
    "float8_e4m3fn": (4, 3, 7, "fn"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": (5, 2, 16, "fnuz"),
}


def write_dtype(dtype: Any) -> Any:
    """JSON of any NumPy dtype: its short name, or its fields with their offsets."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": write_dtype(base), "shape": list(shape)}
    if dtype.names is not None:
        fields = [dtype.fields[name] for name in dtype.names]
        return {
            "names": list(dtype.names),
            "formats": [write_dtype(field[0]) for field in fields],
            "offsets": [field[1] for field in fields],
            "itemsize": dtype.itemsize,
            "aligned": dtype.isalignedstruct,
            "record": dtype.type is np.record,
            **_titles(fields),
        }
    if dtype.kind == "T" or (dtype.kind == "V" and dtype.type is not np.void):
        return {"named": dtype.name}
    return dtype.str


def _titles(fields: list[Any]) -> dict[str, Any]:
    """Second names of fields, which hardly anybody gives."""
    titles = [field[2] if len(field) > 2 and type(field[2]) is str else None for field in fields]
    return {"titles": titles} if any(title is not None for title in titles) else {}


def read_dtype(given: Any, *, objects: bool = False) -> Any:
    """The dtype that `write_dtype` wrote; ValueError or TypeError for any but a plain one.

    `objects`: those that hold Python objects as well, for arrays whose elements are then put in one by one.
    """
    if type(given) is str:
        if _PLAIN.fullmatch(given) or (objects and given in _OBJECTS):
            return np.dtype(given)
        raise ValueError(f"{given!r:.40} is not a type of elements that is read back")
    if type(given) is not dict:
        raise TypeError("the type of the elements is missing")
    if "base" in given:
        return np.dtype((read_dtype(given["base"], objects=objects), read_shape(given["shape"])))
    if "named" in given:
        return _named(given["named"], objects)
    layout = {
        "names": given["names"],
        "formats": [read_dtype(x, objects=objects) for x in given["formats"]],
        "offsets": given["offsets"],
        "itemsize": given["itemsize"],
        **({"titles": given["titles"]} if "titles" in given else {}),
    }
    dtype: Any = np.dtype(layout, align=bool(given["aligned"]))  # type: ignore[call-overload]
    return np.dtype((np.record, dtype)) if given["record"] else dtype


def _named(name: Any, objects: bool) -> Any:
    if type(name) is str and _EXTENSIONS.fullmatch(name):
        return np.dtype(getattr(import_module("ml_dtypes"), name))  # has bfloat16 and the float8 types for NumPy
    if objects and type(name) is str and name.startswith("String"):
        return np.dtypes.StringDType()  # its elements hold addresses, as objects do
    raise ValueError(f"{name!r:.40} is not a type of elements that is read back")


def read_shape(given: Any) -> tuple[int, ...]:
    if type(given) is not list or len(given) > _DIMENSIONS or not all(type(n) is int and n >= 0 for n in given):
        raise ValueError("a shape is a list of counts")
    return tuple(given)


def checked_shape(given: Any, itemsize: int, size: int) -> tuple[int, ...]:
    """The shape, if elements of `itemsize` bytes fill it with exactly `size` bytes; ValueError otherwise."""
    shape = read_shape(given)
    if prod(shape) * itemsize != size:
        raise ValueError(f"{size:,} bytes do not fill a shape of {prod(shape):.3g} times {itemsize:,}")
    if not size:
        check_places(shape)
    return shape


def check_places(shape: tuple[int, ...]) -> None:
    """ValueError if a shape without bytes has more places than anybody wants listed: (10**9, 0) has none, and yet."""
    if prod(n for n in shape if n) > MOST_WITHOUT_BYTES:
        raise ValueError(f"a shape of more than {MOST_WITHOUT_BYTES:,} places without bytes")


def require_characters(array: Any) -> None:
    """ValueError if a text in an array holds something that is no character: NumPy would fail wherever it is shown."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            require_characters(array[name])
    elif dtype.kind == "U" and array.size and dtype.itemsize:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if codes.max() > _LAST_CHARACTER:
            raise ValueError("a text that holds no characters")


class ArrayBody(NamedTuple):
    """What the body of an array says: which part its bytes are, and what they mean."""

    library: str  # "numpy" or "torch"
    code: str  # the type of its elements as it is written: "<f4", "bfloat16"
    shape: tuple[int, ...]
    part: int


def array_in(body: str) -> ArrayBody | None:
    """The array of numbers, texts or times that a body is; None of any other body, and of one that makes no sense."""
    if not body.startswith('{"$"'):
        return None
    try:
        tree = json.loads(body)
        library, code, part = tree["$"], tree["dtype"], tree["part"]
        shape = read_shape(tree["shape"])
    except (ValueError, KeyError, RecursionError):
        return None
    is_array = library in ("numpy", "torch") and type(code) is str and type(part) is int and part >= 0
    return ArrayBody(library, code, shape, part) if is_array else None


def dtype_text(dtype: Any) -> str:
    """As people write it: "float32", "datetime64[ns]"."""
    if dtype.isbuiltin == 1:
        return _builtin_text(dtype)
    return str(dtype) if dtype.names is None else "structured"


@cache
def _builtin_text(dtype: Any) -> str:
    """Of NumPy's two dozen numbers; others are not remembered, since hashing a dtype may hash what it was made with."""
    return str(dtype)


def numbers_from(raw: Any, given: Any) -> Any | None:
    """A flat array of numbers from bytes and a dtype as NumPy or torch writes it; None where there is no such thing."""
    if type(given) is not str:
        return None
    if given == "bfloat16":
        return None if memoryview(raw).nbytes % 2 else (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    if given in _FLOAT8:
        return _float8_table(given)[np.frombuffer(raw, np.uint8)]
    if given == "float8_e8m0fnu":
        codes = np.frombuffer(raw, np.uint8)
        return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(int) - 127)).astype("f4")
    if given == "complex32":
        return None if memoryview(raw).nbytes % 4 else np.frombuffer(raw, "<f2").astype("<f4").view("<c8")
    try:
        return np.frombuffer(raw, read_dtype(_TORCH_NAMES.get(given, given)))
    except (TypeError, ValueError):
        return None


@cache
def _float8_table(name: str) -> Any:
    """The value of each of the 256 codes."""
    exponent_bits, mantissa_bits, bias, style = _FLOAT8[name]
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    values = np.where(exponent == 0, np.ldexp(mantissa, 1 - bias), np.ldexp(1 + mantissa, exponent - bias)) * sign
    top = exponent == (1 << exponent_bits) - 1
    if style == "ieee":
        values = np.where(top, np.where(mantissa == 0, np.inf * sign, np.nan), values)
    elif style == "fn":
        values = np.where((codes & 0x7F) == 0x7F, np.nan, values)
    else:
        values = np.where(codes == 0x80, np.nan, values)
    return values.astype(np.float32)

"""The names of element types, and arrays made from raw bytes. Also of types NumPy does not have: bfloat16, float8."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np

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


def read_dtype(given: Any) -> Any:
    if type(given) is str:
        return np.dtype(given)
    if "base" in given:
        return np.dtype((read_dtype(given["base"]), tuple(given["shape"])))
    if "named" in given:
        return np.dtypes.StringDType() if given["named"].startswith("String") else _extension(given["named"])
    layout = {
        "names": given["names"],
        "formats": [read_dtype(x) for x in given["formats"]],
        "offsets": given["offsets"],
        "itemsize": given["itemsize"],
        **({"titles": given["titles"]} if "titles" in given else {}),
    }
    dtype: Any = np.dtype(layout, align=given["aligned"])  # type: ignore[call-overload]
    return np.dtype((np.record, dtype)) if given["record"] else dtype


def _extension(name: str) -> Any:
    return np.dtype(getattr(import_module("ml_dtypes"), name))  # has bfloat16 and the float8 types for NumPy


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
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    if given in _FLOAT8:
        return _float8_table(given)[np.frombuffer(raw, np.uint8)]
    if given == "float8_e8m0fnu":
        codes = np.frombuffer(raw, np.uint8)
        return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(int) - 127)).astype("f4")
    if given == "complex32":
        return np.frombuffer(raw, "<f2").astype("<f4").view("<c8")
    try:
        return np.frombuffer(raw, np.dtype(_TORCH_NAMES.get(given, given)))
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

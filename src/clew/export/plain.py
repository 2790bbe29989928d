"""Values read back, as plain data that JSON can say.

Lossy where JSON is: NaN and infinities become the texts "NaN", "Infinity", "-Infinity"; arrays become nested lists;
tuples and sets lists; what was not kept in full is an object that says so.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from typing import Any

from clew.records import DELETED, NotKept, Object, Summary

_DEEPEST = 150  # json itself recurses
_AS_THEY_ARE = frozenset([int, bool, str, type(None)])


def plain(value: Any, depth: int = 0) -> Any:
    """`value` as lists, dictionaries, numbers, texts, booleans and None."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        return value if math.isfinite(value) else _named(value)
    if depth > _DEEPEST:
        return {"left_out": f"deeper than {_DEEPEST}"}
    if value is DELETED:
        return {"deleted": True}
    if kind in (list, tuple, set, frozenset) or kind.__name__ == "deque":
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return _mapping(value, depth)
    return _other(value, kind, depth)


def _named(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _mapping(value: dict[Any, Any], depth: int) -> Any:
    if all(type(key) is str for key in value):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    return [[plain(key, depth + 1), plain(item, depth + 1)] for key, item in value.items()]


def _other(value: Any, kind: type, depth: int) -> Any:
    if kind is Object:
        return {"type": value.type, "attributes": _mapping(value.attributes, depth)}
    if kind is NotKept:
        return _not_kept(value, depth)
    if kind in (bytes, bytearray):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if kind is complex:
        return {"real": plain(value.real), "imag": plain(value.imag)}
    return _array(value, depth)


def _array(value: Any, depth: int) -> Any:
    from clew.history.series import as_array

    array = as_array(value)
    if array is None:
        return str(value)
    if array.ndim == 0:
        return plain(array.item(), depth + 1)
    return {"dtype": str(value.dtype), "shape": list(array.shape), "values": plain(array.tolist(), depth + 1)}


def _not_kept(value: NotKept, depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {"not_kept": value.type, "why": value.why, "summary": summary_dict(value.summary)}
    if value.part is not None:
        out["part"] = plain(value.part, depth + 1)
    return out


def summary_dict(summary: Summary) -> dict[str, Any]:
    """What is known, without what is not."""
    told = dataclasses.asdict(summary)
    return {key: plain(list(item) if key == "shape" else item) for key, item in told.items() if item is not None}

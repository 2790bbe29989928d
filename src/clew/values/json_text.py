"""JSON text of exact built-in scalars, at the speed of the C encoder. The only place that writes JSON here.

What JSON cannot say exactly becomes an object with the key "$" (an *atom*): `{"$": "float", "is": "nan"}`.
The text serves two ends, the body people read and the bytes that are hashed, so it must say type and value exactly:
`1`, `1.0`, `true` and `"1"` differ by themselves; all NaNs are one.
"""

from __future__ import annotations

import json
import json.encoder
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from itertools import repeat
from math import isfinite
from operator import is_
from typing import Any, Final

from xxhash import xxh3_128_hexdigest

INLINE_BYTES: Final = 1024  # bytes up to here stand in the body, longer ones become a part
_PLAIN_INT_BITS: Final = 2000  # fewer digits than the lowest limit Python lets users set for int <-> str (640)

SCALARS: Final[frozenset[type]] = frozenset({int, float, bool, type(None), str, bytes, complex})

# Types are looked up by id, because hashing a type runs `__hash__` of a user's metaclass.
_JSON_IDS: Final = frozenset(map(id, (int, float, bool, type(None), str)))
SCALAR_IDS: Final = frozenset(map(id, SCALARS))
_INT_ID: Final = id(int)
_STR_ID: Final = id(str)
_FEW: Final = 16
_ONLY_STR: Final = frozenset((_STR_ID,))


def _make_dumps() -> Callable[[Any], str]:
    """The C encoder called directly: `JSONEncoder.encode` builds a new one every time, dearer than the work."""
    make = getattr(json.encoder, "c_make_encoder", None)
    basestring = getattr(json.encoder, "c_encode_basestring", None)
    if make is None or basestring is None:  # an interpreter without the C accelerator
        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
    encoder: Any = make(None, None, basestring, None, ":", ",", False, False, False)
    return lambda tree: "".join(encoder(tree, 0))


dumps: Final = _make_dumps()


def types_in(items: Sequence[object]) -> frozenset[int] | set[int]:
    """The ids of the types of `items`; quick when there is only one, as there mostly is."""
    if len(items) < _FEW:
        return {*map(id, map(type, items))}
    first = type(items[0])
    if all(map(is_, map(type, items), repeat(first))):
        return frozenset((id(first),))
    return set(map(id, map(type, items)))


def all_json(types: frozenset[int] | set[int]) -> bool:
    """True if JSON has a word for each of these types (if not for each of their values)."""
    return types <= _JSON_IDS


def only_text(types: frozenset[int] | set[int]) -> bool:
    return types == _ONLY_STR or not types


def has_text(types: frozenset[int] | set[int]) -> bool:
    return _STR_ID in types


def try_text(items: Any, types: frozenset[int] | set[int]) -> str | None:
    """JSON text of a list of JSON scalars, or of a dict of them; None where a value needs an atom."""
    if has_long_int(items.values() if type(items) is dict else items, types):
        return None
    try:
        text = dumps(items)
    except ValueError:  # NaN or infinity
        return None
    return text if text.isascii() or is_encodable(text) else None


def has_long_int(items: Any, types: frozenset[int] | set[int]) -> bool:
    """Integers of thousands of digits: their decimal text takes quadratic time, or is refused by Python."""
    if _INT_ID not in types:
        return False
    if len(types) == 1:
        longest: int = max(max(items).bit_length(), min(items).bit_length())
        return longest > _PLAIN_INT_BITS
    bits = [x.bit_length() for x in items if type(x) is int]  # quicker than `any` for a few items
    return max(bits, default=0) > _PLAIN_INT_BITS


def is_encodable(text: str) -> bool:
    """False with lone surrogates: UTF-8 has no word for them, and two in a row would read back as one character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def all_encodable(texts: Sequence[str]) -> bool:
    return all(map(str.isascii, texts)) or all(map(is_encodable, texts))


def plain(x: Any) -> Any:
    """The JSON form of an exact built-in scalar: itself, or an atom."""
    cls = type(x)
    if cls is str:
        return x if x.isascii() or is_encodable(x) else {"$": "str", "is": _base64(x.encode("utf-8", "surrogatepass"))}
    if cls is float:
        return x if isfinite(x) else {"$": "float", "is": float.__repr__(x)}
    if cls is int:
        return x if x.bit_length() <= _PLAIN_INT_BITS else {"$": "int", "is": hex(x)}
    if cls is bool or x is None:
        return x
    if cls is bytes:
        return {"$": "bytes", "is": _base64(x)}
    return {"$": "complex", "is": [plain(x.real), plain(x.imag)]}


def token_of_scalar(x: Any) -> Any:
    """`plain`, but of long bytes only their hash: enough to tell values apart."""
    if type(x) is bytes and len(x) > INLINE_BYTES:
        return {"$": "bytes", "hash": xxh3_128_hexdigest(x)}
    return plain(x)


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")


def read_atom(tag: str, given: Any) -> Any:
    """The scalar an atom of `plain` stands for. KeyError for a tag that is not one of them."""
    return _READERS[tag](given)


def _read_complex(given: Any) -> complex:
    real, imag = (read_atom(x["$"], x["is"]) if type(x) is dict else x for x in given)
    return complex(real, imag)


def _read_float(given: Any) -> float:
    if type(given) is not str:
        raise TypeError("a float that JSON has no word for is written as text")
    return float(given)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "str": lambda given: b64decode(given).decode("utf-8", "surrogatepass"),
    "float": _read_float,
    "int": lambda given: int(given, 16),  # hexadecimal, which takes linear time whatever its length
    "bytes": b64decode,
    "complex": _read_complex,
}

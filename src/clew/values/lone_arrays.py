"""The usual array, watched by itself: of plain numbers, in one piece. As in lone_tensors.py, the walk is left out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from xxhash import xxh3_128_digest

from clew.records import Kept, Summary, Value
from clew.values.array_outlines import outlined
from clew.values.capture import Capture
from clew.values.digest import head_of
from clew.values.dtypes import dtype_text, write_dtype
from clew.values.json_text import dumps
from clew.values.keep import Keep
from clew.values.numpy import ArrayWatch

_NUMBERS = frozenset("biufcmM?")


def alone(obj: Any, keep: Keep) -> Capture | None:
    """The capture of a plain ndarray; None if it is not of the usual kind."""
    size = obj.nbytes
    dtype = obj.dtype
    if keep.light and size > keep.array_limit and not keep.stats and dtype.kind in _NUMBERS:
        return outlined(obj, keep, (dtype, obj.shape))
    if dtype.kind not in _NUMBERS or dtype.char in "gG" or size > keep.array_limit or keep.mode == "summary":
        return None  # long doubles have bytes that mean nothing
    if not obj.flags.c_contiguous:
        return None
    shape = obj.shape
    head, body, text = _outline(dtype, shape)
    raw = obj.tobytes()
    content = xxh3_128_digest(raw)
    summary = Summary(shape, text, "cpu", None, size)
    value = Value("numpy.ndarray", body, [raw], Kept.FULL, "", summary, xxh3_128_digest(head + content), [content])
    return Capture(value, None, [], ArrayWatch(obj, obj, content))


@lru_cache(256)
def _outline(dtype: Any, shape: tuple[int, ...]) -> tuple[bytes, str, str]:
    """How the digest of such an array begins, its body, and its dtype as people write it."""
    note = {"dtype": write_dtype(dtype), "shape": list(shape)}
    head = head_of("numpy.ndarray", "numpy", note)
    return head, dumps({"$": "numpy", **note, "part": 0}), dtype_text(dtype)

"""The usual tensor, watched by itself: dense, in CPU memory, in one piece. The walk through nodes is left out for it.

Gives the very capture that the walk gives (a test compares them), in a third of the time: a loss is looked at in every
step.
"""

from __future__ import annotations

from ctypes import string_at
from typing import Any

from xxhash import xxh3_128_digest

from clew.records import Kept, Summary, Value
from clew.values.array_outlines import outlined
from clew.values.capture import Capture
from clew.values.keep import Keep
from clew.values.torch import TensorWatch, _dtype_name, _outline, is_heard, torch

_strided = torch.strided


def alone(obj: Any, keep: Keep) -> Capture | None:
    """The capture of a plain tensor; None if it is not of the usual kind."""
    try:
        return _usual(obj, keep)
    except (RuntimeError, NotImplementedError):  # functorch wrappers, storages given away, odd backends
        return None


def _usual(obj: Any, keep: Keep) -> Capture | None:
    if keep.mode == "summary" or is_heard() or not obj.is_cpu or obj.layout is not _strided:
        return None
    if keep.light and obj.nbytes > keep.array_limit and not keep.stats and not obj.is_quantized:
        return outlined(obj, keep, (type(obj), obj.dtype, tuple(obj.shape), obj.requires_grad))
    if obj.is_quantized or not obj.is_contiguous() or obj.is_conj() or obj.is_neg():
        return None
    size = obj.nbytes
    address = obj.data_ptr()
    storage = obj.untyped_storage()
    if not 0 < size <= keep.array_limit or not address:
        return None
    if storage.nbytes() < obj.storage_offset() * obj.element_size() + size:
        return None
    name = "torch.Tensor" if type(obj) is torch.Tensor else f"torch.nn.{type(obj).__name__}"
    shape, dtype = tuple(obj.shape), _dtype_name(obj.dtype)
    _, head, body = _outline(name, dtype, shape, "cpu", obj.requires_grad)
    raw = string_at(address, size)
    content = xxh3_128_digest(raw)
    summary = Summary(shape, dtype, "cpu", None, size)
    value = Value(name, body, [raw], Kept.FULL, "", summary, xxh3_128_digest(head + content), [content])
    return Capture(value, None, [], TensorWatch(obj, content, address, size, raw))

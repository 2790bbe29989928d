"""Tensors that were copied for clew alone: written from where they lie, by the thread that writes.

A copy is made by the program's thread; hashing and writing it are not its business.
"""

from __future__ import annotations

from typing import Any

from xxhash import xxh3_128_digest

from clew.records import Kept, Summary, Value
from clew.values.capture import capture
from clew.values.deferred_writing import Later
from clew.values.keep import Keep
from clew.values.torch import _dtype_name, _outline, torch


class Owned(Later):
    """A contiguous tensor in CPU memory that nobody changes any more, on its way to the store."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @property
    def size(self) -> int:
        return int(self.tensor.nbytes)

    def value(self) -> Value:
        """The written form; its bytes are the tensor's own."""
        tensor = self.tensor
        shape, dtype = tuple(tensor.shape), _dtype_name(tensor.dtype)
        _, head, body = _outline("torch.Tensor", dtype, shape, "cpu", tensor.requires_grad)
        raw = bytes_of(tensor)
        content = xxh3_128_digest(raw)
        summary = Summary(shape, dtype, "cpu", None, tensor.nbytes)
        return Value("torch.Tensor", body, [raw], Kept.FULL, "", summary, xxh3_128_digest(head + content), [content])


class OwnedItems(Later):
    """The same of a container with such tensors in it."""

    __slots__ = ("_items", "_keep")

    def __init__(self, items: Any, keep: Keep) -> None:
        self._items = items
        self._keep = keep

    @property
    def size(self) -> int:
        return _size(self._items)

    def value(self) -> Value:
        return capture(self._items, self._keep).value


def _size(item: Any) -> int:
    if isinstance(item, torch.Tensor):
        return int(item.nbytes)
    items = item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else ()
    return sum(map(_size, items))


def bytes_of(tensor: Any) -> memoryview:
    """The memory of a contiguous tensor; it lives as long as the view."""
    if not tensor.numel():
        return memoryview(b"")
    flat = tensor.reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())

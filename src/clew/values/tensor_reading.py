"""Tensors read back: as torch's own where it is installed, as NumPy arrays where it is not."""

from __future__ import annotations

import re
from typing import Any, Final

from clew.records import Kept, NotKept, Summary
from clew.values.adapters import is_left_out
from clew.values.dtypes import checked_shape, numbers_from, read_shape
from clew.values.numpy import not_kept

_PLAIN: Final = re.compile(
    r"bool|u?int(8|16|32|64)|b?float(16|32|64)|float8_e\dm\d\w{0,8}|complex(32|64|128)", re.ASCII
)


def _library() -> Any:
    """torch, or None where it is not installed: what the adapter found."""
    from clew.values import torch as adapter

    return adapter.torch


def _read_tensor(tree: dict[str, Any], reader: Any) -> Any:
    if "part" not in tree:
        return not_kept(tree, "torch.Tensor")
    raw = reader.part(tree)
    torch = _library()
    return _as_array(raw, tree) if torch is None else _as_tensor(torch, raw, tree)


def _as_tensor(torch: Any, raw: Any, tree: dict[str, Any]) -> Any:
    """A tensor on the given bytes, of a plain type and of exactly the shape they fill; ValueError otherwise."""
    dtype = _dtype_of(torch, tree["dtype"])
    size = memoryview(raw).nbytes
    shape = checked_shape(tree["shape"], dtype.itemsize, size)
    if not size:
        tensor = torch.empty(shape, dtype=dtype)
    else:
        buffer = bytearray(raw) if memoryview(raw).readonly else raw
        tensor = torch.frombuffer(buffer, dtype=dtype).reshape(shape)
    can_have_grad = dtype.is_floating_point or dtype.is_complex
    return tensor.requires_grad_() if tree["requires_grad"] is True and can_have_grad else tensor


def _dtype_of(torch: Any, name: Any) -> Any:
    """One of torch's plain types: quantised ones need more than bytes, and torch fails hard over theirs."""
    found = vars(torch).get(name) if type(name) is str and _PLAIN.fullmatch(name) else None
    if type(found) is not torch.dtype:
        raise ValueError(f"{name!r:.40} is not a type of tensors that is read back")
    return found


def _as_array(raw: Any, tree: dict[str, Any]) -> Any:
    shape, name = read_shape(tree["shape"]), tree["dtype"]
    # where values are only shown, one of a type that NumPy lacks is not shown as another
    numbers = None if is_left_out("torch") and name == "bfloat16" else numbers_from(bytearray(raw), name)
    if numbers is None:
        if type(name) is not str:
            raise TypeError("the type of a tensor is written as text")
        return NotKept("torch.Tensor", Kept.FULL, f"{name} needs torch to be read", Summary(shape, name))
    return numbers.reshape(checked_shape(tree["shape"], numbers.itemsize, numbers.nbytes))


def _read_size(tree: dict[str, Any], reader: Any) -> Any:
    sizes = [reader.read(x) for x in tree["items"]]
    if not all(type(n) is int and n.bit_length() < 64 for n in sizes):
        raise TypeError("a size holds integers of 64 bits")
    torch = _library()
    return tuple(sizes) if torch is None else torch.Size(sizes)


def _read_dtype(tree: dict[str, Any], reader: Any) -> Any:
    name = tree["is"]
    if type(name) is not str:
        raise TypeError("a type of tensors is written as text")
    torch = _library()
    found = name if torch is None else vars(torch).get(name)
    if torch is not None and type(found) is not torch.dtype:
        raise ValueError(f"torch has no type {name!r:.40}")
    return found


def _read_device(tree: dict[str, Any], reader: Any) -> Any:
    name = tree["is"]
    if type(name) is not str:
        raise TypeError("a device is written as text")
    torch = _library()
    return name if torch is None else torch.device(name)


READERS: Final[dict[str, Any]] = {
    "torch": _read_tensor,
    "torch.size": _read_size,
    "torch.dtype": _read_dtype,
    "torch.device": _read_device,
}

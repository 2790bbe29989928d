"""Hot: copies of values as they are at this moment, and whether two copies are the same."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final

import torch

from clew.records import Kept, Summary, Value
from clew.values import SCALAR_IDS, Keep, capture, same_scalar

_compare: Final[Any] = (ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)).memcmp
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_contiguous: Final = torch.contiguous_format
_strided: Final = torch.strided
_Tensor: Final = torch.Tensor
CONTAINERS: Final = (tuple, list, dict)
_CONTAINER_IDS: Final = frozenset(map(id, CONTAINERS))  # by id: a metaclass may have no hash, or an odd one
_FEW: Final = 64  # items of a container

Copy = Any  # a CPU tensor of our own, a scalar, a container of these, or a Value


def same(copy: Copy, value: Any) -> bool:
    """Whether a value is bit for bit what was copied before. False where that cannot be told without a copy."""
    if type(copy) is not _Tensor:
        if id(type(copy)) in _CONTAINER_IDS:
            return _same_items(copy, value)
        return type(value) is not _Tensor and same_scalar(copy, value)
    if not issubclass(type(value), _Tensor) or copy.dtype is not value.dtype or copy.shape != value.shape:
        return False
    if not (value.is_cpu and value.layout is _strided and value.is_contiguous()) or value.is_conj() or value.is_neg():
        return False
    size = copy.nbytes
    return not size or _compare(copy.data_ptr(), value.data_ptr(), size) == 0


def _same_items(copy: Any, value: Any) -> bool:
    if type(copy) is not type(value) or len(copy) != len(value):
        return False
    if type(copy) is dict:
        return list(copy) == list(value) and all(same(copy[key], value[key]) for key in copy)
    return all(map(same, copy, value))


def same_copy(before: Copy, now: Copy) -> bool:
    """The same of what could only be compared once it was copied."""
    if type(now) is _Tensor:
        return same(before, now)
    if type(now) is Value and type(before) is Value:
        return bool(now.digest) and now.digest == before.digest
    return False


class Recent:
    """Copies made in this iteration, by where the original lies. What a module gives, the next one is given: the same
    bytes at the same place, which are compared before a copy is used twice."""

    __slots__ = ("_copies",)

    def __init__(self) -> None:
        self._copies: dict[tuple[int, int, Any], Any] = {}

    def clear(self) -> None:
        self._copies.clear()

    def copy(self, value: Any) -> Any:
        """Of a dense tensor."""
        size = value.nbytes
        if not (size and value.is_cpu and value.is_contiguous()) or value.is_conj() or value.is_neg():
            return _copied(value)
        key = (value.data_ptr(), size, value.dtype)
        known = self._copies.get(key)
        if known is not None and _compare(known.data_ptr(), key[0], size) == 0:
            return known if known.shape == value.shape else known.view(value.shape)
        copy = self._copies[key] = _copied(value)
        return copy


def copied(value: Any, keep: Keep, recent: Recent | None = None) -> Copy:
    """The value as it is now. Of what is neither tensors nor scalars nor a few of them, its written form."""
    kind = type(value)
    if id(kind) in SCALAR_IDS:
        return value
    if issubclass(type(value), _Tensor):
        value = local_part(value)
        if keep.mode == "summary":
            return summarised(value, keep)
        if _is_dense(value):
            if value.nbytes > keep.array_limit:
                return summarised(value, keep)
            return _copied(value) if recent is None else recent.copy(value)
    elif id(kind) in _CONTAINER_IDS and keep.mode != "summary" and _is_simple(value, keep.array_limit):
        return _copied_items(value)
    return capture(value, keep).value


def _is_dense(value: Any) -> bool:
    return value.layout is _strided and not value.is_quantized and not value.is_meta


def _is_simple(value: Any, room: int, depth: int = 3) -> bool:
    """Whether there are only a few plain tensors and scalars in it, which are quickly copied."""
    items = value.values() if type(value) is dict else value
    if len(items) > _FEW or not depth:
        return False
    if type(value) is dict and not all(id(type(key)) in SCALAR_IDS for key in value):
        return False  # to compare keys would run their code
    for item in items:
        kind = type(item)
        if id(kind) in _CONTAINER_IDS:
            if not _is_simple(item, room, depth - 1):
                return False
        elif kind is _Tensor:
            if not _is_dense(item) or item.nbytes > room:
                return False
            room -= item.nbytes
        elif id(kind) not in SCALAR_IDS:
            return False
    return True


def _copied_items(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied_item(item) for key, item in value.items()}
    return type(value)([_copied_item(item) for item in value])


def _copied_item(item: Any) -> Any:
    kind = type(item)
    if kind is _Tensor:
        return _copied(item)
    return _copied_items(item) if id(kind) in _CONTAINER_IDS else item


def _copied(value: Any) -> Any:
    if value.is_inference() or torch.is_inference_mode_enabled():
        with torch.inference_mode(False), torch.no_grad():
            return _as_plain(torch.clone(value.detach(), memory_format=_contiguous))
    if value.is_cpu:
        return _as_plain(value.detach().clone(memory_format=_contiguous))
    return _as_plain(value.detach().to("cpu", memory_format=_contiguous, copy=True))


def _as_plain(copy: Any) -> Any:
    if copy.is_conj() or copy.is_neg():
        copy = copy.resolve_conj().resolve_neg()
    return copy if type(copy) is _Tensor else copy.as_subclass(_Tensor)


def local_part(value: Any) -> Any:
    """Of a tensor that is spread over processes (DTensor), the part that is here."""
    local = getattr(value, "_local_tensor", None)
    return value if local is None or type(value) is _Tensor else local


def is_spread(value: Any) -> bool:
    kind = type(value)
    return kind is not _Tensor and issubclass(kind, _Tensor) and getattr(value, "_local_tensor", None) is not None


def summarised(value: Any, keep: Keep) -> Value:
    """What is known of a tensor without its bytes."""
    from clew.values.tensor_stats import summarise

    summary: Summary = summarise(value)
    why = "keep='summary'" if keep.mode == "summary" else f"over {keep.array_limit >> 20} MiB"
    return Value("torch.Tensor", None, [], Kept.SUMMARY, why, summary, b"")

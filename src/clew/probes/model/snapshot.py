"""Hot: copies of values as they are at this moment, and whether two copies are the same."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final

import torch

from clew.records import Kept, Summary, Value
from clew.values import SCALARS, Keep, capture, same_scalar

_compare: Final[Any] = (ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)).memcmp
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_contiguous: Final = torch.contiguous_format
_strided: Final = torch.strided
_Tensor: Final = torch.Tensor

Copy = Any  # a CPU tensor of our own, a scalar, or a Value


def same(copy: Copy, value: Any) -> bool:
    """Whether a value is bit for bit what was copied before. False where that cannot be told without a copy."""
    if type(copy) is not _Tensor:
        return type(value) is not _Tensor and same_scalar(copy, value)
    if not isinstance(value, _Tensor) or copy.dtype is not value.dtype or copy.shape != value.shape:
        return False
    if (
        not value.is_cpu
        or not value.is_contiguous()
        or value.layout is not _strided
        or value.is_conj()
        or value.is_neg()
    ):
        return False
    size = copy.nbytes
    return not size or _compare(copy.data_ptr(), value.data_ptr(), size) == 0


def copied(value: Any, keep: Keep) -> Copy:
    """The value as it is now. Of what is no plain tensor, its written form."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if isinstance(value, _Tensor):
        value = local_part(value)
        if keep.mode == "summary" or value.nbytes > keep.array_limit:
            return summarised(value, keep)
        if value.layout is _strided and not value.is_quantized and not value.is_meta:
            return _copied(value)
    return capture(value, keep).value


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
    return type(value) is not _Tensor and getattr(value, "_local_tensor", None) is not None


def summarised(value: Any, keep: Keep) -> Value:
    """What is known of a tensor without its bytes."""
    from clew.values.torchstats import summarise

    summary: Summary = summarise(value)
    why = "keep='summary'" if keep.mode == "summary" else f"over {keep.array_limit >> 20} MiB"
    return Value("torch.Tensor", None, [], Kept.SUMMARY, why, summary, b"")


def size_of(copy: Copy) -> int:
    return copy.nbytes if type(copy) is _Tensor else 0

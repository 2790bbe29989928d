"""Counts NaN and Inf and computes statistics of live arrays and tensors, without side effects.

A dense tensor on the CPU is read directly from memory, without operators, so autograd, dispatch modes and profilers
notice nothing. A tensor on another device needs operators and a synchronisation, so it is read only for statistics.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_STATED = "iuf"  # kinds of dtypes with a minimum, a maximum and a mean


def size_of(value: Any, library: str) -> int:
    """The size of an array or tensor in bytes."""
    if library == "numpy":
        return int(value.nbytes)
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        return int(value.numel() * value.element_size())


def numbers(value: Any, library: str, *, stats: bool) -> dict[str, Any]:
    """Facts about the numbers inside, under the field names of `ArrayFacts`."""
    if library == "numpy":
        return _facts_of_array(value, stats)
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        if value.layout is not torch.strided or value.is_quantized or value.is_meta or not value.numel():
            return {}
        if value.is_cpu:
            return _facts_of_cpu_tensor(value, torch, stats)
        return _facts_of_device_tensor(value, torch) if stats else {}


def _facts_of_array(array: Any, stats: bool) -> dict[str, Any]:
    import numpy as np

    kind = array.dtype.kind
    if not array.size or kind not in "fc" + _STATED or (kind in "iu" and not stats):
        return {}
    with np.errstate(all="ignore"):
        if kind == "c":
            return {"nan": int(np.isnan(array).sum()), "inf": int(np.isinf(array).sum())}
        low, high = array.min(), array.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            return _facts_of_nonfinite_array(array, stats)
        if not stats:
            return {"nan": 0, "inf": 0}
        mean = float(array.mean(dtype=np.float64))
        return {"nan": 0, "inf": 0, "low": low.item(), "high": high.item(), "mean": mean}


def _facts_of_nonfinite_array(array: Any, stats: bool) -> dict[str, Any]:
    """Counts of NaN and Inf, and statistics of the finite numbers."""
    import numpy as np

    facts: dict[str, Any] = {"nan": int(np.isnan(array).sum()), "inf": int(np.isinf(array).sum())}
    finite = array[np.isfinite(array)] if stats else array[:0]
    if finite.size:
        facts.update(low=finite.min().item(), high=finite.max().item(), mean=float(finite.mean(dtype=np.float64)))
    return facts


# ---- tensors


def _facts_of_cpu_tensor(value: Any, torch: Any, stats: bool) -> dict[str, Any]:
    import numpy as np

    name = str(value.dtype).removeprefix("torch.")
    if value.is_neg() or value.is_conj() or (name != "bfloat16" and not hasattr(np, name)):
        return {}
    array = array_over_memory(value, np.dtype("uint16" if name == "bfloat16" else name))
    if name == "bfloat16":  # the upper half of a float32
        array = (array.astype(np.uint32) << 16).view(np.float32)
    facts = _facts_of_array(array, stats)
    if not value.dim():
        from clew.text.brief import brief

        facts["item"] = brief(array.item(), 24)
    return facts


def array_over_memory(value: Any, dtype: Any) -> Any:
    """An array over the tensor's own memory; fails if the storage was freed, as FSDP does."""
    import numpy as np

    shape, strides, width = tuple(value.shape), value.stride(), dtype.itemsize
    size = width * (1 + sum((count - 1) * stride for count, stride in zip(shape, strides, strict=True)))
    address = value.data_ptr()
    if not address or value.untyped_storage().nbytes() < value.storage_offset() * width + size:
        raise RuntimeError("the storage is smaller than the tensor")
    memory = (ctypes.c_char * size).from_address(address)
    return np.ndarray(shape, dtype, memory, 0, [stride * width for stride in strides])


def _facts_of_device_tensor(value: Any, torch: Any) -> dict[str, Any]:
    if value.is_cuda and torch.cuda.is_current_stream_capturing():
        return {}  # reading is not allowed during graph capture
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        plain = value.detach()
        if not plain.is_floating_point():
            return {}
        finite = plain.isfinite()
        facts: dict[str, Any] = {"nan": int(plain.isnan().sum()), "inf": int(plain.isinf().sum())}
        part = plain[finite]
        if part.numel():
            facts.update(low=float(part.min()), high=float(part.max()), mean=float(part.double().mean()))
        return facts

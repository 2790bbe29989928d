"""Many tensors as one."""

from __future__ import annotations

from typing import Any

import torch

from clew.errors import OptionError


def stack_tensors(values: list[Any]) -> Any:
    """Along a new first axis. All must have one shape."""
    tensors = _tensors(values)
    shapes = list(dict.fromkeys(tuple(tensor.shape) for tensor in tensors))
    if len(shapes) > 1:
        raise OptionError(
            "stack-shapes", f"values of different shapes, {_listed(shapes)}, cannot be stacked.", "Pad them: `.pad()`."
        )
    return torch.stack(tensors)


def pad_tensors(values: list[Any], fill: float = 0) -> Any:
    """Along a new first axis, each padded with `fill` to the largest size along each of its axes."""
    tensors = _tensors(values)
    dimensions = {tensor.dim() for tensor in tensors}
    if len(dimensions) > 1:
        shapes = list(dict.fromkeys(tuple(tensor.shape) for tensor in tensors))
        raise OptionError(
            "stack-shapes", f"values of {_listed(shapes)} have different numbers of axes: no padding helps."
        )
    largest = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    if not _fits(fill, dtype):
        raise OptionError("stack-shapes", f"fill={fill!r} is no {str(dtype)[6:]}, as the values are.")
    out: Any = torch.full((len(tensors), *largest), fill, dtype=dtype)
    for place, tensor in enumerate(tensors):
        out[(place, *(slice(size) for size in tensor.shape))] = tensor
    return out


def _tensors(values: list[Any]) -> list[Any]:
    if not values:
        raise OptionError("stack-shapes", "there is nothing to stack.")
    for value in values:
        if not isinstance(value, (torch.Tensor, bool, int, float, complex)):
            raise OptionError(
                "stack-shapes", f"a {type(value).__name__} cannot be stacked; only tensors and numbers can."
            )
    return [value if isinstance(value, torch.Tensor) else torch.tensor(value) for value in values]


def _fits(fill: Any, dtype: Any) -> bool:
    """Whether padding can be told from what was asked for: not NaN in whole numbers, nor -1 in truth values."""
    if dtype.is_floating_point or dtype.is_complex:
        return True
    try:
        return bool(torch.tensor(fill, dtype=dtype).item() == fill)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return False


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes[:4])) + (" ..." if len(shapes) > 4 else "")

"""What a torch module was called with when a pipeline was recorded: shapes and kinds, no values. Exporting needs it."""

from __future__ import annotations

import sys
import weakref
from typing import Any

_MOST = 8
_seen: weakref.WeakKeyDictionary[Any, list[tuple[Any, Any]]] = weakref.WeakKeyDictionary()


class Shape:
    """A tensor that was there."""

    def __init__(self, tensor: Any) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.device = tensor.device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self.shape, self.dtype) == (other.shape, other.dtype)

    __hash__ = None  # type: ignore[assignment]


def note(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Remember how a torch module is called."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn") or not isinstance(target, torch.nn.Module):
        return
    known = _seen.setdefault(target, [])
    called = (_shapes(args), _shapes(kwargs))
    if called not in known and len(known) < _MOST:
        known.append(called)


def of(module: Any) -> list[tuple[Any, Any]]:
    return _seen.get(module, [])


def _shapes(value: Any) -> Any:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return Shape(value)
    if type(value) in (list, tuple):
        return type(value)(_shapes(item) for item in value)
    if type(value) is dict:
        return {key: _shapes(item) for key, item in value.items()}
    return value if type(value) in (int, float, bool, str, type(None)) else type(value)

"""What a model was called with when a pipeline was recorded: shapes and kinds, no values. Exporting needs it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from clew.graph import tensorflow

from . import constructors

_MOST = 8
_seen: weakref.WeakKeyDictionary[Any, list[tuple[Any, Any]]] = weakref.WeakKeyDictionary()


class Shape:
    """A tensor that was there."""

    def __init__(self, tensor: Any) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.device = getattr(tensor, "device", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self.shape, self.dtype) == (other.shape, other.dtype)

    __hash__ = None  # type: ignore[assignment]


def note(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Remember how a torch module, or a model of TensorFlow's, is called, and what any operator opens meanwhile."""
    constructors.listen()
    torch = sys.modules.get("torch")
    of_torch = torch is not None and hasattr(torch, "nn") and isinstance(target, torch.nn.Module)
    if not of_torch and not tensorflow.is_model(target):
        return
    known = _seen.setdefault(target, [])
    called = (_shapes(args), _shapes(kwargs))
    if called not in known and len(known) < _MOST:
        known.append(called)


def of(module: Any) -> list[tuple[Any, Any]]:
    return _seen.get(module, [])


def filled(value: Any, made: Callable[[Shape], Any]) -> Any:
    """How something was called, with something made of each shape."""
    if isinstance(value, Shape):
        return made(value)
    if isinstance(value, list | tuple):
        return type(value)(filled(item, made) for item in value)
    return {key: filled(item, made) for key, item in value.items()} if isinstance(value, dict) else value


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return True
    return tensorflow.is_constant(value) and type(value).__name__ == "EagerTensor"


def _shapes(value: Any) -> Any:
    if _is_tensor(value):
        return Shape(value)
    if type(value) in (list, tuple):
        return type(value)(_shapes(item) for item in value)
    if type(value) is dict:
        return {key: _shapes(item) for key, item in value.items()}
    return value if type(value) in (int, float, bool, str, type(None)) else type(value)

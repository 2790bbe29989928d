"""Hooks on tensors that a model gives. A program may save such a tensor: torch must not warn about our hook then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.hooks import unserializable_hook


def on_gradient(tensor: Any, tell: Callable[[Any], None]) -> None:
    """Call `tell` with the gradient of a tensor when it is computed; the gradient stays as it is."""
    tensor.register_hook(unserializable_hook(tell))  # type: ignore[no-untyped-call]

"""From what a program calls to the model inside it: paths are those of the model."""

from __future__ import annotations

import sys
from typing import Any

import torch

from clew.instrument import eager_torch


def unwrapped(model: Any) -> Any:
    """Without `DataParallel`, `DistributedDataParallel` and `torch.compile` around it."""
    while True:
        inner = _inner(model)
        if inner is None:
            return model
        model = inner


def _inner(model: Any) -> Any:
    parallel = torch.nn.parallel
    if isinstance(model, (parallel.DataParallel, parallel.DistributedDataParallel)):
        return model.module
    return getattr(model, "_orig_mod", None) if is_compiled(model) else None


def is_compiled(model: Any) -> bool:
    frames = sys.modules.get("torch._dynamo.eval_frame")
    return frames is not None and isinstance(model, frames.OptimizedModule)


def is_replicated(model: Any) -> bool:
    """Whether gradients are averaged over processes after they were computed."""
    return isinstance(model, torch.nn.parallel.DistributedDataParallel)


def is_called_by_ddp(model: Any) -> bool:
    """The same, asked while the model is called."""
    caller = getattr(torch.nn.parallel.DistributedDataParallel, "_active_ddp_module", None)
    return caller is not None and unwrapped(caller) is model


def has_compiled_parts(model: Any) -> bool:
    """Whether any module in it was compiled (`module.compile()`, or a compiled module put into it)."""
    return any(getattr(each, "_compiled_call_impl", None) is not None or is_compiled(each) for each in model.modules())


class Uncompiled:
    """While tracing: compiled code runs as it was written. Compiled code calls no hooks."""

    def __init__(self) -> None:
        self._begun = False

    def __enter__(self) -> Uncompiled:
        if hasattr(torch.compiler, "set_stance"):
            eager_torch.begin()
            self._begun = True
        return self

    def __exit__(self, *error: object) -> None:
        if self._begun:
            self._begun = False
            eager_torch.end()

    @property
    def mattered(self) -> bool:
        """Whether anything was compiled in this process."""
        frames = sys.modules.get("torch._dynamo.convert_frame")
        return self._begun and bool(getattr(frames, "FRAME_COUNTER", 0))

"""`Variable` of TensorTracer's later version, and its stacking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from clew.probes.model.callbacks import guarded
from clew.probes.model.stacking import pad_tensors
from clew.probes.model.stacking import stack_tensors as _stacked

from .callbacks import argument_count
from .results import GlobalVariableResult, LocalVariableResult

_Result = GlobalVariableResult | LocalVariableResult


class Variable:
    """Paths, with how often and in which mode they are traced, and what is done with their values."""

    def __init__(
        self,
        paths: Iterable[str],
        trace_interval: int = 1,
        gather_interval: int = 1,
        pre_save_callbacks: Any = None,
        pre_gather_callbacks: Any = None,
        post_gather_callbacks: Any = None,
        post_trace_callbacks: Any = None,
        mode: str = "train",
    ) -> None:
        self.paths = [paths] if isinstance(paths, str) else list(paths)
        self.trace_interval = trace_interval
        self.gather_interval = gather_interval
        self.pre_save_callbacks = list(pre_save_callbacks or [])
        self.pre_gather_callbacks = list(pre_gather_callbacks or [])
        self.post_gather_callbacks = list(post_gather_callbacks or [])
        self.post_trace_callbacks = list(post_trace_callbacks or [])
        self.mode = mode
        self.results: dict[str, GlobalVariableResult] = _Gathered()

    def gathered(self, name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        """Values have come: the callbacks, then to the others."""
        result = GlobalVariableResult(iterations[:], ranks[:], values[:])
        self._run("post_gather", self.post_gather_callbacks, name, result)
        held = self.results[name]
        held.iterations += list(result.iterations)
        held.ranks += list(result.ranks)
        held.values += list(result.values)
        values.clear()
        iterations.clear()
        ranks.clear()

    def finish(self) -> None:
        """The trace is over."""
        for name, result in self.results.items():
            self._run("post_trace", self.post_trace_callbacks, name, result)

    def _run(self, stage: str, callbacks: list[Any], name: str, result: GlobalVariableResult) -> None:
        for callback in callbacks:
            whole = (name, result.values, result.iterations, result.ranks)
            count = argument_count(stage, callback, of_variable=True)
            before = GlobalVariableResult(result.iterations, result.ranks, result.values)
            arguments = (name, result) if count == 2 else whole[:count]
            if not guarded(callback, stage, name, arguments):
                result.iterations, result.ranks, result.values = before


class _Gathered(dict[str, GlobalVariableResult]):
    def __missing__(self, name: str) -> GlobalVariableResult:
        self[name] = GlobalVariableResult()
        return self[name]


def stack_tensors(name: str, values: Any, iterations: Any = None, ranks: Any = None) -> None:
    """All values as one, along a new first axis. Given a result, its `values` become that tensor."""
    _replace(values, _stacked)


def stack_padded_tensors(name: str, values: Any, iterations: Any = None, ranks: Any = None) -> None:
    """The same for values of different sizes: each is padded to the largest, and gets leading axes of size 1."""
    _replace(values, _padded)


def _replace(values: Any, stacked: Any) -> None:
    if isinstance(values, _Result):
        values.values = stacked(list(values.values)) if len(values.values) else torch.tensor([])
    else:
        values[:] = [stacked(values) if values else torch.tensor([])]


def _padded(values: list[Any]) -> Any:
    most = max((value.dim() for value in values if isinstance(value, torch.Tensor)), default=0)
    tensors = [torch.as_tensor(value) if isinstance(value, (bool, int, float)) else value for value in values]
    return pad_tensors([_with_axes(value, most) if isinstance(value, torch.Tensor) else value for value in tensors])


def _with_axes(tensor: Any, count: int) -> Any:
    return tensor[(None,) * (count - tensor.dim())] if tensor.dim() < count else tensor


__all__ = ["GlobalVariableResult", "LocalVariableResult", "Variable", "stack_padded_tensors", "stack_tensors"]

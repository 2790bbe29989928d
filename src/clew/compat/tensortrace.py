"""TensorTracer's names, over clew: change `from tensortrace import ...` to `from clew.compat.tensortrace import ...`.

Values are kept in memory, as there; callbacks are called as `(name, values, iterations, ranks)` and change the lists in
place. In a distributed job values are gathered on rank 0 every `gathering_interval` iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from clew.export.hdf5saver import HDF5Saver
from clew.probes.model import ModelTracer as _ModelTracer
from clew.probes.model.stacking import pad_tensors
from clew.probes.model.stacking import stack_tensors as _stacked

Callback = Callable[[str, list[Any], list[int], list[int]], object]


class ModelTracer(_ModelTracer):
    """As TensorTracer's: in memory, gathered on rank 0 through torch.distributed."""

    def __init__(
        self,
        model: Any,
        paths: Iterable[str],
        pre_gather_callbacks: list[Callback] | None = None,
        post_gather_callbacks: list[Callback] | None = None,
        post_trace_callbacks: list[Callback] | None = None,
        gathering_interval: int = 1,
        **options: Any,
    ) -> None:
        given = {"store": False, "gather": "collective", **options}
        super().__init__(
            model,
            paths,
            pre_gather=pre_gather_callbacks,
            post_gather=post_gather_callbacks,
            post_trace=post_trace_callbacks,
            gathering_interval=gathering_interval,
            **given,
        )


class H5PYSaverCallback(HDF5Saver):
    """Moves values into a dataset of an HDF5 file as they come."""

    def __init__(self, dataset_file: Any, **options: Any) -> None:
        super().__init__(dataset_file, **{"existing": "replace", **options})


def stack_tensors(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
    """All values as one, along a new first axis."""
    if values:
        values[:] = [_stacked(values)]


def stack_padded_tensors(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
    """The same for values of different sizes: each is padded to the largest."""
    if values:
        values[:] = [pad_tensors(values)]


@contextmanager
def trace_model(model: Any, paths: Iterable[str], **options: Any) -> Iterator[ModelTracer]:
    """`with trace_model(model, [...]) as tracer:`"""
    tracer = ModelTracer(model, paths, **options)
    with tracer:
        yield tracer


__all__ = ["H5PYSaverCallback", "ModelTracer", "stack_padded_tensors", "stack_tensors", "trace_model"]

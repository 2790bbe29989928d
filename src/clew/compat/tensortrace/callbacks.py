"""TensorTracer's callbacks, which take other arguments in each of its versions, as clew calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any

from clew.probes.model.options import Callback
from clew.probes.model.reduce import Reduce

from .results import GlobalVariableResult

# how many arguments a callback may take, what TensorTracer gives it first
_COUNTS = {"pre_save": (3, 4), "pre_gather": (3, 4, 2), "post_gather": (4, 3, 2), "post_trace": (4, 3, 2)}


def adapted(
    stage: str, callbacks: Iterable[Any] | Callable[..., Any] | None, *, of_variable: bool = False
) -> list[Callback]:
    """Callbacks as clew calls them: `(name, values, iterations, ranks)`. What they return is ignored, as there."""
    given = [callbacks] if callable(callbacks) else list(callbacks or [])
    return [_adapted(stage, callback, of_variable) for callback in given]


def argument_count(stage: str, callback: Any, *, of_variable: bool = False) -> int:
    """How many arguments to call it with. Of a `Variable`, `(name, result)` comes first."""
    if isinstance(callback, Reduce):
        return 4
    counts = _COUNTS[stage]
    if of_variable and stage != "pre_save":
        counts = (2, *counts)
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # of a builtin
        return counts[0]
    return next((count for count in counts if _binds(signature, count)), counts[0])


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _adapted(stage: str, callback: Any, of_variable: bool) -> Callback:
    if not callable(callback) or isinstance(callback, Reduce):
        return callback  # type: ignore[no-any-return]
    count = argument_count(stage, callback, of_variable=of_variable)

    def call(name: str, values: list[Any], iterations: list[int], ranks: list[int]) -> None:
        if stage == "pre_save" and count == 3:
            values[:] = [callback(name, value, iterations[0]) for value in values]
        elif count == 2:
            result = GlobalVariableResult(iterations[:], ranks[:], values[:])
            callback(name, result)
            # a tensor of all values is one value in the one version, and as many as it has rows in the other
            values[:] = result.values if of_variable or isinstance(result.values, list) else [result.values]
            iterations[:], ranks[:] = result.iterations, result.ranks
        else:
            callback(*(name, values, iterations, ranks)[:count])

    update_wrapper(call, callback, updated=())
    return call

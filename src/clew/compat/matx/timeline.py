"""`gen_step_meta` and `gen_timeline`: when each operator of a run began and ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import time_ns
from typing import Any

from clew.graph import Graph
from clew.graph.drawing.boxes import label
from clew.graph.nodes import Step
from clew.graph.running.runners import walk

from . import models


def step_meta(graph: Graph, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Run once, step by step."""
    ops: list[dict[str, Any]] = []

    def around(step: Step, do: Callable[[], Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        start = time_ns()
        result = do()
        times = {"start": start, "end": time_ns()}
        if not models.is_conversion(step.target):
            inputs = [*args, *kwargs.values()]
            ops.append({"op": label(step), **times, "inputs": inputs, "output": result, **_kind(step, len(ops))})
        return result

    begun = time_ns()
    walk(graph._inputs, graph._block, graph._given(feed), around)
    return {"start": begun, "end": time_ns(), "ops": ops}


def _kind(step: Step, number: int) -> dict[str, Any]:
    model = getattr(step.target, "target", None)
    if not models.is_torch(model):
        return {"op_cls": "JitOp" if step.kind == "operator" else "InterpreterOp", "attributes": {}}
    inner = {"device": str(models.device_of(model)), "output_to_cpu": True, "model": f"{label(step)}_{number}"}
    return {"op_cls": "PyTorchInferOp", "attributes": {"impl": {"op_cls": "TorchInferOp", "attributes": inner}}}


def rows(meta: dict[str, Any]) -> list[list[str]]:
    """One row for each operator, and one for the whole."""
    whole = (meta["end"] - meta["start"]) / 1e6
    table = [_row(one["op"], one["start"], one["end"], whole) for one in meta["ops"]]
    return [*table, [*_row("Total", meta["start"], meta["end"], whole)[:4], "----"]]


def _row(name: str, start: int, end: int, whole: float) -> list[str]:
    took = (end - start) / 1e6
    return [name, _clock(start), _clock(end), f"{took:.4f}(ms)", f"{took * 100 / whole if whole else 0:.2f}%"]


def _clock(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%H:%M:%S.%f")

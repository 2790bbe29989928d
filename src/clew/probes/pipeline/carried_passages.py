"""Passages that travel: from a worker to the process that asked for the trace, along with the batch they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clew.records import Value

from .passage import StagedCall
from .stage_functions import Spot, fixed

if TYPE_CHECKING:
    from clew.recorder.recorder import Recorder

    from .flow import Who


class Carried:
    """A batch (or the error that came instead of one), whose it is, and the passages of its making."""

    def __init__(self, data: Any, who: Who, calls: list[dict[str, Any]]) -> None:
        self.data = data
        self.who = who
        self.calls = calls

    def pin_memory(self, device: Any = None) -> Carried:
        """What a loader's thread that pins batches looks for."""
        from torch._utils import ExceptionWrapper
        from torch.utils.data._utils.pin_memory import pin_memory

        if not isinstance(self.data, ExceptionWrapper):
            self.data = pin_memory(self.data, device)  # type: ignore[no-untyped-call]
        return self


def packed(call: StagedCall) -> dict[str, Any]:
    """A passage as plain data."""
    spot = call.spot
    return {
        "spot": (spot.stage, spot.function, spot.module, spot.file, spot.line, spot.result, spot.kind),
        "inputs": {name: _plain(value) for name, value in call.inputs.items()},
        "outputs": {name: _plain(value) for name, value in call.outputs.items()},
        "meta": call.meta,
        "when": (call.started, call.ended),
        "error": call.error,
        "thread_name": call.thread_name,
    }


def unpacked(told: dict[str, Any], recorder: Recorder) -> StagedCall:
    stage, function, module, file, line, result, kind = told["spot"]
    spot = Spot(stage, function, module=module, file=file, line=line, names=fixed(), result=result, kind=kind)
    call = StagedCall(spot, recorder, dict.fromkeys(told["inputs"]))
    call.inputs, call.outputs, call.meta = told["inputs"], told["outputs"], told["meta"]
    call.started, call.ended = told["when"]
    call.drained_at = call.started
    call.error, call.thread_name = told["error"], told["thread_name"]
    call.place, call.parent = None, None
    return call


def _plain(value: Any) -> Any:
    return replace(value, parts=[bytes(part) for part in value.parts]) if isinstance(value, Value) else value

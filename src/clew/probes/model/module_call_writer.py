"""One call of a module, written into the run with its inputs in full."""

from __future__ import annotations

from functools import partial
from time import time_ns
from typing import Any

from clew import recording
from clew.instrument import source
from clew.recorder import own_shards
from clew.recorder.fingerprints import original_code
from clew.recorder.plan import Plan, Watched
from clew.values import capture, parse_keep

from .sinks import IterationCall


def write_call(module: Any, again: Any, inputs: dict[str, Any]) -> Any:
    """Gives the call as it stands in the run. `again`, a copy of the module as it was, is what a rerun calls."""
    kind = type(module)
    code = original_code(kind.forward)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("?", 0)
    watched = tuple(Watched(name, "input") for name in inputs)
    plan = Plan(
        f"{kind.__qualname__}.forward", kind.__module__, file, line, watched, [line], [False],
        parameters=tuple(inputs), dedupe=False,
    )  # fmt: skip
    if code is not None:
        plan.code, plan.source = code, partial(source.text_of, code)
    plan.always = False
    recorder = recording.recorder()
    call = IterationCall(plan, recorder)
    call.place, call.stage = None, "non-finite"
    recorder.begin(call)
    for index, value in enumerate(inputs.values()):
        call.log += (capture(value, parse_keep("full")).value, plan.site(0, index))
    call.ended = time_ns()
    recorder.end(call)
    run = recording.current()
    if run is None or run.path is None:
        return None
    written = next((each for each in run.reader().calls(plan.name) if each.id == call.id), None)
    if again is not None and written is not None:
        own_shards.keep_owner(written.shard_folder, call.id, again)
    return written

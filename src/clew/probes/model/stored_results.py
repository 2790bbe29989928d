"""Results read from the run: what was stored need not be in memory as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .results import Result

if TYPE_CHECKING:
    from .tracer import ModelTracer


def stored_result(tracer: ModelTracer, name: str) -> Result:
    """The values of a path, from all ranks that write into the run, in order of time."""
    run = tracer.run
    if run is None or run.path is None or name not in run.reader():
        return Result(name, [], [], [], [])
    changes = [change for change in run.reader().changes(name) if _is_of(change, tracer)]
    return Result(
        name,
        [change.value for change in changes],
        [change.step for change in changes],
        [change.call.rank if change.call is not None else 0 for change in changes],
        [(change.call.stage if change.call is not None else None) or "train" for change in changes],
    )


def _is_of(change: Any, tracer: ModelTracer) -> bool:
    call = change.call
    return call is None or call.function == tracer.title

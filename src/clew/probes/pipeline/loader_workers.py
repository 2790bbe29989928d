"""A trace in a worker process of a loader, forked or spawned: its own shard of the same run."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clew import recording
from clew.instrument.call_guard import attempt

from . import item_files, stages, trace_recording
from .flow import Who
from .trace_recording import Tracing


class Drawn(list[Any]):
    """The indices of one batch, on their way to a worker, and who they are."""

    who: Who
    trace: str

    @classmethod
    def of(cls, indices: list[Any], who: Who, trace: str) -> Drawn:
        drawn = cls(indices)
        drawn.who, drawn.trace = who, trace
        return drawn


@dataclass
class DrawnOne:
    """The same where batches are not made by the loader."""

    index: Any
    who: Who
    trace: str


@dataclass
class Ticket:
    """What a worker must know of the trace it works for."""

    key: str
    folder: str  # of the run; "": what is seen goes back with the batch
    wanted: int | None
    id: Any
    depth: int
    carries: bool
    again: list[tuple[Any, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, traced: Tracing, *, spawned: bool) -> Ticket:
        folder = str(traced.stored or "")
        carries = traced.ring is not None or not folder
        again = [one for one in stages.to_take_along() if _travels(one)] if spawned else []
        id = traced.id if spawned else None  # a forked worker has it
        if id is not None and not _travels(id):
            id = None
            traced.note("id= cannot be sent to spawned workers, where items are their index: use a module's function")
        return cls(traced.key, folder, traced.wanted, id, traced.depth, carries, again)


def _travels(thing: Any) -> bool:
    try:
        pickle.dumps(thing)
    except Exception:
        return False
    return True


class WorkerStart:
    """What a worker does first: the trace, then what the user asked for."""

    def __init__(self, own: Callable[[int], Any] | None, ticket: Ticket) -> None:
        self._own = own
        self._ticket = ticket

    def __call__(self, worker: int) -> None:
        attempt(lambda: begin(self._ticket, worker))
        if self._own is not None:
            self._own(worker)


def begin(ticket: Ticket, worker: int) -> None:
    """Trace from now on, until the process ends."""
    forked = next((known for known in trace_recording.open_traces() if known.key == ticket.key), None)
    trace_recording.leave_all()  # whatever was open where the process comes from, also if this fails
    if forked is None:
        _join(ticket)
    traced = Tracing(
        ticket.wanted,
        id=forked.id if forked is not None else ticket.id,
        depth=ticket.depth,
        key=ticket.key,
        where=f"worker {worker}",
    )
    traced.carries = ticket.carries
    traced.thread = threading.get_ident()
    traced.enter()
    item_files.listen()
    if forked is None:
        stages.put_in()
        stages.instrument_all(ticket.again)
        _install()


def _join(ticket: Ticket) -> None:
    """A spawned process knows nothing yet: not even the run, unless it was told by its environment."""
    now = recording.current()
    if ticket.folder and (now is None or now.folder != Path(ticket.folder)):
        recording.join(Path(ticket.folder))


def _install() -> None:
    from .plugins import Installed

    Installed(True)
    info = _worker_info()
    if info is not None:
        from .plugins import site, torchdata

        found = site()
        if found is not None:
            torchdata.prepare(found, info.dataset)


def _worker_info() -> Any:
    from torch.utils.data import get_worker_info

    return get_worker_info()

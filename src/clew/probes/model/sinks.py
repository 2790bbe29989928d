"""Where copies go: into memory, into the run, or into a ring that is written when something happens."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from time import time_ns
from types import CodeType
from typing import Any

import torch

from clew import recording
from clew.instrument import source
from clew.recorder.live_call import MOMENT, LiveCall
from clew.recorder.plan import GrowingPlan
from clew.values.class_facts import is_exactly
from clew.values.keep import FULL
from clew.values.owned_tensors import Owned, OwnedItems

ROOM = 256  # names in a first plan; a next one has four times as many
_Tensor = torch.Tensor


class IterationCall(LiveCall):
    """One iteration of a model: from its forward to the next one's."""


class Home:
    """What is known of the model's code, for the calls that are written."""

    def __init__(self, name: str, module: str, code: CodeType | None) -> None:
        self._code = code
        place = ("?", 0) if code is None else (code.co_filename, code.co_firstlineno)
        self._known = (name, module, *place)
        self._room = ROOM
        self.plan = self._new_plan()

    def grow(self) -> None:
        self._room *= 4
        self.plan = self._new_plan()

    def _new_plan(self) -> GrowingPlan:
        plan = GrowingPlan(*self._known, self._room)
        if self._code is not None:
            plan.source = partial(source.text_of, self._code)
        return plan


class StoreSink:
    """Into the current run: one call an iteration, one change a value."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._call: IterationCall | None = None
        self._place: tuple[int, str] = (0, "train")

    def begin(self, iteration: int, mode: str, at: int | None = None) -> None:
        """An iteration begins now, or began at that time (ns)."""
        self.end()
        self._place = (iteration, mode)
        self._open(at)

    def _open(self, at: int | None = None) -> None:
        iteration, mode = self._place
        recorder = recording.recorder()
        call = IterationCall(self._home.plan, recorder)
        call.place, call.stage, call.timed = None, mode, True
        if at is not None and call.parent is not None and call.parent.started > at:
            call.parent = None  # what is open now was not yet
        call.log += (iteration, self._home.plan.base)
        recorder.begin(call)
        if at is not None:
            call.started = call.drained_at = at
        self._call = call

    def put(self, name: str, copy: Any, at: int | None = None) -> None:
        if self._call is None:
            self._open(at)
        call = self._call
        assert call is not None
        mode = self._place[1]
        site = self._home.plan.site_of(name, mode) if call.plan is self._home.plan else None
        while site is None:
            self.end()
            if self._home.plan.site_of(name, mode) is None:
                self._home.grow()
            self._open(at)
            call = self._call
            assert call is not None
            site = self._home.plan.site_of(name, mode)
        if type(copy) is _Tensor:
            copy = Owned(copy)
            call.recorder.hold_bytes(copy.size)
        elif is_exactly(copy, tuple, list, dict):
            copy = OwnedItems(copy, FULL)
            call.recorder.hold_bytes(copy.size)
        now = time_ns() if at is None else at
        if call.parent is not None and at is None:
            call.parent.moment(now)  # what is watched around the model was before this value, or comes after it
        call.log.extend((copy, site, now + 1, MOMENT))  # in one step: gradients come from other threads

    def end(self, error: str | None = None, at: int | None = None) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.error = error
            call.ended = time_ns() if at is None else at
            call.recorder.end(call)

    def close(self, error: str | None = None) -> None:
        self.end(error)


@dataclass(slots=True)
class _Iteration:
    """An iteration in the ring: when it began and ended (ns), and what was seen in it, each with its time."""

    number: int
    mode: str
    started: int
    ended: int = 0  # 0: it goes on
    rows: list[tuple[str, Any, int]] = field(default_factory=list)


class RingSink:
    """The last iterations in memory; written, all of them, when that is asked for."""

    def __init__(self, home: Home, count: int) -> None:
        self._home = home
        self._ring: deque[_Iteration] = deque(maxlen=count)

    def begin(self, iteration: int, mode: str) -> None:
        now = time_ns()
        if self._ring:
            self._ring[-1].ended = now
        self._ring.append(_Iteration(iteration, mode, now))

    def put(self, name: str, copy: Any) -> None:
        if not self._ring:
            self._ring.append(_Iteration(0, "train", time_ns()))
        self._ring[-1].rows.append((name, copy, time_ns()))

    def dump(self) -> int:
        """Write what is in the ring, and empty it; gives how many iterations that were."""
        taken, now = list(self._ring), time_ns()
        current = taken[-1] if taken else _Iteration(0, "train", now)
        self._ring.clear()
        sink = StoreSink(self._home)
        for iteration in taken:
            if not iteration.rows:
                continue
            sink.begin(iteration.number, iteration.mode, iteration.started)
            for name, copy, at in iteration.rows:
                sink.put(name, copy, at)
            sink.end(at=iteration.ended or now)
        self._ring.append(_Iteration(current.number, current.mode, now))  # what is still to come of this iteration
        recording.recorder().flush()
        return len(taken)

    def close(self, error: str | None = None) -> None:
        self._ring.clear()

    @property
    def held(self) -> int:
        """Bytes in the ring."""
        rows = [row for iteration in list(self._ring) for row in iteration.rows]
        sizes = [copy.nbytes for _, copy, _ in rows if type(copy) is _Tensor]
        return sum(sizes)

"""Where copies go: into memory, into the run, or into a ring that is written when something happens."""

from __future__ import annotations

from collections import deque
from time import time_ns
from typing import Any

import torch

from clew import recording
from clew.recorder.live import MOMENT, LiveCall
from clew.recorder.plan import GrowingPlan
from clew.values.keep import FULL
from clew.values.owned import Owned, OwnedItems

ROOM = 256  # names in a first plan; a next one has four times as many
_Tensor = torch.Tensor


class IterationCall(LiveCall):
    """One iteration of a model: from its forward to the next one's."""

    __slots__ = ("stage",)


class Home:
    """What is known of the model's code, for the calls that are written."""

    def __init__(self, name: str, module: str, file: str, line: int) -> None:
        self._known = (name, module, file, line)
        self._room = ROOM
        self.plan = GrowingPlan(*self._known, self._room)

    def grow(self) -> None:
        self._room *= 4
        self.plan = GrowingPlan(*self._known, self._room)


class StoreSink:
    """Into the current run: one call an iteration, one change a value."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._call: IterationCall | None = None
        self._place: tuple[int, str] = (0, "train")

    def begin(self, iteration: int, mode: str) -> None:
        self.end()
        self._place = (iteration, mode)
        self._open()

    def _open(self) -> None:
        iteration, mode = self._place
        recorder = recording.recorder()
        call = IterationCall(self._home.plan, recorder, None)
        call.place, call.stage, call.timed = None, mode, True
        call.log += (iteration, self._home.plan.base)
        recorder.begin(call)
        self._call = call

    def put(self, name: str, copy: Any) -> None:
        if self._call is None:
            self._open()
        call = self._call
        assert call is not None
        site = self._home.plan.site_of(name) if call.plan is self._home.plan else None
        while site is None:
            self.end()
            if self._home.plan.site_of(name) is None:
                self._home.grow()
            self._open()
            call = self._call
            assert call is not None
            site = self._home.plan.site_of(name)
        if type(copy) is _Tensor:
            copy = Owned(copy)
            call.recorder.hold_bytes(copy.size)
        elif type(copy) in (tuple, list, dict):
            copy = OwnedItems(copy, FULL)
            call.recorder.hold_bytes(copy.size)
        now = time_ns()
        if call.parent is not None:
            call.parent.moment(now)  # what is watched around the model was before this value, or comes after it
        call.log.extend((copy, site, now + 1, MOMENT))  # in one step: gradients come from other threads

    def end(self, error: str | None = None) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.error = error
            call.ended = time_ns()
            call.recorder.end(call)

    def close(self, error: str | None = None) -> None:
        self.end(error)


class RingSink:
    """The last iterations in memory; written, all of them, when that is asked for."""

    def __init__(self, home: Home, count: int) -> None:
        self._home = home
        self._ring: deque[tuple[int, str, list[tuple[str, Any]]]] = deque(maxlen=count)

    def begin(self, iteration: int, mode: str) -> None:
        self._ring.append((iteration, mode, []))

    def put(self, name: str, copy: Any) -> None:
        if not self._ring:
            self._ring.append((0, "train", []))
        self._ring[-1][2].append((name, copy))

    def dump(self) -> int:
        """Write what is in the ring, and empty it; gives how many iterations that were."""
        taken, count = list(self._ring), len(self._ring)
        current = taken[-1][:2] if taken else (0, "train")
        self._ring.clear()
        sink = StoreSink(self._home)
        for iteration, mode, rows in taken:
            if not rows:
                continue
            sink.begin(iteration, mode)
            for name, copy in rows:
                sink.put(name, copy)
        sink.close()
        self._ring.append((*current, []))  # what is still to come of this iteration
        recording.recorder().flush()
        return count

    def close(self, error: str | None = None) -> None:
        self._ring.clear()

    @property
    def held(self) -> int:
        """Bytes in the ring."""
        sizes = [copy.nbytes for _, _, rows in list(self._ring) for _, copy in rows if type(copy) is _Tensor]
        return sum(sizes)

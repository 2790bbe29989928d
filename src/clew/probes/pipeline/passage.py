"""One passage being recorded: a call of the run, with a stage, named values, and the items it was about."""

from __future__ import annotations

import sys
from threading import get_ident
from time import time_ns
from typing import TYPE_CHECKING, Any

from clew.recorder.how_calls_end import describe
from clew.recorder.live_call import LiveCall, as_it_is, place_of
from clew.records import Passage, Value, passage_from
from clew.values import SCALAR_IDS, decode
from clew.values.class_facts import is_exactly

if TYPE_CHECKING:
    from clew.recorder.recorder import Recorder

    from .stage_functions import Spot

looking: set[int] = set()  # threads in which clew itself looks at values just now: what it opens is not the program's
_LOOKED_INTO = 64  # items of a container whose device is looked at


class StagedCall(LiveCall):
    """A call that belongs to a stage. It is written when the trace says so: at once, or when something has failed."""

    def __init__(self, spot: Spot, recorder: Recorder, named: dict[str, Any]) -> None:
        super().__init__(spot.plan(tuple(named)), recorder)
        self.spot = spot
        self.stage = spot.stage
        self.meta: dict[str, Any] = {}
        self.inputs = {name: taken(value) for name, value in named.items()}
        self.outputs: dict[str, Any] = {}
        self.parent_call: StagedCall | None = None
        self.written = False
        self._before: LiveCall | None = None

    def stand_here(self) -> None:
        """It begins: calls made in this thread from now on are made by this one."""
        place = place_of(self.thread)
        self._before, place.call = place.call, self
        self.started = self.drained_at = time_ns()  # looking at the arguments is not the function's time
        self.parent_call = self._before if isinstance(self._before, StagedCall) else None

    def step_aside(self) -> None:
        place = place_of(self.thread)
        if place.call is self:
            place.call = self._before

    def finish(self, outputs: dict[str, Any], error: BaseException | None = None) -> None:
        self.ended = self.ended or time_ns()
        if error is not None:
            self.error = describe(error)
        else:
            self.outputs = {name: taken(value) for name, value in outputs.items()}

    def fill(self) -> None:
        """Put everything into the log, for whoever takes it."""
        names = list(self.plan.names)
        for name, value in self.inputs.items():
            self.log += (value, self.plan.site(0, names.index(name)))
        for name, value in self.outputs.items():
            index = next((i for i, w in enumerate(self.plan.watched) if w.role == "output" and w.name == name), None)
            if index is not None:
                self.log += (value, self.plan.site(0, index))
        self.log += (taken(self.meta), self.plan.site(0, len(names) - 1))

    @property
    def size(self) -> int:
        """Bytes of arrays it holds."""
        values = [*self.inputs.values(), *self.outputs.values()]
        return sum(len(part) for value in values if isinstance(value, Value) for part in value.parts)

    def passage(self) -> Passage:
        """As readers see it, without the store."""
        meta = self.meta
        return passage_from(
            meta,
            stage=self.stage or "",
            function=self.spot.function,
            inputs={name: given_back(value) for name, value in self.inputs.items()},
            outputs={name: given_back(value) for name, value in self.outputs.items()},
            started=self.started,
            duration=meta.get("took", self.ended - self.started if self.ended else None),
            error=self.error,
            file=self.spot.file,
            line=self.spot.line,
            key=("", self.id),
            parent=("", self.parent_call.id) if self.parent_call is not None else None,
        )


def taken(value: Any) -> Any:
    """A value as it is now: a scalar, or its written form."""
    if id(type(value)) in SCALAR_IDS:
        return value
    thread = get_ident()
    looking.add(thread)
    try:
        return as_it_is(value)
    finally:
        looking.discard(thread)


def given_back(value: Any) -> Any:
    return decode(value) if isinstance(value, Value) else value


def devices_of(named: dict[str, Any]) -> dict[str, str]:
    """Where tensors were, unless in CPU memory: "batch[0]" → "cuda:0"."""
    torch = sys.modules.get("torch")
    found: dict[str, str] = {}

    def look(value: Any, path: str, depth: int) -> None:
        if torch is not None and issubclass(type(value), torch.Tensor):
            if value.device.type != "cpu":
                found[path] = str(value.device)
        elif depth < 3 and is_exactly(value, list, tuple):
            for number, item in enumerate(value[:_LOOKED_INTO]):
                look(item, f"{path}[{number}]", depth + 1)
        elif depth < 3 and type(value) is dict:
            for key, item in list(value.items())[:_LOOKED_INTO]:
                look(item, f"{path}[{key!r}]" if is_exactly(key, str, int) else path, depth + 1)

    if torch is not None:
        for name, value in named.items():
            look(value, name, 0)
    return found

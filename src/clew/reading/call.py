"""One call of one function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clew.reading.change import Changes
from clew.reading.lazy import LazySequence, Rows
from clew.reading.table import INPUT, OUTPUT
from clew.records import DELETED, Change, Function, NotKept

if TYPE_CHECKING:
    from pathlib import Path

    from clew.reading.calls import ShardCalls
    from clew.reading.view import View


LOG = "<log>"  # the function name of log lines, which stand in the tree like calls


class Caller(NamedTuple):
    """A place from which something was called."""

    file: str
    line: int
    function: str


def _frames(text: str | None) -> list[list[Any]]:
    """The recorded frames around a root call; an empty list if the text is malformed."""
    try:
        frames = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    candidates = frames if isinstance(frames, list) else []
    return [frame for frame in candidates if isinstance(frame, list) and list(map(type, frame)) == [str, int, str]]


class Call:
    """A recorded call: its arguments, what happened in it, and how it ended."""

    __slots__ = ("_calls", "_local", "_place", "_view")

    def __init__(self, view: View, place: int) -> None:
        self._view = view
        self._place = place
        self._calls: ShardCalls
        self._calls, self._local = view.calls.split(place)

    def _start(self, column: str) -> Any:
        return self._calls.start(column)[self._local].item()

    def _start_text(self, column: str) -> Any:
        """A text cell, decoded from its own batch only: building a whole column of texts is expensive."""
        return self._calls.starts.take(np.array([self._local])).column(column)[0]

    def _end(self) -> int | None:
        at = int(self._calls.ends(np.array([self.id], dtype=np.int64))[0])
        return None if at < 0 else at

    @property
    def id(self) -> int:
        """The number of the call within its process, which `shard` names."""
        return int(self._start("call"))

    @property
    def shard(self) -> str:
        """The process it ran in: host, rank and process id."""
        return self._calls.reader.name

    @property
    def shard_folder(self) -> Path:
        """The folder that holds the records of that process."""
        return self._calls.reader.folder

    @property
    def pid(self) -> int:
        """The id of that process."""
        return self._calls.reader.pid

    @property
    def _function(self) -> Function:
        return self._calls.reader.functions[self._start("function")]

    @property
    def function(self) -> str:
        """The qualified name: `Trainer.step`."""
        return self._function.name

    @property
    def module(self) -> str:
        return self._function.module

    @property
    def file(self) -> str:
        return self._function.file

    @property
    def line(self) -> int:
        """The line where the function is defined."""
        return self._function.line

    @property
    def args(self) -> dict[str, Any]:
        """The arguments by name, if they were recorded."""
        rows = self._rows_with_role(INPUT)
        if len(rows):
            table = self._view.table
            return dict(zip(self._names_of(rows), table.values(rows), strict=True))
        value = self._value(self._start("args"))
        if isinstance(value, NotKept):
            value = value.part
        return value if isinstance(value, dict) else {}

    @property
    def result(self) -> Any:
        """The return value if it was recorded, else None."""
        rows = self._rows_with_role(OUTPUT)
        if len(rows):
            return self._view.table.value(int(rows[-1]))
        end = self._end()
        return None if end is None else self._value(int(self._calls.finished.result[end]))

    @property
    def has_result(self) -> bool:
        """Whether the result was recorded, even if it is None."""
        return bool(len(self._rows_with_role(OUTPUT))) and self.function != LOG

    @property
    def returned(self) -> bool:
        """Whether the call ended without an exception."""
        return self._end() is not None and self.error is None

    @property
    def message(self) -> str | None:
        """The text of a line that `clew.log` or `logging` put into the tree; None for any other call."""
        return str(self.args.get("message", "")) if self.function == LOG else None

    @property
    def error(self) -> str | None:
        """The exception the call raised, as text; None if it returned or is still running."""
        end = self._end()
        return None if end is None else self._calls.finished.take(np.array([end])).error[0]

    def _value(self, id: int) -> Any:
        return None if id < 0 else self._view.table.decoded(self._calls.shard, id)

    @property
    def start(self) -> float:
        """Seconds since the run began."""
        return (int(self._start("time")) - self._view.start_ns) / 1e9

    @property
    def duration(self) -> float | None:
        """Seconds; None while the call is running, or if its end was never written."""
        end = self._end()
        return None if end is None else (int(self._calls.finished.time[end]) - int(self._start("time"))) / 1e9

    @property
    def thread(self) -> str:
        """The name of the thread it ran in, or its number if the thread had no name."""
        return str(self._start_text("thread_name") or self._start("thread"))

    @property
    def rank(self) -> int:
        return int(self._start("rank"))

    @property
    def step(self) -> Any:
        """The step at which it began, or None."""
        return self._view.steps.of_call(self._calls.shard, self._local)

    @property
    def stage(self) -> str | None:
        stage = self._start_text("stage")
        return None if stage is None else str(stage)

    @property
    def parent(self) -> Call | None:
        local = int(self._calls.parents[self._local])
        if local >= 0:
            return Call(self._view, self._place - self._local + local)
        elsewhere = self._view.calls.started_by.get(self._place)
        return None if elsewhere is None else Call(self._view, elsewhere)

    @property
    def children(self) -> Calls:
        own = self._calls.children(self._local) + (self._place - self._local)
        elsewhere = self._view.calls.children_elsewhere.get(self._place)
        if elsewhere is None:
            return Calls(self._view, own)
        both = sorted([*own.tolist(), *elsewhere], key=self._view.calls.began)
        return Calls(self._view, np.array(both, dtype=np.int64))

    @property
    def changes(self) -> Changes:
        """The changes in this call, in the order they happened."""
        offset = int(self._view.table.offsets[self._calls.shard])
        return Changes(self._view, self._calls.rows(self.id) + offset)

    @property
    def events(self) -> list[Change | Call]:
        """The changes in this call and the calls it made, in the order they happened."""
        changes, children = self.changes, self.children
        times = [*self._view.table.gather("time", changes.rows).tolist(), *(child._start("time") for child in children)]
        events: list[Change | Call] = [*changes, *children]
        return [events[place] for place in sorted(range(len(events)), key=times.__getitem__)]

    def before(self, change: Change) -> Any:
        """The value the name had in this call before the change; clew.DELETED if it did not exist."""
        earlier = [candidate for candidate in self.changes if candidate.name == change.name]
        place = earlier.index(change)
        return earlier[place - 1].value if place else self.args.get(change.name, DELETED)

    @property
    def callers(self) -> list[Caller]:
        """Where it was called, where its caller was called, and so on, as far as recorded."""
        callers: list[Caller] = []
        call: Call | None = self
        while call is not None:
            line, parent = call._start("line"), call.parent
            if parent is not None and line <= 0 and call is self:
                return []  # the call began a thread
            if parent is not None and line > 0:
                callers.append(Caller(parent.file, int(line), parent.function))
            elif parent is None:
                callers += [Caller(*frame) for frame in _frames(call._start_text("callers"))]
            call = parent
        return callers

    def _all_rows(self) -> Rows:
        return self._calls.all_rows(self.id) + int(self._view.table.offsets[self._calls.shard])

    def _rows_with_role(self, code: int) -> Rows:
        rows = self._all_rows()
        matching_rows: Rows = rows[self._view.table.names_at(rows) == code]
        return matching_rows

    def _names_of(self, rows: Rows) -> list[str]:
        return self._view.table.names_of(rows)

    @property
    def data(self) -> dict[str, list[Any]]:
        """The values each name had in this call, in order."""
        return self._view.table.by_name(self.changes.rows)

    def rerun(self, /, *, trusted: bool = False, changed: bool = False, debug: bool = False, **replace: Any) -> Any:
        """Call the function again with the recorded arguments or those given by name; `debug=True` uses the debugger.

        Needs `trusted=True` unless this process recorded the call, and `changed=True` if the code has changed since.
        """
        from clew.rerun import (
            rerun,
        )  # `self` is positional-only, so that call.rerun(self=trainer) replaces the function's own `self`

        return rerun(self, trusted=trusted, changed=changed, debug=debug, replace=replace)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Call):
            return NotImplemented
        return (self._view.path, self.shard, self.id) == (other._view.path, other.shard, other.id)

    def __hash__(self) -> int:
        return hash((self._view.path, self.shard, self.id))

    def __repr__(self) -> str:
        from clew.text.brief import ending

        return f"<Call {self.function} {ending(self.duration, self.error)}>"

    def _repr_html_(self) -> str:
        from clew.show.notebook import call_html

        return call_html(self)


class Calls(LazySequence[Call]):
    """Calls in the order they began."""

    __slots__ = ("_view",)

    def __init__(self, view: View, rows: Rows) -> None:
        super().__init__(rows)
        self._view = view

    def _make(self, row: int) -> Call:
        return Call(self._view, row)

    def _part(self, rows: Rows) -> Calls:
        return Calls(self._view, rows)

"""Tells a printer what happens, while it happens: a log that is heard as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.recorder.plan import Plan, plan_number
from clew.recorder.trace import ENTER, LIVE, RAISE, Busy, Trace, clock
from clew.records import DELETED, Kept, NotKept, Value
from clew.values import LIGHT, SCALARS, capture, decode

if TYPE_CHECKING:
    from clew.probes.lines.hooks import Change
    from clew.recorder.live import LiveCall


class Shown:
    """A call as a printer sees it. A printer turns values into text at once, and does not keep them."""

    __slots__ = ("callers", "depth", "duration", "error", "file", "function", "hidden", "inputs", "last", "line",
                 "parent", "result", "returned", "started", "thread")  # fmt: skip

    def __init__(self, plan: Plan, parent: Shown | None, thread: str, inputs: list[tuple[str, Any]]) -> None:
        self.function, self.file, self.line = plan.name, plan.file, plan.line
        self.callers: list[Any] = []
        self.inputs = inputs
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.thread = thread
        self.result: Any = None
        self.error: str | None = None
        self.returned = False
        self.started, self.duration = 0, 0.0
        self.hidden = False
        self.last: dict[str, Any] = {}  # by name: the value before, as far as it may be held


class TellingTrace(Trace):
    """A log whose events go to a printer as well."""

    __slots__ = ("base", "shown")

    def __init__(self, recorder: Any, following: Any, thread: int, thread_name: str) -> None:
        super().__init__(recorder, following, thread, thread_name)
        self.shown: list[Shown] = []  # open calls
        self.base: Shown | None = None  # what the calls here belong to

    def __iadd__(self, event: Any) -> TellingTrace:  # type: ignore[misc]
        with Busy():
            self._tell(event)
        if event[0] & 3 == ENTER:  # the time that printing took is not the call's
            now = clock()
            self.shown[-1].started = now
            event = (event[0], now, *event[2:])
        self.extend(event)
        return self

    def _tell(self, event: Any) -> None:
        code, kind = event[0] >> 2, event[0] & 3
        if kind == LIVE:
            return  # told by whoever wrote it
        plan = plan_number(code)
        if kind == ENTER:
            names = zip(plan.parameters, map(_readable, event[3:]), strict=False)
            self._begin(Shown(plan, self.current(), self.thread_name, list(names)), plan, event[1], event[2])
        elif self.shown:
            self._end(event[1], None if kind == RAISE else _readable(event[2]), event[2] if kind == RAISE else None)

    def current(self) -> Shown | None:
        return self.shown[-1] if self.shown else self.base

    def tell_inside(self, other: Any) -> None:
        """The calls here belong to what `other` is showing now."""
        self.base = other.current()

    def tell_instead_of(self, other: Any) -> None:
        """The call that `other` has just begun to show goes on here."""
        if other.shown:
            self.shown.append(other.shown.pop())

    def tell_begin(self, call: LiveCall, args: tuple[Any, ...]) -> None:
        plan = call.plan
        shown = Shown(plan, self.current(), self.thread_name, list(zip(plan.parameters, args, strict=False)))
        with Busy():
            shown.last = {name: _outline(value) for name, value in shown.inputs if name in plan.names}
            self._begin(shown, plan, call.started, self.at)

    def tell_end(self, call: LiveCall, result: Any, error: BaseException | None) -> None:
        if self.shown:
            with Busy():
                self._end(call.ended, result, call.error)

    def tell_message(self, text: str) -> None:
        with Busy():
            self.following.printer.message(self.current(), text)

    def tell_change(self, change: Change) -> None:
        shown = self.current()
        if shown is None or shown.hidden:
            return
        before = shown.last.get(change.name, DELETED)
        with Busy():
            self.following.printer.change(shown, change.name, change.line, before, change.value)
            shown.last[change.name] = _outline(change.value)

    def _begin(self, shown: Shown, plan: Plan, time: int, line: int) -> None:
        shown.started = time
        parent = shown.parent
        if parent is None:
            shown.callers = self.callers
        elif line:
            shown.callers = [(parent.file, line, parent.function)]
        shown.hidden = not self.following.takes(plan) or shown.depth > self.following.depth
        if shown.hidden and parent is not None:
            shown.depth = parent.depth
        self.shown.append(shown)
        if not shown.hidden:
            self.following.printer.begin(shown)
        shown.inputs = []

    def _end(self, time: int, result: Any, error: str | None) -> None:
        shown = self.shown.pop()
        if shown.hidden:
            return
        shown.duration = (time - shown.started) / 1e9
        shown.result, shown.error, shown.returned = result, error, error is None
        self.following.printer.end(shown)
        shown.result = None


def _readable(value: Any) -> Any:
    """A written value as readers see it."""
    return decode(value) if type(value) is Value else value


def _outline(value: Any) -> Any:
    """What may be kept of a value to compare the next with: a scalar, or its shape without its content."""
    if type(value) in SCALARS or value is DELETED:
        return value
    found = capture(value, LIGHT).value
    return NotKept(found.type, Kept.SUMMARY, "", found.summary)

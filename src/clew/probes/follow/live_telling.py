"""Tells printers what happens, while it happens: a log that is heard as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.recorder.call_log import ENTER, LIVE, RAISE, Busy, Trace, clock
from clew.recorder.plan import Plan, plan_number
from clew.records import DELETED, Kept, NotKept, Value
from clew.values import LIGHT, SCALAR_IDS, capture, decode

if TYPE_CHECKING:
    from clew.records import Change


class Shown:
    """A call as a printer sees it. A printer turns values into text at once, and does not keep them."""

    __slots__ = ("callers", "depth", "duration", "error", "file", "function", "hidden", "inputs", "last", "limits",
                 "line", "parent", "pauses", "result", "returned", "started", "thread")  # fmt: skip

    def __init__(
        self, plan: Plan, parent: Shown | None, thread: str, inputs: list[tuple[str, Any]], *, pauses: bool = False
    ) -> None:
        self.pauses = pauses  # a generator or coroutine: others may go on before it ends
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
        self.limits: list[tuple[Any, int]] = []  # the requests it is in, and how deep calls each of them shows
        self.last: dict[str, Any] = {}  # by name: the value before, as far as it may be held


class Teller:
    """What one printer is told of the calls in a log, and which of them are open."""

    __slots__ = ("base", "following", "printer", "shown")

    def __init__(self, following: Any, base: Shown | None = None) -> None:
        self.following = following
        self.printer = following.printer
        self.shown: list[Shown] = []  # open calls
        self.base = base  # what the calls here belong to

    def current(self) -> Shown | None:
        return self.shown[-1] if self.shown else self.base

    def begin(self, trace: Trace, plan: Plan, args: Any, time: int, line: int, *, pauses: bool = False) -> Shown:
        parent = self.current()
        inputs = list(zip(plan.parameters, args, strict=False))
        shown = Shown(plan, parent, trace.thread_name, inputs, pauses=pauses)
        shown.started = time
        if parent is None:
            shown.callers = trace.callers
        elif line:
            shown.callers = [(parent.file, line, parent.function)]
        shown.limits = self._limits(shown, plan)
        shown.hidden = not any(request.takes(plan) and shown.depth <= limit for request, limit in shown.limits)
        if shown.hidden and parent is not None:
            shown.depth = parent.depth
        self.shown.append(shown)
        return shown

    def show(self, shown: Shown) -> None:
        if not shown.hidden:
            self.printer.begin(shown)
        shown.inputs = []

    def _limits(self, shown: Shown, plan: Plan) -> list[tuple[Any, int]]:
        parent, root = shown.parent, plan.root
        limits = parent.limits if parent is not None else [(self.following, self.following.depth)]
        if root is None or not root.brings_names or any(request is root for request, _ in limits):
            return limits
        return [*limits, (root, shown.depth + root.depth)]

    def change(self, change: Change) -> bool:
        """Whether there is a call here that it belongs to."""
        shown = self.current()
        if shown is None or shown.hidden:
            return shown is not None
        self.printer.change(shown, change.name, change.line, shown.last.get(change.name, DELETED), change.value)
        shown.last[change.name] = _outline(change.value)
        return True

    def leave(self, shown: Shown) -> None:
        """What happens next is not in this call."""
        if shown in self.shown:  # not if it was thrown away where it paused
            self.shown.remove(shown)

    def end(self, time: int, result: Any, error: str | None) -> None:
        if self.shown:
            self.ended(self.shown.pop(), time, result, error)

    def ended(self, shown: Shown, time: int, result: Any, error: str | None) -> None:
        if shown.hidden:
            return
        shown.duration = (time - shown.started) / 1e9
        shown.result, shown.error, shown.returned = result, error, error is None
        self.printer.end(shown)
        shown.result = None


class TellingTrace(Trace):
    """A log whose events go to printers as well."""

    __slots__ = ("outer", "tellers")

    def __init__(self, recorder: Any, following: Any, thread: int, thread_name: str, tellers: list[Teller]) -> None:
        super().__init__(recorder, following, thread, thread_name)
        self.tellers = tellers
        self.outer: Trace | None = None  # of a block: what is told of the function that the block is in

    def __iadd__(self, event: Any) -> TellingTrace:  # type: ignore[misc]
        try:
            with Busy():
                self._tell(event)
            if event[0] & 3 == ENTER:  # the time that printing took is not the call's
                now = clock()
                for teller in self.tellers:
                    if teller.shown:
                        teller.shown[-1].started = now
                event = (event[0], now, *event[2:])
        except Exception as error:
            trouble.failed(error, "showing a call")
        self.extend(event)  # recorded all the same
        return self

    def _tell(self, event: Any) -> None:
        code, kind = event[0] >> 2, event[0] & 3
        if kind == LIVE:
            return  # told by whoever wrote it
        if kind == ENTER:
            plan, args = plan_number(code), [_readable(value) for value in event[3:]]
            for teller in self.tellers:
                teller.show(teller.begin(self, plan, args, event[1], event[2]))
        else:
            result, error = (None, event[2]) if kind == RAISE else (_readable(event[2]), None)
            for teller in self.tellers:
                teller.end(event[1], result, error)

    @trouble.entry_point()
    def tell_inside(self, other: Any) -> None:
        """The calls here belong to what `other` is showing now."""
        if isinstance(other, TellingTrace):
            self.tellers = [Teller(teller.following, teller.current()) for teller in other.tellers]

    @trouble.entry_point()
    def tell_begin(self, call: Any, args: tuple[Any, ...]) -> None:
        with Busy():
            call.shown = []
            for teller in self.tellers:
                shown = teller.begin(self, call.plan, args, call.started, self.at, pauses=call.pauses)
                shown.last = {name: _outline(value) for name, value in shown.inputs if name in call.plan.names}
                call.shown.append((teller, shown))
                teller.show(shown)

    @trouble.entry_point()
    def tell_pause(self, call: Any) -> None:
        """What happens next is not in this call, until it goes on."""
        for teller, shown in call.shown:
            teller.leave(shown)

    @trouble.entry_point()
    def tell_resume(self, call: Any) -> None:
        """The call goes on in this log, which may be another one than before."""
        tellers = {teller.printer: teller for teller in self.tellers}
        call.shown = [(tellers.get(teller.printer, teller), shown) for teller, shown in call.shown]
        for teller, shown in call.shown:
            teller.shown.append(shown)

    @trouble.entry_point()
    def tell_end(self, call: Any, result: Any, error: BaseException | None) -> None:
        ended, call.shown = call.shown, ()
        with Busy():
            for teller, shown in ended:
                teller.leave(shown)
                teller.ended(shown, call.ended, result, call.error)

    @trouble.entry_point()
    def tell_message(self, text: str) -> None:
        with Busy():
            for teller in self.tellers:
                teller.printer.message(teller.current(), text)

    @trouble.entry_point()
    def tell_change(self, change: Change) -> None:
        with Busy():
            is_here = [teller.change(change) for teller in self.tellers]
        if not any(is_here) and isinstance(self.outer, TellingTrace):
            self.outer.tell_change(change)


def _readable(value: Any) -> Any:
    """A written value as readers see it."""
    return decode(value) if type(value) is Value else value


def _outline(value: Any) -> Any:
    """What may be kept of a value to compare the next with: a scalar, or its shape without its content."""
    if id(type(value)) in SCALAR_IDS or value is DELETED:
        return value
    found = capture(value, LIGHT).value
    return NotKept(found.type, Kept.SUMMARY, "", found.summary)

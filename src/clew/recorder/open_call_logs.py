"""The logs of followed calls that one recorder takes: those in which calls are open, and those that rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .live_call import is_alive

if TYPE_CHECKING:
    from .call_log import Trace
    from .call_log_rows import LeanRows


class TraceList(list["Trace"]):
    """Other threads may be adding logs at any time."""

    def __init__(self) -> None:
        self.resting: dict[tuple[int, Any], Trace] = {}  # by thread and request: no call is open in them

    def set_due(self, due: int) -> None:
        for trace in self[:]:
            trace.due = due

    def count_items(self) -> int:
        return sum(map(len, self[:]))

    def take(self) -> LeanRows | None:
        """What the logs hold, if anything."""
        if not self.count_items():
            return None
        from .call_log_rows import LeanRows

        self._end_resting()
        rows = LeanRows()
        traces = self[:]
        unfinished = []
        for trace in traces:
            over = trace.over
            rows.take(trace)
            if not over or len(trace):
                unfinished.append(trace)
        self[: len(traces)] = unfinished
        return rows

    def _end_resting(self) -> None:
        """Those in which no call will be: of threads that are over, or inside a call that is."""
        for key, trace in list(self.resting.items()):
            is_outlived = trace.inside is not None and trace.inside.over
            if (is_outlived or not is_alive(trace.thread)) and self.resting.pop(key, None) is trace:
                trace.over = True

    def throw_away(self) -> None:
        """What is written into them is not wanted."""
        traces = self[:]
        for trace in traces:
            trace.clear()
        self[: len(traces)] = [trace for trace in traces if not trace.over]

    def after_fork_in_child(self) -> None:
        """The parent writes what was pending; the calls that are open here are its calls."""
        for trace in self.resting.values():
            trace.over = True
        self.resting.clear()
        for trace in self:
            trace.clear()
            trace.stack.clear()
            trace.plans.clear()

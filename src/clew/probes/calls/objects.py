"""Followed calls with an object of their own: of functions that pause, and of those that hold named variables.

They are calls as `clew.watch` has them, and stand in the log of followed calls besides (`step_in`, `step_out`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from time import time_ns
from types import TracebackType
from typing import Any

from clew import recording
from clew.probes.lines import runtime as lines
from clew.probes.lines.engine import PAUSES
from clew.recorder.plan import Plan
from clew.recorder.trace import LIVE, OFF, Trace, clock, here
from clew.values import SCALARS

from .runtime import begin, callers_of, end, open_trace, roots, written


def entrance(plan: Plan, flags: int) -> Callable[[tuple[Any, ...]], Any]:
    """The way into a followed function that pauses or holds named variables."""
    return partial(_enter, plan, flags)


class _Followed:
    """What a watched call does besides, inside a followed one."""

    __slots__ = ()
    clocked = True

    def __exit__(
        self: Any, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            lines.fail(self, error)
        self.ended = time_ns()
        result, self.result = self.result, None
        trace = self.trace
        if trace.following.printer is not None:
            trace.tell_end(self, result, error)
        if self.error is None:
            keep = trace.following.keep
            self.log.append(self.ended)
            self.log.append(self.clock_site)
            self.log.append(result if type(result) in SCALARS else written(result, keep, self.recorder))
            self.log.append(self.plan.output_site)
        self.step_out()
        lines.leave(self, None)

    def _log(self: Any, written: Any, site: int) -> None:
        self.log.append(time_ns())
        self.log.append(self.clock_site)
        super()._log(written, site)  # type: ignore[misc]

    def _changed(self: Any, index: int, value: Any, site: int, written: Any, before: Any) -> None:
        plan = self.plan
        if site < plan.base + plan.width and not plan.always:
            return  # an argument: recorded as such
        if not plan.always and not self.trace.following.wants(plan, plan.names[index]):
            return  # asked for by another request
        super()._changed(index, value, site, written, before)  # type: ignore[misc]

    def step_in(self: Any, trace: Trace) -> None:
        """From here on what is called is called by this call."""
        self.trace, self.line_before, self.runs = trace, trace.at, True
        trace += [self.plan.marks[LIVE], clock(), self]

    def step_out(self: Any) -> None:
        if not self.runs:
            return  # a generator that was thrown away where it paused
        self.runs = False
        trace = self.trace
        trace += [self.plan.marks[LIVE], clock(), None]
        trace.at = self.line_before
        if self.opened:
            end(trace)
            self.opened = False

    @property
    def at(self: Any) -> int:
        return int(self.trace.at)

    @at.setter
    def at(self: Any, line: int) -> None:
        self.trace.at = line


class _Generating:
    """A generator: one call, many resumptions, wherever it is resumed."""

    __slots__ = ()

    def paused(self: Any, value: Any) -> Any:
        self.step_out()
        return value

    def resumed(self: Any, value: Any) -> Any:
        trace = here.get(None)
        if trace is None:
            trace = open_trace(self.trace.following, None)
            self.opened = True
        self.step_in(trace)
        return value


class _InTask:
    """A coroutine: it has a log of its own, since other tasks run while it waits."""

    __slots__ = ()

    def step_out(self: Any) -> None:
        trace = self.trace
        trace += [self.plan.marks[LIVE], clock(), None]
        trace.over = True
        if trace in roots:
            roots.remove(trace)
        if here.get(None) is trace:
            here.set(self.outer)


_SLOTS = ("clock_site", "line_before", "opened", "runs", "trace")


class FollowedCall(_Followed, lines.WatchedHookedCall):
    __slots__ = _SLOTS


class FollowedGenerator(_Generating, _Followed, lines.PausingHookedCall):
    __slots__ = _SLOTS


class FollowedTask(_InTask, _Followed, lines.PausingHookedCall):
    __slots__ = (*_SLOTS, "outer")


def _enter(plan: Plan, flags: int, args: tuple[Any, ...]) -> Any:
    trace = here.get(None)
    opened = trace is None
    if trace is None:
        trace = begin_live(plan)
        if trace is None:
            return _only_watched(plan, flags, args)
    recorder = recording.recorder()
    kind = FollowedTask if flags & CO_COROUTINE else FollowedGenerator if flags & PAUSES else FollowedCall
    call: Any = kind(plan, recorder, ())
    call.opened, call.clock_site, call.line = opened, plan.site(0, plan.clock_index), trace.at or None
    if trace.following.printer is not None:
        trace.tell_begin(call, args)
    keep = trace.following.keep
    for value, site in zip(args, plan.input_sites, strict=True):
        call.log += [call.started, call.clock_site]
        call.log += [value if type(value) in SCALARS else written(value, keep, recorder), site]
    _take_place(call, trace, flags)
    recorder.begin(call)
    return call


def begin_live(plan: Plan) -> Trace | None:
    """The same as `begin`, for a call with an object."""
    trace = begin(plan)
    if trace is OFF:
        return None
    found: Trace = trace
    if found.callers:
        found.callers = callers_of(sys._getframe(2).f_back)
    return found


def _take_place(call: Any, trace: Trace, flags: int) -> None:
    if not flags & CO_COROUTINE:
        call.step_in(trace)
        if not flags & PAUSES:
            call.place.call = call
        else:
            call.place = None
        return
    # told where it belongs, it goes on in a log of its own
    code = call.plan.marks[LIVE]
    trace += [code, clock(), call]
    trace += [code, clock(), None]
    call.outer = None if call.opened else trace
    if call.opened:
        trace.over = True
        if trace in roots:
            roots.remove(trace)
    own = trace.following.new_trace(call.recorder, trace.thread, trace.thread_name)
    own.tell_instead_of(trace)
    call.recorder.follow(own)
    if call.opened:
        roots.append(own)
    here.set(own)
    call.opened = False
    call.stand()
    call.step_in(own)


def _only_watched(plan: Plan, flags: int, args: tuple[Any, ...]) -> Any:
    """Outside any followed call: as `clew.watch` would have it, or not at all."""
    if not plan.always:
        return Silent()
    if flags & (CO_GENERATOR | CO_ASYNC_GENERATOR):
        return lines.enter_generator(plan, args)
    if flags & CO_COROUTINE:
        return lines.enter_coroutine(plan, args)
    return (lines.enter if plan.hooks is None else lines.enter_hooked)(plan, args)


class _Sink:
    __slots__ = ()

    def append(self, item: object) -> None:
        pass


class Silent:
    """A call that is not followed now: what it says is not heard."""

    __slots__ = ("at", "result", "stop_when", "when")
    log = _Sink()

    def __init__(self) -> None:
        self.when: dict[int, Any] = {}
        self.stop_when: dict[int, Any] = {}

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def note(self, index: int, value: Any, site: int) -> tuple[None, None]:
        return None, None

    def gone(self, index: int, site: int) -> None:
        return None

    lost = gone

    def failed_at(self, otherwise: int, error: BaseException | None = None) -> int:
        return otherwise

    def until_left(self, index: int, site: int) -> Silent:
        return self

    def hand_over(self) -> None:
        return None

    def stops(self) -> bool:
        return False

    def paused(self, value: Any) -> Any:
        return value

    resumed = paused

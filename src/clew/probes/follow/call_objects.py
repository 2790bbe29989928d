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

from clew import recording, trouble
from clew.instrument import runtime as lines
from clew.instrument.engine import PAUSES
from clew.recorder.call_log import LIVE, OFF, Busy, Trace, clock, here
from clew.recorder.plan import Plan
from clew.recorder.quiet_threads import is_quiet
from clew.recorder.quiet_threads import threads as quiet
from clew.values import SCALAR_IDS

from .call_contexts import callers_of
from .inherited_calls import roots
from .live_telling import Teller, TellingTrace
from .runtime import begin, end, merged, open_log, written


def entrance(plan: Plan, flags: int) -> Callable[[tuple[Any, ...]], Any]:
    """The way into a followed function that pauses or holds named variables."""
    return partial(_enter, plan, flags)


class _Followed:
    """What a watched call does besides, inside a followed one."""

    clocked = True
    pauses = False
    shown: Any = ()  # what printers know of it
    origin_is_known = False  # the log that it stands in tells its parent

    @trouble.entry_point()
    def __exit__(
        self: Any, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            lines.fail(self, error)
        self.ended = time_ns()
        result, self.result = self.result, None
        trace = self.trace
        trace.tell_end(self, result, error)
        if self.error is None:
            keep = trace.following.keep
            self.log.append(self.ended)
            self.log.append(self.clock_site)
            self.log.append(result if id(type(result)) in SCALAR_IDS else written(result, keep, self.recorder))
            self.log.append(self.plan.output_site)
        self.step_out()
        lines.leave(self, None)

    def _log(self: Any, written: Any, site: int, now: int) -> None:
        self.log.append(now)
        self.log.append(self.clock_site)
        super()._log(written, site, now)  # type: ignore[misc]

    def _changed(self: Any, index: int, value: Any, site: int, written: Any, before: Any) -> None:
        plan = self.plan
        if site < plan.base + plan.width and not plan.always:
            return  # an argument: recorded as such
        name = plan.names[index]
        if not plan.always and not any(request.wants(plan, name) for request in self.trace.requests):
            return  # asked for elsewhere
        super()._changed(index, value, site, written, before)  # type: ignore[misc]

    def step_in(self: Any, trace: Trace) -> None:
        """From here on what is called is called by this call."""
        self.trace, self.line_before, self.runs = trace, trace.at, True
        self.requests_before = trace.requests
        self.requests = trace.requests = merged(trace.requests, self.requests)
        trace += [self.plan.marks[LIVE], clock(), self]

    def step_out(self: Any) -> None:
        if not self.runs:
            return  # a generator that was thrown away where it paused
        self.runs = False
        trace = self.trace
        trace += [self.plan.marks[LIVE], clock(), None]
        trace.at = self.line_before
        trace.requests = self.requests_before
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

    pauses = True

    @trouble.entry_point(lambda call, value: value)
    def paused(self: Any, value: Any) -> Any:
        self.trace.tell_pause(self)
        self.step_out()
        return value

    @trouble.entry_point(lambda call, value: value)
    def resumed(self: Any, value: Any) -> Any:
        trace = here.get(None)
        if trace is None:
            trace, _ = open_log(self.trace.following, None)
            trace.requests = self.requests
            self.opened = True
        self.step_in(trace)
        trace.tell_resume(self)
        return value


class _InOwnLog:
    """A coroutine, since other tasks run while it waits; a function that is printed to a place of its own."""

    def step_out(self: Any) -> None:
        trace = self.trace
        trace += [self.plan.marks[LIVE], clock(), None]
        trace.over = True
        if trace in roots:
            roots.remove(trace)
        if here.get(None) is trace:
            here.set(self.outer)


class FollowedCall(_Followed, lines.WatchedHookedCall):
    """The call of a function that holds named variables."""


class FollowedGenerator(_Generating, _Followed, lines.PausingHookedCall):  # type: ignore[override]
    """The call of a generator."""


class FollowedAside(_InOwnLog, _Followed, lines.WatchedHookedCall):
    """The call of a function that is printed to a place of its own, inside another followed one."""


class FollowedTask(_InOwnLog, _Followed, lines.PausingHookedCall):  # type: ignore[override]
    """The call of a coroutine."""

    pauses = True


def _enter(plan: Plan, flags: int, args: tuple[Any, ...]) -> Any:
    try:
        if quiet and is_quiet():
            return lines.Silent()
        trace = here.get(None)
        opened = trace is None
        if trace is None:
            trace = begin_live(plan)
            if trace is None:
                return _only_watched(plan, flags, args)
        recorder = recording.recorder()
        log = _log_for(plan, trace, flags)
        kind: Any = FollowedTask if flags & CO_COROUTINE else FollowedGenerator if flags & PAUSES else FollowedCall
        if kind is FollowedCall and log is not trace:
            kind = FollowedAside
        keep = trace.following.keep
        arguments = tuple(arg if id(type(arg)) in SCALAR_IDS else written(arg, keep, recorder) for arg in args)
        call = kind(plan, recorder, arguments)
        call.opened, call.clock_site, call.line = opened, plan.site(0, plan.clock_index), trace.at or None
        call.callers = trace.callers if opened else None
        call.requests = () if plan.root is None else (plan.root,)
        if plan.root is not None and plan.root not in trace.requests:
            with Busy():
                plan.root.prepare()
        log.tell_begin(call, args)
        _take_place(call, trace, log, flags)
        recorder.begin(call)
        return call
    except Exception as error:
        return trouble.failed(error, "follow", lines.Silent())


def begin_live(plan: Plan) -> Trace | None:
    """The same as `begin`, for a call with an object."""
    trace, _, _ = begin(plan, sys._getframe(2))
    return None if trace is OFF else trace


def _log_for(plan: Plan, trace: Trace, flags: int) -> Trace:
    """Where a call goes on: in the log it begins in, or in one of its own, printed wherever that one is and besides."""
    root, is_coroutine = plan.root, bool(flags & CO_COROUTINE)
    tellers = trace.tellers if isinstance(trace, TellingTrace) else []
    prints = root is not None and root.prints_elsewhere and root.printer.destination not in _destinations(tellers)
    if not is_coroutine and (flags & PAUSES or not prints):
        return trace
    if is_coroutine:
        tellers = [Teller(teller.following, teller.current()) for teller in tellers]
    if prints:
        tellers = [*tellers, Teller(root)]
    log: Trace = trace.following.new_trace(trace.recorder, trace.thread, trace.thread_name, tellers)
    log.requests, log.at = trace.requests, trace.at
    log.callers = callers_of(sys._getframe(2).f_back) if prints else trace.callers
    return log


def _destinations(tellers: list[Teller]) -> set[Any]:
    return {teller.printer.destination for teller in tellers}


def _take_place(call: Any, trace: Trace, log: Trace, flags: int) -> None:
    if log is trace:
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
    log.at = 0
    call.recorder.follow(log)
    if call.opened:
        roots.append(log)
    here.set(log)
    call.opened = False
    if flags & PAUSES:
        call.stand()
    else:
        call.place.call = call
    call.step_in(log)


def _only_watched(plan: Plan, flags: int, args: tuple[Any, ...]) -> Any:
    """Outside any followed call: as `clew.watch` would have it, or not at all."""
    if not plan.always:
        return lines.Silent()
    if flags & (CO_GENERATOR | CO_ASYNC_GENERATOR):
        return lines.enter_generator(plan, args)
    if flags & CO_COROUTINE:
        return lines.enter_coroutine(plan, args)
    return (lines.enter if plan.hooks is None else lines.enter_hooked)(plan, args)

"""Hot: what followed functions call: when a tree of calls begins, for values that are no scalars, on exceptions."""

from __future__ import annotations

import os
import sys
from threading import get_ident
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from clew import recording, trouble
from clew.instrument import received_functions
from clew.instrument import runtime as lines
from clew.recorder.call_log import OFF, WAYS, Busy, Trace, busy, clock, here
from clew.recorder.how_calls_end import describe, how_it_ended, is_error
from clew.recorder.live_call import place_of, thread_name
from clew.recorder.plan import Plan
from clew.recorder.quiet_threads import is_quiet
from clew.recorder.quiet_threads import threads as quiet
from clew.text.values import load as load_texts
from clew.values import SCALAR_IDS, Keep, capture

from . import inherited_calls
from .call_contexts import way_to
from .inherited_calls import roots

if TYPE_CHECKING:
    from .following import Following

_parents: tuple[Following, ...] = ()  # in a forked child: what its parent followed


def enter(plan: Plan, trace: Any) -> tuple[Any, bool, int]:
    """The log for a call, whether this call is its outermost, and the line it was called at, or the way to it. `trace`
    is the log of the call around it, if any."""
    try:
        if quiet and is_quiet():
            return OFF, True, 0
        if trace is not None:
            return trace, False, trace.at
        if plan.root is None and not roots and not _parents:
            return OFF, True, 0  # nothing is followed anywhere
        return begin(plan, sys._getframe(1))
    except Exception as error:
        return trouble.failed(error, "follow", OFF), True, 0


def begin(plan: Plan, frame: FrameType) -> tuple[Any, bool, int]:
    """The same for a call outside any followed call: its log goes nowhere if it is not to be followed itself."""
    thread = get_ident()
    name = thread_name(thread)
    if thread in busy or name.startswith("clew-"):
        return OFF, True, 0
    following: Following | None = plan.root
    starter = _starter(thread) if roots else None
    around = _parents if starter is None else starter.requests
    if following is not None:
        trace, line = open_log(following, frame.f_back)
        way = trace.ways[-line % WAYS - 1]
        if not following.is_ready(way):
            with Busy():
                following.prepare(way)
    elif any(request.takes(plan) for request in around):
        trace, line = open_log(around[0], None, starter)
    else:
        return OFF, True, 0
    if around:
        trace.requests = merged(around, trace.requests)
    return trace, True, line


def _starter(thread: int) -> Trace | None:
    """The log of another thread to whose open call the calls of this one belong: it began in there."""
    for trace in roots[-1:]:
        if trace.thread != thread:
            trace.is_shared = True
            return trace if trace in roots else _starter(thread)
    return None


def merged(requests: tuple[Following, ...], more: tuple[Following, ...]) -> tuple[Following, ...]:
    """All of them, each once."""
    new = [request for request in more if request not in requests]
    return (*requests, *new) if new else requests


@trouble.entry_point()
def _before_fork() -> None:
    if roots:
        inherited_calls.remember_origin()


@trouble.entry_point()
def _in_child() -> None:
    """After a fork inside a followed call: the parent's calls go on there; what is called here begins trees here."""
    global _parents
    if roots:
        _parents = roots[-1].requests
        roots.clear()
        here.set(None)
        place_of(get_ident()).call = None


def _follow_arrived(function: FunctionType) -> None:
    """A function that is made while calls are followed, here or in the process this one was forked from."""
    for request in roots[-1].requests if roots else _parents:
        request.follow_if_in_scope(function, as_root=False)


received_functions.on_arrival(_follow_arrived)
os.register_at_fork(before=_before_fork, after_in_parent=inherited_calls.forget_origin, after_in_child=_in_child)


def open_log(following: Following, frame: FrameType | None, inside: Trace | None = None) -> tuple[Trace, int]:
    """A log for this thread or task, from here on, and the way to its outermost call: -(number + WAYS * call around).
    It is the log of the call before, if that can go on."""
    thread = get_ident()
    recorder, name = recording.open_recorder(), thread_name(thread)
    trace = None if recorder is None else recorder.traces.resting.pop((thread, following), None)
    if trace is None or trace.is_shared or trace.inside is not inside or trace.thread_name != name:
        if trace is not None:
            trace.over = True
        trace = _new_log(following, thread, name, inside)
    trace.requests = (following,)
    way = 0
    if inside is None:
        way = way_to(trace, frame)
        trace.callers = trace.ways[way - 1].callers
        around = place_of(thread).call
        if around is not None:
            trace.around = around
            around.moment(clock())
            if around.recorder is trace.recorder:
                way += WAYS * around.id
        roots.append(trace)
    trace.at = 0
    here.set(trace)
    return trace, -way


def _new_log(following: Following, thread: int, name: str, inside: Trace | None) -> Trace:
    with Busy():
        recorder = recording.recorder()
        inherited_calls.tell_children()
        if following.printer is not None:
            load_texts()
    trace = following.new_trace(recorder, thread, name)
    trace.inside = inside
    if inside is None:
        trace.origin = inherited_calls.origin
    else:
        trace.tell_inside(inside)
    recorder.follow(trace)
    return trace


def end(trace: Any) -> None:
    """The call that opened this log is over."""
    try:
        if trace is OFF:
            return
        here.set(None)
        around = trace.around
        if around is not None:
            trace.around = None
            around.moment(clock())
        if trace.inside is None and trace in roots:
            roots.remove(trace)
        if type(trace) is not Trace or trace.is_shared or trace.way or len(trace.ways) >= WAYS - 1:
            trace.over = True
        else:
            key = trace.thread, trace.following
            if trace.recorder.traces.resting.setdefault(key, trace) is not trace:
                trace.over = True  # meanwhile another greenlet has left its own
    except Exception as error:
        trouble.failed(error, "follow")


@trouble.entry_point(lambda trace, values: (None,) * len(values))
def looked_at(trace: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is written of arguments of which at least one is no scalar."""
    if trace is OFF:
        return values
    keep, recorder = trace.following.keep, trace.recorder
    with Busy():
        return tuple([value if id(type(value)) in SCALAR_IDS else written(value, keep, recorder) for value in values])


@trouble.entry_point()
def looked_at_one(trace: Any, value: Any) -> Any:
    if trace is OFF:
        return None
    with Busy():
        return written(value, trace.following.keep, trace.recorder)


def written(value: Any, keep: Keep, recorder: Any) -> Any:
    """The written form of an argument or result."""
    found = capture(value, keep).value
    if found.parts:
        recorder.hold(found)
    return found


@trouble.entry_point()
def relieve(trace: Any) -> None:
    """What is in the log should have been written by now: the program waits until it is."""
    trace.recorder.relieve()


@trouble.entry_point(lambda code, trace, line, own: ())
def raised(code: int, trace: Any, line: int, own: bool) -> tuple[()]:
    """An exception leaves a followed function: told, and not caught."""
    error = sys.exc_info()[1]
    if error is not None and is_error(error, RecursionError, KeyboardInterrupt):
        lines.without_ours(error)
    if trace is not OFF:
        now = clock()
        trace += [code, now, describe(error)]
        trace.at = line
        if now > trace.due:
            relieve(trace)
        if is_error(error, SystemExit, KeyboardInterrupt):
            trace.recorder.last_exit = how_it_ended(error)
        if own:
            end(trace)
    return ()

"""Hot: what followed functions call: when a tree of calls begins, for values that are no scalars, on exceptions."""

from __future__ import annotations

import os
import sys
from threading import get_ident
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from clew import env, recording, trouble
from clew.probes import receiving
from clew.probes.lines import runtime as lines
from clew.recorder.endings import describe, how_it_ended, is_error
from clew.recorder.live import place_of, thread_name
from clew.recorder.plan import Plan
from clew.recorder.quiet import is_quiet
from clew.recorder.trace import OFF, Busy, Trace, busy, clock, here
from clew.values import SCALAR_IDS, Keep, capture

from . import inherit

if TYPE_CHECKING:
    from .following import Following

_FRAMES = 16  # told of what is around a root
_COMMANDS = f"{env.PACKAGE}commands/"
_parents: tuple[Following, ...] = ()  # in a forked child: what its parent followed
roots: list[Trace] = []  # logs that are open, for threads that begin meanwhile


def enter(plan: Plan, trace: Any) -> tuple[Any, bool]:
    """The log for a call, and whether this call is its first. `trace` is the log of the call around it, if any."""
    try:
        if is_quiet():
            return OFF, True
        return (begin(plan, sys._getframe(1)), True) if trace is None else (trace, False)
    except Exception as error:
        return trouble.failed(error, "follow", OFF), True


def begin(plan: Plan, frame: FrameType) -> Any:
    """The log for a call outside any followed call: a new one if it is to be followed itself, else one to nowhere."""
    thread = get_ident()
    if thread in busy or thread_name(thread).startswith("clew-"):
        return OFF
    following: Following | None = plan.root
    # a thread that began inside a followed call: its calls belong to that one
    starter = roots[-1] if roots and roots[-1].thread != thread else None
    around = _parents if starter is None else starter.requests
    if following is not None:
        with Busy():
            following.prepare()
        trace = open_trace(following, frame.f_back)
    elif any(request.takes(plan) for request in around):
        trace = open_trace(around[0], None, starter)
    else:
        return OFF
    trace.requests = merged(around, trace.requests)
    return trace


def merged(requests: tuple[Following, ...], more: tuple[Following, ...]) -> tuple[Following, ...]:
    """All of them, each once."""
    new = [request for request in more if request not in requests]
    return (*requests, *new) if new else requests


@trouble.entry_point()
def _before_fork() -> None:
    if roots:
        inherit.remember_origin()


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


receiving.on_arrival(_follow_arrived)
os.register_at_fork(before=_before_fork, after_in_parent=inherit.forget_origin, after_in_child=_in_child)


def open_trace(following: Following, frame: FrameType | None, inside: Trace | None = None) -> Trace:
    """A log for this thread or task, from here on."""
    thread = get_ident()
    with Busy():
        recorder = recording.recorder()
        if inside is None:
            inherit.tell_children(following)
    trace = following.new_trace(recorder, thread, thread_name(thread))
    if inside is None:
        trace.around = around = place_of(thread).call
        trace.inside = None if around is None else around.id
        trace.callers = callers_of(frame)
        trace.origin = inherit.origin
        roots.append(trace)
    else:
        trace.inside = inside
        trace.tell_inside(inside)
    if trace.around is not None:
        trace.around.moment(clock())
    recorder.follow(trace)
    here.set(trace)
    return trace


@trouble.entry_point()
def end(trace: Any) -> None:
    """The call that opened this log is over."""
    if trace is not OFF:
        here.set(None)
        trace.over = True
        if trace.around is not None:
            trace.around.moment(clock())
        if trace in roots:
            roots.remove(trace)
            if not roots:
                inherit.tell_children_no_more()


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


def callers_of(frame: FrameType | None, most: float = _FRAMES) -> list[tuple[str, int, str]]:
    """The frames around a call, innermost first."""
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < most:
        code = frame.f_code
        if code.co_filename.startswith(_COMMANDS) or frame.f_globals is vars(sys):
            break  # the program begins here: what is around it is `clew run`
        if not code.co_filename.startswith(env.PACKAGE):
            found.append((code.co_filename, frame.f_lineno or 0, code.co_qualname))
        frame = frame.f_back
    return found

"""Hot: what followed functions call: when a tree of calls begins, for values that are no scalars, on exceptions."""

from __future__ import annotations

import os
import sys
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any

from clew import env, recording
from clew.probes.lines import runtime as lines
from clew.recorder.endings import describe, how_it_ended
from clew.recorder.live import place_of, thread_name
from clew.recorder.plan import Plan
from clew.recorder.trace import OFF, Busy, Trace, busy, clock, here
from clew.values import SCALARS, Keep, capture

from . import inherit

if TYPE_CHECKING:
    from .following import Following

_FRAMES = 16  # told of what is around a root
_COMMANDS = f"{env.PACKAGE}commands/"
MOST_ITEMS = 2_000_000  # in a log, some hundred megabytes, before the program writes it itself
_parents: Following | None = None  # in a forked child: how its parent followed calls
roots: list[Trace] = []  # logs that are open, for threads that begin meanwhile


def begin(plan: Plan) -> Any:
    """The log for a call outside any followed call: a new one if it is to be followed itself, else one to nowhere."""
    thread = get_ident()
    if thread in busy or thread_name(thread).startswith("clew-"):
        return OFF
    following: Following | None = plan.root
    if following is not None:
        with Busy():
            following.prepare()
        return open_trace(following, sys._getframe(1).f_back)
    if _parents is not None and _parents.takes(plan):
        return open_trace(_parents, None)
    # a thread that began inside a followed call: its calls belong to that one
    if roots and roots[-1].thread != thread and roots[-1].following.takes(plan):
        return open_trace(roots[-1].following, None, roots[-1])
    return OFF


def _before_fork() -> None:
    if roots:
        inherit.remember_origin()


def _in_child() -> None:
    """After a fork inside a followed call: the parent's calls go on there; what is called here begins trees here."""
    global _parents
    if roots:
        _parents = roots[-1].following
        roots.clear()
        here.set(None)


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
        if _is_worker():
            trace.recorder.flush_soon()


def _is_worker() -> bool:
    """Whether this is a child of multiprocessing, which a pool may end at any time without a word."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def looked_at(trace: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is written of arguments of which at least one is no scalar."""
    if trace is OFF:
        return values
    keep, recorder = trace.following.keep, trace.recorder
    with Busy():
        return tuple([value if type(value) in SCALARS else written(value, keep, recorder) for value in values])


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


def relieve(trace: Any) -> None:
    """The log has grown faster than it was taken: the program waits until it is written."""
    trace.recorder.flush()


def raised(code: int, trace: Any, line: int, own: bool) -> tuple[()]:
    """An exception leaves a followed function: told, and not caught."""
    error = sys.exc_info()[1]
    if isinstance(error, RecursionError | KeyboardInterrupt):
        lines.without_ours(error)
    if trace is not OFF:
        trace += [code, clock(), describe(error)]
        trace.at = line
        if isinstance(error, SystemExit | KeyboardInterrupt):
            trace.recorder.last_exit = how_it_ended(error)
        if own:
            end(trace)
    return ()


def callers_of(frame: FrameType | None) -> list[tuple[str, int, str]]:
    """The frames around a call, innermost first."""
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < _FRAMES:
        code = frame.f_code
        if code.co_filename.startswith(_COMMANDS):
            break  # the program begins here: what is around it is `clew run`
        if not code.co_filename.startswith(env.PACKAGE):
            found.append((code.co_filename, frame.f_lineno or 0, code.co_qualname))
        frame = frame.f_back
    return found

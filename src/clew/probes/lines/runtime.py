"""Hot: what instrumented code calls when a call begins, fails and ends."""

from __future__ import annotations

import sys
from time import time_ns
from typing import Any

from clew import recording
from clew.recorder.endings import describe, how_it_ended
from clew.recorder.live import LiveCall, current_call, scalar_or_type
from clew.recorder.plan import Plan
from clew.values import SCALARS

from .hooks import HookedCall


def enter(plan: Plan, args: tuple[Any, ...]) -> LiveCall:
    """Begin a call that has its own place in the tree until it leaves."""
    call = LiveCall(plan, recording.recorder(), tuple(map(scalar_or_type, args)))
    current_call.set(call)
    call.recorder.begin(call)
    return call


def enter_generator(plan: Plan, args: tuple[Any, ...]) -> LiveCall:
    """Begin a call that gives way to its caller at every `yield`, so that it is nobody's parent."""
    call = LiveCall(plan, recording.recorder(), tuple(map(scalar_or_type, args)))
    call.recorder.begin(call)
    return call


def enter_hooked(plan: Plan, args: tuple[Any, ...]) -> LiveCall:
    """Begin a call whose changes are judged at once, because hooks want to know."""
    call = HookedCall(plan, recording.recorder(), tuple(map(scalar_or_type, args)))
    current_call.set(call)
    call.recorder.begin(call)
    return call


def fail(call: LiveCall) -> None:
    """An exception leaves the function: what did it change on its way, and what is it?"""
    error = sys.exc_info()[1]
    if call.tracked and error is not None and error.__traceback__ is not None:
        call.check(call.plan.site(call.plan.statement_at(error.__traceback__.tb_lineno)))
    if isinstance(error, SystemExit | KeyboardInterrupt):
        call.recorder.last_exit = how_it_ended(error)
    if not isinstance(error, GeneratorExit):
        call.error = describe(error)


def leave(call: LiveCall, result: Any) -> None:
    """The call is over, one way or the other."""
    if result is not None:
        call.result = result if type(result) in SCALARS else scalar_or_type(result)
    if current_call.get() is call:
        current_call.set(call.parent)
    call.tracked.clear()
    call.ended = time_ns()
    call.recorder.end(call)
    if call.plan.on_return:
        recording.tell_return(call)


def clean(listing: Any) -> Any:
    """What `locals()`, `vars()` and `dir()` gave, without the names clew has put into the function."""
    if type(listing) is dict:
        for name in [name for name in listing if type(name) is str and name.startswith(".clew_")]:
            del listing[name]
    elif type(listing) is list:
        listing[:] = [name for name in listing if type(name) is not str or not name.startswith(".clew_")]
    return listing

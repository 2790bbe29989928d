"""Hot: what instrumented code calls when a call begins, fails and ends."""

from __future__ import annotations

import weakref
from time import time_ns
from types import TracebackType
from typing import Any

from clew import env, recording
from clew.recorder.endings import describe, how_it_ended
from clew.recorder.live import LiveCall, scalar_or_type
from clew.recorder.plan import Plan
from clew.values import SCALARS, Capture

from .hooks import HookedCall


def enter(plan: Plan, args: tuple[Any, ...]) -> LiveCall:
    """Begin a call that has its own place in the tree until it leaves."""
    call = WatchedCall(plan, recording.recorder(), tuple(map(scalar_or_type, args)))
    call.place.call = call  # type: ignore[union-attr]
    call.recorder.begin(call)
    return call


def enter_hooked(plan: Plan, args: tuple[Any, ...]) -> LiveCall:
    """Begin a call whose changes are judged at once, because hooks want to know."""
    call = WatchedHookedCall(plan, recording.recorder(), tuple(map(scalar_or_type, args)))
    call.place.call = call  # type: ignore[union-attr]
    call.recorder.begin(call)
    return call


def enter_generator(plan: Plan, args: tuple[Any, ...]) -> LiveCall:
    """Begin a call that gives way to its caller at every `yield`, so that it is nobody's parent."""
    kind = PausingCall if plan.hooks is None else PausingHookedCall
    call = kind(plan, recording.recorder(), tuple(map(scalar_or_type, args)))
    call.place = None
    call.recorder.begin(call)
    return call


def enter_coroutine(plan: Plan, args: tuple[Any, ...]) -> LiveCall:
    """Begin a call that pauses while other tasks run: its place in the tree is its own task's only."""
    kind = PausingCall if plan.hooks is None else PausingHookedCall
    call = kind(plan, recording.recorder(), tuple(map(scalar_or_type, args)))
    call.stand()
    call.recorder.begin(call)
    return call


def _enter_frame(call: LiveCall) -> LiveCall:
    return call


def _leave_frame(
    call: LiveCall, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
) -> None:
    if error is not None:
        fail(call, error)
    leave(call, call.result)


def _as_it_is(call: LiveCall, value: Any) -> Any:
    return value


class WatchedCall(LiveCall):
    """A call around whose body instrumented code puts `with`: of all statements only that one gives an exception back
    to the frame as if it had not been looked at (`f_lineno` of a frame that was left stays at the failing line).

    Code that is followed as well says its line, and when it pauses: a call that is only watched does not need that.
    """

    __slots__ = ("at",)
    __enter__ = _enter_frame
    __exit__ = _leave_frame
    paused = resumed = _as_it_is


class WatchedHookedCall(HookedCall):
    """The same, with hooks."""

    __slots__ = ("at",)
    __enter__ = _enter_frame
    __exit__ = _leave_frame
    paused = resumed = _as_it_is


class Tracked(dict[int, tuple[Any, Capture]]):
    """The mutable values a paused call looks at. It belongs to the frame, so that it dies with it."""

    __slots__ = ("__weakref__",)


_tracked: Any = LiveCall.__dict__["tracked"]  # the slot


class _Pausing:
    """It can be dropped half way, and can hold itself: the recorder, which holds the call, must not hold it."""

    __slots__ = ()

    @property
    def tracked(self) -> dict[int, tuple[Any, Capture]]:
        held = _tracked.__get__(self)
        if type(held) is weakref.ref:
            held = held()
        return Tracked() if held is None else held

    @tracked.setter
    def tracked(self, empty: object) -> None:
        _tracked.__set__(self, Tracked())

    def hand_over(self) -> Tracked:
        """Called once by the frame, which holds what it gets."""
        tracked: Tracked = _tracked.__get__(self)
        _tracked.__set__(self, weakref.ref(tracked))
        return tracked


class PausingCall(_Pausing, WatchedCall):
    """The call of a generator or coroutine."""

    __slots__ = ()


class PausingHookedCall(_Pausing, WatchedHookedCall):
    """The same, with hooks."""

    __slots__ = ()


def fail(call: LiveCall, error: BaseException) -> None:
    """An exception leaves the function: what did it change on its way, and what is it?"""
    if isinstance(error, RecursionError | KeyboardInterrupt):
        without_ours(error)
    if call.tracked:
        call.check(call.failed_at(call.plan.site(0), error))
    if isinstance(error, SystemExit | KeyboardInterrupt):
        call.recorder.last_exit = how_it_ended(error)
    if not isinstance(error, GeneratorExit):
        call.error = describe(error)


def leave(call: LiveCall, result: Any) -> None:
    """The call is over, one way or the other."""
    if result is not None:
        call.result = result if type(result) in SCALARS else scalar_or_type(result)
    call.stand_down()
    call.tracked.clear()
    call.ended = time_ns()
    call.recorder.end(call)
    if call.plan.on_return:
        recording.tell_return(call)


def _line(traceback: TracebackType) -> int | None:
    return traceback.tb_lineno  # None on code that is on no line, whatever typeshed says


def _begins_in_ours(error: BaseException) -> bool:
    traceback = error.__traceback__
    return traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(env.PACKAGE)


def without_ours(error: BaseException) -> None:
    """The stack ran out, or Ctrl-C came, inside clew: what the user sees ends in the user's own code."""
    before = None
    here = error.__traceback__
    while here is not None and not here.tb_frame.f_code.co_filename.startswith(env.PACKAGE):
        before, here = here, here.tb_next
    if before is None:
        return
    if here is not None:
        before.tb_next = None
    while (inner := error.__context__) is not None and _begins_in_ours(inner):
        error.__context__ = inner.__context__  # clew's own attempt to make do with the rest of the stack
    # there was not even room to call __exit__ for the first error: put that one's story in place of the second's
    first = error.__context__
    if (
        isinstance(first, RecursionError)
        and isinstance(error, RecursionError)
        and _line(before) is None
        and first.__traceback__ is not None
        and first.__traceback__.tb_frame is before.tb_frame
    ):
        error.args = first.args
        error.__context__ = first.__context__
        outer = error.__traceback__
        if outer is before:
            error.__traceback__ = first.__traceback__
        while outer is not None and outer is not before:
            if outer.tb_next is before:
                outer.tb_next = first.__traceback__
                break
            outer = outer.tb_next


def clean(listing: Any) -> Any:
    """What `locals()`, `vars()` and `dir()` gave, without the names clew has put into the function."""
    if type(listing) is dict:
        for name in [name for name in listing if type(name) is str and name.startswith(".clew_")]:
            del listing[name]
    elif type(listing) is list:
        listing[:] = [name for name in listing if type(name) is not str or not name.startswith(".clew_")]
    return listing

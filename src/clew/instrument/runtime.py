"""Hot: what instrumented code calls when a call begins, fails and ends."""

from __future__ import annotations

import builtins
import weakref
from time import time_ns
from types import TracebackType
from typing import Any, Final

from clew import env, recording, trouble
from clew.recorder.how_calls_end import describe, how_it_ended, is_error
from clew.recorder.live_call import LiveCall, scalar_or_type
from clew.recorder.plan import Plan
from clew.recorder.quiet_threads import is_quiet
from clew.recorder.quiet_threads import threads as quiet
from clew.values import SCALAR_IDS, Capture

from .change_hooks import HookedCall, tell_return


class _Sink:
    __slots__ = ()

    def append(self, item: object) -> None:
        pass


class Silent:
    """A call that is not recorded: what it says is not heard."""

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

    def evaluating_thread(self) -> int:
        return 0

    def stops(self) -> bool:
        return False

    def paused(self, value: Any) -> Any:
        return value

    resumed = paused


def expected_types(plan: Plan, call: LiveCall | Silent) -> list[type | None]:
    """The types whose values instrumented code appends to this call's log by itself; None: not those of this name."""
    return plan.expected.copy() if isinstance(call, WatchedCall) else [None] * len(plan.expected)


def enter(plan: Plan, args: tuple[Any, ...]) -> LiveCall | Silent:
    """Begin a call that has its own place in the tree until it leaves."""
    try:
        if quiet and is_quiet():
            return Silent()
        call = WatchedCall(plan, recording.recorder(), _noted(args))
        call.place.call = call  # type: ignore[union-attr]
        call.recorder.begin(call)
        return call
    except Exception as error:
        return trouble.failed(error, "enter", Silent())  # type: ignore[no-any-return]


def _noted(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is kept of arguments: scalars as they are, of anything else the type."""
    for arg in args:
        if id(type(arg)) not in SCALAR_IDS:
            return tuple(map(scalar_or_type, args))
    return args


def enter_hooked(plan: Plan, args: tuple[Any, ...]) -> LiveCall | Silent:
    """Begin a call whose changes are judged at once, because hooks want to know."""
    try:
        if quiet and is_quiet():
            return Silent()
        call = WatchedHookedCall(plan, recording.recorder(), _noted(args))
        call.place.call = call  # type: ignore[union-attr]
        call.recorder.begin(call)
        return call
    except Exception as error:
        return trouble.failed(error, "enter_hooked", Silent())  # type: ignore[no-any-return]


def enter_generator(plan: Plan, args: tuple[Any, ...]) -> LiveCall | Silent:
    """Begin a call that gives way to its caller at every `yield`, so that it is nobody's parent."""
    try:
        if quiet and is_quiet():
            return Silent()
        kind = PausingCall if plan.hooks is None else PausingHookedCall
        call = kind(plan, recording.recorder(), _noted(args))
        call.place = None
        call.recorder.begin(call)
        return call
    except Exception as error:
        return trouble.failed(error, "enter_generator", Silent())  # type: ignore[no-any-return]


def enter_coroutine(plan: Plan, args: tuple[Any, ...]) -> LiveCall | Silent:
    """Begin a call that pauses while other tasks run: its place in the tree is its own task's only."""
    try:
        if quiet and is_quiet():
            return Silent()
        kind = PausingCall if plan.hooks is None else PausingHookedCall
        call = kind(plan, recording.recorder(), _noted(args))
        call.stand()
        call.recorder.begin(call)
        return call
    except Exception as error:
        return trouble.failed(error, "enter_coroutine", Silent())  # type: ignore[no-any-return]


def _enter_frame(call: LiveCall) -> LiveCall:
    return call


def _leave_frame(
    call: LiveCall, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
) -> None:
    try:
        if error is not None:
            fail(call, error)
        result = call.result
        if result is not None and id(type(result)) not in SCALAR_IDS:
            call.result = scalar_or_type(result)
        call.place.call = call.parent  # type: ignore[union-attr]
        if call.tracked:
            call.tracked.clear()
        call.ended = time_ns()
        call.recorder.end(call)
        if call.plan.on_return:
            tell_return(call)
    except Exception as failure:
        call.place.call = call.parent  # type: ignore[union-attr]
        trouble.failed(failure, "leave")


@trouble.entry_point()
def _leave_pausing_frame(
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

    origin_is_known = True
    __enter__ = _enter_frame
    __exit__ = _leave_frame
    paused = resumed = _as_it_is


class WatchedHookedCall(HookedCall):
    """The same, with hooks."""

    origin_is_known = True
    __enter__ = _enter_frame
    __exit__ = _leave_frame
    paused = resumed = _as_it_is


class Tracked(dict[int, tuple[Any, Capture]]):
    """The mutable values a paused call looks at. It belongs to the frame, so that it dies with it."""

    __slots__ = ("__weakref__",)


class _Pausing:
    """It can be dropped half way, and can hold itself: the recorder, which holds the call, must not hold it."""

    _tracked: Any = None

    @property
    def tracked(self) -> dict[int, tuple[Any, Capture]]:
        held = self._tracked
        if type(held) is weakref.ref:
            held = held()
        return Tracked() if held is None else held

    def track(self, index: int, value: Any, now: Capture) -> None:
        self.tracked[index] = (value, now)

    @trouble.entry_point(lambda call: None)
    def hand_over(self) -> Tracked:
        """Called once by the frame, which holds what it gets."""
        tracked = Tracked()
        self._tracked = weakref.ref(tracked)
        return tracked


class PausingCall(_Pausing, WatchedCall):  # type: ignore[override]
    """The call of a generator or coroutine."""

    __exit__ = _leave_pausing_frame


class PausingHookedCall(_Pausing, WatchedHookedCall):  # type: ignore[override]
    """The same, with hooks."""

    __exit__ = _leave_pausing_frame


def fail(call: LiveCall, error: BaseException) -> None:
    """An exception leaves the function: what did it change on its way, and what is it?"""
    if is_error(error, RecursionError, KeyboardInterrupt):
        without_ours(error)
    if call.tracked:
        call.check(call.failed_at(call.plan.site(0), error))
    if is_error(error, SystemExit, KeyboardInterrupt):
        call.recorder.last_exit = how_it_ended(error)
    if not is_error(error, GeneratorExit):
        call.error = describe(error)


def leave(call: LiveCall, result: Any) -> None:
    """The call is over, one way or the other."""
    if result is not None:
        call.result = result if id(type(result)) in SCALAR_IDS else scalar_or_type(result)
    call.stand_down()
    call.tracked.clear()
    call.ended = time_ns()
    call.recorder.end(call)
    if call.plan.on_return:
        tell_return(call)


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


#: What rewritten code needs so that names of clew's are not seen.
HIDING: Final[dict[str, Any]] = {name: getattr(builtins, name) for name in ("globals", "locals", "eval", "exec")}


@trouble.entry_point(lambda listing: listing)
def clean(listing: Any) -> Any:
    """What `locals()`, `vars()` and `dir()` gave, without the names clew has put into the function."""
    if type(listing) is dict:
        for name in [name for name in listing if type(name) is str and name.startswith(".clew_")]:
            del listing[name]
    elif type(listing) is list:
        listing[:] = [name for name in listing if type(name) is not str or not name.startswith(".clew_")]
    return listing

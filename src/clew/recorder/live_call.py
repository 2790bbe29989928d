"""Hot: the buffers user code writes into. No locks, no formatting, no I/O; `list.append` is the only traffic.

A `LiveCall` is one call being recorded. Instrumented code appends to its `log`, flatly: value, site, value, site.
When each change was is known from looks at the log's length (log_sampling.py), from when calls inside began and ended,
and for values that are captured (`moment`).
A background thread (recorder.py) takes what is there; under the GIL a slice and a `del` of the slice are each one
step, and only whole pairs are taken, so neither side ever waits for the other.
"""

from __future__ import annotations

import itertools
import sys
import threading
from contextvars import ContextVar
from time import time_ns
from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.records import DELETED
from clew.values import AUTO, SCALAR_IDS, Capture, capture, unlooked

from .call_log import NO_CALL
from .interruptible_lists import Log
from .quiet_threads import is_quiet
from .quiet_threads import threads as quiet

if TYPE_CHECKING:
    from clew.recorder.plan import Plan
    from clew.recorder.recorder import Recorder

NOTHING_TRACKED: dict[int, Any] = {}  # what most calls track; never written to
MOMENT = -1  # in the place of a site: the value is the time at which a call inside this one began or ended
_call_numbers = itertools.count(1)
_get_ident = threading.get_ident
_looking: set[int] = set()  # threads that are inside a capture
_threads: dict[int, Any] = threading._active  # type: ignore[attr-defined]  # no lock, unlike enumerate()


class Place:
    """Where in the tree of calls the code of one thread, or of one task, is: calls begun there belong to `call`.

    Calls that run through without a pause only write `call` in their thread's place. A context variable for each of
    them would be slower, would show in the program's contexts, and is not safe: on 3.11 a garbage collection inside
    `ContextVar.set` may run a finaliser, and a second `set` then frees what the first is reading.
    """

    __slots__ = ("call", "outer", "owner", "thread")

    def __init__(self, call: LiveCall | None, thread: int, owner: LiveCall | None = None) -> None:
        self.call = call
        self.thread = thread
        self.owner = owner  # the call that pauses (a coroutine, a block) and that this place was made for
        self.outer = _here.get() if owner is not None else None  # what to go back to when that call is over


_places: dict[int, Place] = {}  # by thread
_here: ContextVar[Place | None] = ContextVar("clew_here", default=None)  # inside a coroutine: its task's


def place_of(thread: int) -> Place:
    """The place of the code that asks."""
    here = _here.get() or _places.get(thread)
    return _place(thread) if here is None or here.thread != thread else here


def _place(thread: int) -> Place:
    """The place of the code that asks, at its first call in this thread or task."""
    here = _here.get()
    if here is None:
        return _places.setdefault(thread, Place(None, thread))
    if here.thread != thread:  # the context was copied into another thread
        here = Place(here.call, thread)
        _here.set(here)
    return here


def thread_name(thread: int) -> str:
    """Not by `threading.current_thread()`, which makes up a thread where another library has started one."""
    runner = _threads.get(thread)
    name: str = runner._name if runner is not None else str(thread)
    return name


def is_alive(thread: int) -> bool:
    """False also for one that another library has started, which nobody can tell."""
    return thread in _threads


class LiveCall:
    """One call being recorded: its log, and the captures of the mutable values its names hold.

    What most calls never need is not set when one begins: it stands here, for all of them.
    """

    stage: str | None = None
    clocked = False  # before each change in its log stands when it was: a followed call
    parent_id: int | None = None  # inside a followed call: found out when that call's log is taken
    line: int | None = None  # in the caller
    clock = 0  # the last time that stood in its log; the drain's own
    callers: list[tuple[str, int, str]] | None = None  # the frames around it, if it is followed and has no parent
    dropped = False  # it turned out to be out of scope
    tracked: dict[int, tuple[Any, Capture]] = NOTHING_TRACKED  # by index of the name: the object and what it was
    result: Any = None
    error: str | None = None
    ended = 0
    last: list[Any] | None = None  # by index: the last value drained; the drain's own
    kept_counts: dict[int, int] | None = None  # thinning; the drain's own
    held: dict[int, Any] | None = None  # thinning; the drain's own
    timed = False  # moments stand in its log
    sampled = True  # changes stand in its log as soon as they have happened
    taken_until = 0  # when the last of its pairs that were taken may have been appended
    samples: list[list[int]] | None = None  # how many pairs there have been, each from when until when: log_sampling.py
    takes = 0  # how often pairs were taken out of its log, begun and ended; odd meanwhile
    taken_pairs = 0
    origin_is_known = False  # nothing but its parent must be asked of it later, and that is told already

    def __init__(self, plan: Plan, recorder: Recorder, args: tuple[Any, ...] = ()) -> None:
        self.plan = plan
        self.recorder = recorder
        self.args = args  # as many as the plan has sites for them
        self.id = next(_call_numbers)
        self.thread = thread = _get_ident()
        runner = _threads.get(thread)
        self.thread_name = runner._name if runner is not None else str(thread)  # it may be over before the drain
        place = _here.get() or _places.get(thread)
        if place is None or place.thread != thread:
            place = _place(thread)
        self.place: Place | None = place  # None: never anybody's parent
        self.parent = parent = place.call
        self.log = Log()
        self.started = self.drained_at = started = time_ns()
        if parent is not None:
            parent.moment(started)

    def moment(self, time: int) -> None:
        """A call begins or ends inside this one: what the log holds now was before that, and the rest comes after."""
        log = self.log
        # not in another thread's, nor where a signal's handler has come between a value and its site
        if _get_ident() != self.thread or len(log) & 1 or self.clocked:
            return
        try:
            if log[-1] == MOMENT and log[-3] == MOMENT:  # with nothing in between the first and the last say it all
                log[-2] = time
                return
        except IndexError:  # it is short, or was taken at this very moment
            pass
        log += (time, MOMENT)
        self.timed = True

    def parent_number(self) -> int:
        """The number of the call it was made in; NO_CALL at the root of a tree."""
        if self.parent_id is not None:
            return self.parent_id
        parent = self.parent
        return parent.id if parent is not None and parent.recorder is self.recorder else NO_CALL

    def event(self) -> tuple[Any, ...]:
        """The whole call, for the recorder: see short_calls.py."""
        origin = self.parent_number() if self.origin_is_known else self
        return (self.plan.short, self.id, origin, self.thread, self.thread_name, self.started, self.ended, self.error,
                self.result, *self.args, *self.log)  # fmt: skip

    def stand(self) -> None:
        """Be the parent of the calls begun from here on, through pauses: other tasks do not see it."""
        self.place = Place(self, self.thread, owner=self)
        _here.set(self.place)

    def stand_down(self) -> None:
        """Give the place back to the call around this one."""
        place = self.place
        if place is not None:
            place.call = self.parent
            if place.owner is self and _here.get() is place:
                _here.set(place.outer)

    def note(self, index: int, value: Any, site: int) -> tuple[type | None, Any]:
        """A value whose type is not the one expected. Gives the type to expect next, and what to do after statements.

        For an immutable value that is its type, and appending needs no call until another type comes. For a mutable
        one it is None, so that every binding comes through here, and `check` looks at it after each statement.
        """
        try:
            kind = type(value)
            if id(kind) in SCALAR_IDS:
                self.log.append(value)
                self.log.append(site)
                self.plan.expected[index] = kind
                if self.tracked:
                    self.tracked.pop(index, None)
                return kind, self.check if self.tracked else None
            before = self.tracked.get(index)
            if before is None or before[0] is not value or not before[1].unchanged(value):
                self._take(index, value, site, before)
            return None, self.check
        except Exception as error:
            return trouble.failed(error, "note", (None, None))  # type: ignore[no-any-return]

    def check(self, first_site: int) -> None:
        """After a statement that may have changed something in place: look at every mutable value."""
        try:
            for index, before in list(self.tracked.items()):
                if not before[1].unchanged(before[0]):
                    self._take(index, before[0], first_site + index, before)
        except Exception as error:
            trouble.failed(error, "check")

    def look(self, index: int, value: Any) -> Capture | None:
        """Capture a value; None if looking at another one has led here, through watched code of a library."""
        if self.thread in _looking:
            return None
        _looking.add(self.thread)
        try:
            return capture(value, self.plan.watched[index].keep or self.recorder.keep_for(self.plan.names[index]))
        finally:
            _looking.discard(self.thread)

    def track(self, index: int, value: Any, now: Capture) -> None:
        if self.tracked is NOTHING_TRACKED:
            self.tracked = {}
        self.tracked[index] = (value, now)

    def _take(self, index: int, value: Any, site: int, before: tuple[Any, Capture] | None) -> None:
        now = self.look(index, value)
        if now is None:
            return
        self.track(index, value, now)
        if before is None or before[1].digest != now.digest:
            moment = time_ns()  # capturing costs more than the clock: the time of this change is exact
            self.moment(moment)
            self.log.append(now.value)
            self.log.append(site)
            self.moment(moment)
            self.recorder.hold(now.value)

    @trouble.entry_point()
    def gone(self, index: int, site: int) -> Any:
        """A name was deleted, or a path leads nowhere any more. Gives what to do after statements."""
        self.tracked.pop(index, None)
        if self.plan.deletions:
            self.log.append(DELETED)
            self.log.append(site)
        return self.check if self.tracked else None

    @trouble.entry_point(lambda call, otherwise, error=None: otherwise)
    def failed_at(self, otherwise: int, error: BaseException | None = None) -> int:
        """The first site of the statement that the exception being handled comes from."""
        error = error or sys.exc_info()[1]
        traceback = None if error is None else vars(BaseException)["__traceback__"].__get__(error)
        line = traceback.tb_lineno if traceback is not None else None
        return otherwise if line is None else self.plan.site(self.plan.statement_at(line))

    @trouble.entry_point(lambda call: 0)
    def evaluating_thread(self) -> int:
        """The thread in which expressions are evaluated now; 0: they are not. A call that pauses asks each time."""
        return 0 if quiet and is_quiet() else _get_ident()

    def until_left(self, index: int, site: int) -> _UntilLeft:
        """For `except ... as name`: the name is gone when this is left."""
        return _UntilLeft(self, index, site)

    @trouble.entry_point()
    def lost(self, index: int, site: int) -> Any:
        """An expression cannot be evaluated just now: silence, not a change."""
        self.tracked.pop(index, None)
        return self.check if self.tracked else None


class _UntilLeft:
    __slots__ = ("_call", "_index", "_site")

    def __init__(self, call: LiveCall, index: int, site: int) -> None:
        self._call = call
        self._index = index
        self._site = site

    def __enter__(self) -> None:
        pass

    @trouble.entry_point()
    def __exit__(self, *error: object) -> None:
        self._call.gone(self._index, self._site)


def scalar_or_type(value: Any) -> Any:
    """What is kept of an argument or result nobody asked for: a scalar as it is, of anything else its type."""
    if id(type(value)) in SCALAR_IDS:
        return value
    return unlooked(value)


def as_it_is(value: Any) -> Any:
    """What a log holds of a value that was asked for: a scalar as it is, of anything else the written form."""
    return value if id(type(value)) in SCALAR_IDS else capture(value, AUTO).value


__all__ = ["AUTO", "LiveCall", "Place", "as_it_is", "place_of", "scalar_or_type", "thread_name"]

"""Hot: the log of followed calls of one thread or task. Followed functions write it themselves, some items an event.

    4 * plan + ENTER,  clock, line in the caller, argument, argument, ...
    4 * plan + RETURN, clock, result
    4 * plan + RAISE,  clock, the error as text
    4 * plan + LIVE,   clock, a LiveCall that begins or goes on; None: it pauses or is over

In place of the line an outermost call has the way that led to it and the watched call around it, as one number below 0:
-(number of the way + WAYS * number of the call). Such a log goes on with the next outermost call of its thread.
Scalars stand for themselves; of anything else its written form is there. Calls get their numbers, and parents, when the
log is taken (call_log_rows.py): the program does not pay for that. An event is added by one `+=`, so that Ctrl-C never
leaves half of one; and the items stand in the log without a tuple around them, because the garbage collector would look
at each tuple again and again, which took longer than all the rest.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from threading import get_ident
from time import time_ns
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from clew.recorder.live_call import LiveCall
    from clew.recorder.recorder import Recorder

NO_CALL: Final = -1
NO_LIMIT: Final = 1 << 30  # levels of calls
ENTER, RETURN, RAISE, LIVE = range(4)
WAYS: Final = 1 << 10  # numbers of ways that one log has room for
clock = time_ns


class Way(NamedTuple):
    """How the program comes to an outermost call."""

    callers: list[tuple[str, int, str]]  # the frames around it
    place: tuple[int, ...] | None  # where the program's own level is: see probes/follow/call_contexts.py
    codes: list[CodeType]  # what is known by its id, above and in the log


class Trace(list[Any]):
    """The log, and what is known of all calls in it."""

    __slots__ = (
        "__weakref__",
        "around",
        "at",
        "callers",
        "due",
        "following",
        "inside",
        "is_shared",
        "origin",
        "over",
        "plans",
        "recorder",
        "requests",
        "root",
        "stack",
        "thread",
        "thread_name",
        "way",
        "way_numbers",
        "ways",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, following: Any, thread: int, thread_name: str) -> None:
        self.recorder = recorder
        self.following = following  # depth and scope, asked when the log is taken
        self.requests: tuple[Any, ...] = (following,)  # whose names are followed where the program is now
        self.thread = thread
        self.thread_name = thread_name
        self.at = 0  # the line the innermost function is at
        self.due = recorder.due  # whoever writes later than this waits for the recorder
        self.ways: list[Way] = []  # that led to its outermost calls
        self.way_numbers: dict[tuple[int, ...], int] = {}
        self.way = 0  # of outermost calls that do not tell theirs: those of a block
        self.callers: list[tuple[str, int, str]] = []  # the frames around its outermost call
        self.around: LiveCall | None = None  # the watched call around its outermost call
        self.inside: Trace | None = None  # the log to whose outermost call the calls here belong
        self.is_shared = False  # there are such logs: this one does not go on when its call is over
        self.origin: tuple[str, int] | None = None  # shard and call in which this process was started
        self.root: int = NO_CALL  # its last outermost call, as far as the log was taken
        self.over = False  # nothing more will be written into it
        self.stack: list[int] = []  # open calls, as far as the log was taken; see call_log_rows.py
        self.plans: list[int] = []  # theirs

    # what a log that is heard does besides: see probes/follow/live_telling.py
    def tell_inside(self, other: Trace) -> None: ...
    def tell_begin(self, call: LiveCall, args: tuple[Any, ...]) -> None: ...
    def tell_pause(self, call: LiveCall) -> None: ...
    def tell_resume(self, call: LiveCall) -> None: ...
    def tell_end(self, call: LiveCall, result: Any, error: BaseException | None) -> None: ...

    # two logs are never the same, however little is in them
    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


class Off(deque[Any]):
    """Written into where nothing is recorded: it holds nothing."""

    __slots__ = ("at", "due")

    def __init__(self) -> None:
        super().__init__(maxlen=0)
        self.at = 0
        self.due = 1 << 63  # never


OFF = Off()
here: ContextVar[Trace | None] = ContextVar("clew_trace", default=None)
busy: list[int] = []  # threads in which clew itself is at work


class Busy:
    """While clew itself is at work in a thread: what it calls there is not followed."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer = here.get(None)
        if self._outer is not None:
            here.set(None)
        busy.append(get_ident())

    def __exit__(self, *error: object) -> None:
        busy.remove(get_ident())
        if self._outer is not None:
            here.set(self._outer)

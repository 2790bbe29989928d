"""What a probe knows of a piece of code before it runs: its function, the names looked at, the places they can change.

A *site* is one name at one statement. Sites of a plan are numbered in one block, statement by statement, so that the
hot path needs only an integer constant and `first site of the statement + index of the name` is the site.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from clew.records import Role
from clew.values import Keep

from .event_marks import Mark

RESERVED = 16  # site numbers below this are never given out
KINDS_OF_EVENTS = 4  # see call_log.py


@dataclass(frozen=True, slots=True)
class Thinning:
    """Which of a name's changes are written: every n-th, only the first n, only the last n of a call."""

    every: int = 1
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """One name or expression of a plan."""

    name: str
    role: Role = "value"
    keep: Keep | None = None  # None: as the run says
    thinning: Thinning | None = None
    mode: str | None = None  # of the model in which it is seen


class Plan:
    """The sites of one function (or module level) under one set of options."""

    __slots__ = (
        "always",
        "argument_sites",
        "at_module_level",
        "base",
        "called",
        "clock_index",
        "code",
        "dedupe",
        "deletions",
        "expected",
        "file",
        "from_star",
        "group",
        "hooks",
        "ignored",
        "input_sites",
        "line",
        "lines",
        "locals",
        "marks",
        "module",
        "name",
        "names",
        "number",
        "on_return",
        "output_site",
        "owners",
        "parameters",
        "result_site",
        "root",
        "short",
        "source",
        "thinned",
        "watched",
        "width",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        module: str,
        file: str,
        line: int,
        watched: tuple[Watched, ...],
        lines: list[int],
        ignored: list[bool],
        *,
        parameters: tuple[str, ...] = (),
        dedupe: bool = True,
        group: str | None = None,
        hooks: tuple[Any, ...] | None = None,
    ) -> None:
        self.name = name
        self.module = module
        self.file = file
        self.line = line
        self.watched = watched
        self.width = max(len(watched), 1)
        self.lines = lines
        self.ignored = ignored
        self.parameters = parameters
        self.dedupe = dedupe  # False: every row is a change already (hooks have judged it)
        self.deletions = True  # whether a name that is gone is a change
        self.group = group  # what the user asked for, when one request made several plans ("class Trainer")
        self.names = tuple(w.name for w in watched)
        self.hooks = hooks  # by name: what the user wants done with its changes
        self.owners: weakref.WeakSet[Any] = weakref.WeakSet()  # the functions it belongs to, while they live
        self.on_return: list[Callable[[Any], object]] = []  # called with each call that has ended, as readers see it
        self.called = False
        self.code: CodeType | None = None  # as its author wrote it, where the plan belongs to one function
        self.source: Callable[[], str | None] | None = None  # gives its source from `line` on, if that is known
        # by name: the type its values had last, if instrumented code may append those to a log by itself
        self.expected: list[type | None] = [None for each in watched if each.role in ("value", "step")]
        self.locals: list[str] = []  # the function's names, for a hint when one was never there
        self.at_module_level: list[str] = []  # likewise those of the script's own level
        self.from_star = False  # every local was asked for: none of them was asked for by name
        self.root: Any = None  # set for a function that is followed: how; its calls begin a tree
        self.always = True  # False: recorded only inside a followed call
        self.base = self.number = 0
        _register(self)
        self.marks = tuple(Mark(self.number * KINDS_OF_EVENTS + kind) for kind in range(KINDS_OF_EVENTS))
        self.short = Mark(self.number)  # see short_calls.py
        self.thinned = any(each.thinning is not None for each in watched)
        self.argument_sites: list[int] = []  # where a call's `args` are written,
        self.result_site = 0  # and its `result`; 0: they are not, or the probe does it
        self.input_sites = [self.site(0, i) for i, w in enumerate(watched) if w.role == "input"]
        self.output_site = next((self.site(0, i) for i, w in enumerate(watched) if w.role == "output"), 0)
        self.clock_index = next((i for i, w in enumerate(watched) if w.role == "clock"), -1)

    def site(self, statement: int, index: int = 0) -> int:
        return self.base + statement * self.width + index

    def statement_at(self, line: int) -> int:
        """The statement nearest above `line`, for changes noticed when an exception leaves the function."""
        best, best_line = 0, -1
        for number, start in enumerate(self.lines):
            if best_line < start <= line:
                best, best_line = number, start
        return best


class GrowingPlan(Plan):
    """A plan whose names are found out while the program runs. It has room for so many; then another is needed."""

    __slots__ = ("_indexes",)
    _FREE = Watched("")

    def __init__(self, name: str, module: str, file: str, line: int, room: int) -> None:
        watched = (Watched("step", "step"), *[self._FREE] * room)
        super().__init__(name, module, file, line, watched, [line], [False], dedupe=False)
        self.always = False  # names are asked for elsewhere
        self._indexes: dict[tuple[str, str | None], int] = {("step", None): 0}

    def site_of(self, name: str, mode: str | None = None) -> int | None:
        """The site of a name in this mode, new or known; None if there is no room left."""
        key = name, mode
        index = self._indexes.get(key)
        if index is None:
            with _lock:
                index = self._indexes.setdefault(key, len(self._indexes))
                if index >= self.width:
                    del self._indexes[key]
                    return None
                self.watched = (*self.watched[:index], Watched(name, mode=mode), *self.watched[index + 1 :])
                self.names = (*self.names[:index], name, *self.names[index + 1 :])
        return self.site(0, index)


_lock = threading.Lock()
_plans: list[Plan] = []
_bases: list[int] = []
_next = RESERVED


def _register(plan: Plan) -> None:
    global _next
    with _lock:
        plan.number = len(_plans)
        plan.base = _next
        _plans.append(plan)
        _bases.append(_next)
        _next += plan.width * max(len(plan.lines), 1)


def plan_of(site: int) -> Plan:
    """The plan a site number belongs to."""
    return _plans[bisect.bisect_right(_bases, site) - 1]


def plan_number(number: int) -> Plan:
    """The plan of this number."""
    return _plans[number]


def plans() -> list[Plan]:
    """Every plan made in this process, for the ledger."""
    with _lock:
        return list(_plans)

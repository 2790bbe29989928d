"""From the logs of followed calls to rows: numbers for calls, parents, inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.records import Origin
from clew.store.flush import EndColumns, StartColumns, written_callers

from .call_log import ENTER, LIVE, NO_CALL, NO_LIMIT, RAISE, RETURN, WAYS, Trace, Way
from .call_nesting import Events, Nest, nest
from .event_marks import Mark, blocks
from .plan import Plan, plan_number

if TYPE_CHECKING:
    from clew.recorder.row_columns import Rows

Column = npt.NDArray[np.int64]

_FEW = 48  # events that are read one by one as quickly


class _Numbers:
    """Numbers for calls that get theirs here; far from those that probes give. One flush at a time asks."""

    def __init__(self) -> None:
        self.next = 1 << 40

    def take(self, count: int = 1) -> int:
        """The first of so many."""
        self.next += count
        return self.next - count


_lean = _Numbers()


class _Part(NamedTuple):
    """What was read at once, as columns."""

    calls: Column
    parents: Column
    plans: Column
    started: Column
    lines: Column
    callers: Column
    ended: Column
    ends: Column
    sites: Column
    counts: Column
    owners: Column
    times: Column


class LeanRows:
    """What the logs of a flush held: what was read one by one, in lists, and what was read at once, in parts."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.parents: list[int] = []
        self.plans: list[int] = []
        self.started: list[int] = []
        self.lines: list[int] = []
        self.threads: list[tuple[int, int, str]] = []  # so many of the calls, in which thread
        self.callers: list[int] = []  # places in the texts below
        self._callers_texts: list[str | None] = [None]
        self._callers_of_ways: dict[int, int] = {}  # by id: their place among the texts
        self.origins: list[Origin] = []
        self.ended: list[int] = []
        self.ends: list[int] = []
        self.errors: dict[int, str] = {}  # by call
        self.sites: list[int] = []
        self.values: list[Any] = []
        self.counts: list[int] = []  # values of a call, one after the other
        self.owners: list[int] = []
        self.times: list[int] = []
        self._parts: list[_Part] = []
        self._threads: list[tuple[int, int, str]] = []  # of the calls in parts
        self._values: list[Any] = []  # in parts
        self._plans_of: dict[Any, dict[int, _Known]] = {}  # by what is followed, by number

    def take(self, trace: Trace, most_items: int | None = None) -> None:
        """Take whole events out of a log, all or about so many items. Another thread may be appending."""
        count = len(trace)
        if most_items is not None and most_items < count:
            count = next((at for at in range(most_items, count) if type(trace[at]) is Mark), count)
        items = trace[:count]
        del trace[:count]
        before = len(self.calls)
        for block in blocks(items):
            self._read(trace, block)
        self.threads.append((len(self.calls) - before, trace.thread, trace.thread_name))

    def _read(self, trace: Trace, items: list[Any]) -> None:
        """At once where that goes, and one by one where it does not."""
        if len(items) < 3 * _FEW:
            self._read_carefully(trace, items, 0, len(items))
            return
        events = Events(items, trace.following)
        done = 0
        while done < len(events):
            plain = events.plain_until(done)
            if plain - done > _FEW and self._may_be_quick(trace):
                done = self._read_quickly(trace, events, done, plain)
            careful = min(done + _FEW, len(events))
            until = int(events.at[careful]) if careful < len(events) else len(items)
            if done < careful:
                self._read_carefully(trace, items, int(events.at[done]), until)
            done = careful

    def _may_be_quick(self, trace: Trace) -> bool:
        """Not where calls are left out."""
        return trace.following.depth >= NO_LIMIT and min(trace.stack, default=1) > 0

    def _read_quickly(self, trace: Trace, events: Events, begin: int, end: int) -> int:
        """Events of calls in scope that begin and end. Gives how far that went."""
        found = self._nested(trace, events, begin, end)
        if not isinstance(found, Nest):
            end = begin + found
            if found <= _FEW:
                return begin
            found = self._nested(trace, events, begin, end)
            assert isinstance(found, Nest)
        _lean.take(len(found.parents))
        trace.stack[:], trace.plans[:] = found.stack, found.plans
        self._gather(trace, events, begin, end, found)
        return end

    def _nested(self, trace: Trace, events: Events, begin: int, end: int) -> Nest | int:
        kinds, numbers = events.kinds[begin:end], events.numbers[begin:end]
        lines = events.lines[begin:end]
        return nest(kinds, numbers, lines < 0, trace.stack, trace.plans, _outside(trace), _lean.next)

    def _gather(self, trace: Trace, events: Events, begin: int, end: int, found: Nest) -> None:
        at, kinds, numbers = events.at[begin:end], events.kinds[begin:end], events.numbers[begin:end]
        objects, enters = events.objects, found.enters
        lines = events.lines[begin:end][enters]
        parents, callers = self._roots(trace, found, lines)
        times = objects[at + 1].astype(np.int64)
        for place in np.flatnonzero(kinds == RAISE).tolist():
            self.errors[int(found.calls[place])] = objects[at[place] + 2]
        arities = events.of_plans(lambda plan: len(plan.input_sites), numbers)
        inputs = events.of_plans(lambda plan: min(plan.input_sites, default=0), numbers)
        outputs = events.of_plans(lambda plan: plan.output_site, numbers)
        count = np.where(enters, arities, kinds == RETURN)
        there = count > 0
        count = count[there]
        nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        self._values += objects[np.repeat((at + np.where(enters, 3, 2))[there], count) + nth].tolist()
        self._threads.append((len(found.parents), trace.thread, trace.thread_name))
        self._parts.append(
            _Part(
                calls=found.calls[enters],
                parents=parents,
                plans=numbers[enters],
                started=times[enters],
                lines=np.maximum(lines, 0),
                callers=callers,
                ended=found.calls[~enters],
                ends=times[~enters],
                sites=np.repeat(np.where(enters, inputs, outputs)[there], count) + nth,
                counts=count,
                owners=found.calls[there],
                times=times[there],
            )
        )

    def _roots(self, trace: Trace, found: Nest, lines: Column) -> tuple[Column, Column]:
        """The parents of calls that begin, now also of outermost ones, and their callers."""
        callers, parents = np.zeros(len(lines), np.int64), found.parents
        roots = np.flatnonzero(found.is_root)
        if not len(roots):
            return parents, callers
        calls = found.calls[found.enters][roots]
        trace.root = int(calls[-1])
        if trace.origin is not None:
            self.origins += [Origin(call, *trace.origin) for call in calls.tolist()]
        ways = -np.where(lines[roots] < 0, lines[roots], trace.way)
        known = np.array([0, *map(self._place_of_callers, trace.ways)])
        callers[roots] = known[ways % WAYS]
        parents[roots] = np.where(ways >= WAYS, ways // WAYS, parents[roots])
        return parents, callers

    def _place_of_callers(self, way: Way) -> int:
        place = self._callers_of_ways.get(id(way))
        if place is None:
            place = self._callers_of_ways[id(way)] = len(self._callers_texts)
            self._callers_texts.append(written_callers(way.callers))
        return place

    def _read_carefully(self, trace: Trace, items: list[Any], at: int, until: int) -> int:
        """Everything else: calls that are left out, exceptions, calls with an object of their own."""
        count = min(len(items), until)
        known = self._plans_of.setdefault(trace.following, {})
        while at < count:
            code, time = items[at], items[at + 1]
            number, kind = code >> 2, code & 3
            plan = known.get(number) or known.setdefault(number, _Known(plan_number(number), trace.following))
            at += 3
            in_scope = (plan.taken and len(trace.stack) <= trace.following.depth) or plan.is_asked_for_inside(trace)
            if kind == ENTER:
                given = items[at : at + plan.arity]
                self._enter(trace, plan if in_scope else None, number, time, items[at - 1], given)
                at += plan.arity
            elif kind == LIVE:
                self._live(items[at - 1], number, trace, in_scope)
            elif trace.stack:
                self._leave(trace, plan, number, time, items[at - 1], kind == RETURN)
        return at

    def _enter(self, trace: Trace, plan: _Known | None, number: int, time: int, line: int, given: list[Any]) -> None:
        if line < 0 and trace.stack:  # the end of what stands there was lost
            trace.stack.clear()
            trace.plans.clear()
        parent, callers = _nearest(trace), 0
        if plan is None:
            trace.stack.append(~parent)
            trace.plans.append(number * 4)
            return
        call = _lean.take()
        if not trace.stack:
            parent, callers = self._begin_root(trace, call, line, parent)
        trace.stack.append(call)
        trace.plans.append(number * 4)
        self.calls.append(call)
        self.parents.append(parent)
        self.plans.append(number)
        self.started.append(time)
        self.lines.append(max(line, 0))
        self.callers.append(callers)
        if given:
            self._row(call, time, plan.inputs, given)

    def _begin_root(self, trace: Trace, call: int, line: int, parent: int) -> tuple[int, int]:
        """The parent of an outermost call, and its callers."""
        trace.root = call
        if trace.origin is not None:
            self.origins.append(Origin(call, *trace.origin))
        around, way = divmod(-(line if line < 0 else trace.way), WAYS)
        return around or parent, self._place_of_callers(trace.ways[way - 1]) if way else 0

    def _leave(self, trace: Trace, plan: _Known, number: int, time: int, payload: Any, returned: bool) -> None:
        call = trace.stack.pop()
        if trace.plans.pop() != number * 4:
            call = _found(trace, number)
        if call <= 0:
            return
        if returned:
            self._row(call, time, [plan.output], [payload])
        else:
            self.errors[call] = payload
        self.ended.append(call)
        self.ends.append(time)

    def _row(self, call: int, time: int, sites: list[int], values: list[Any]) -> None:
        self.sites += sites
        self.values += values
        self.counts.append(len(values))
        self.owners.append(call)
        self.times.append(time)

    def _live(self, call: Any, number: int, trace: Trace, in_scope: bool) -> None:
        if call is None:
            if trace.stack:
                trace.stack.pop()
                if trace.plans.pop() != number * 4:
                    _found(trace, number)
            return
        nearest = _nearest(trace)
        if call.parent_id is None:
            is_root = not trace.stack
            call.parent_id = call.parent_number() if is_root and trace.inside is None else nearest
            call.dropped = not in_scope and not call.plan.always
            if is_root:
                trace.root = call.id
                if trace.origin is not None:
                    self.origins.append(Origin(call.id, *trace.origin))
                if trace.way:
                    call.callers = trace.ways[-trace.way % WAYS - 1].callers
        trace.stack.append(~nearest if call.dropped else call.id)
        trace.plans.append(number * 4)

    # ---- as columns

    def column(self, name: str) -> Column:
        """Of both kinds: first what was read one by one."""
        return np.concatenate([np.array(getattr(self, name), np.int64), *(getattr(part, name) for part in self._parts)])

    def all_values(self) -> list[Any]:
        return self.values + self._values

    def starts(self, function_of: Callable[[Plan], int], rank: int) -> StartColumns | None:
        calls = self.column("calls")
        if not len(calls):
            return None
        threads = self.threads + self._threads
        counts = [count for count, _, _ in threads]
        return StartColumns(
            call=calls,
            parent=self.column("parents"),
            function=self._functions(function_of),
            time=self.column("started"),
            thread=np.repeat(np.array([thread for _, thread, _ in threads], np.int64), counts),
            thread_names=_runs_of_names(threads),
            line=self.column("lines"),
            stage=None,
            callers=self._written_callers(),
            rank=rank,
        )

    def _written_callers(self) -> list[str | None] | None:
        places = self.column("callers")
        texts = np.array(self._callers_texts, np.object_)
        return texts[places].tolist() if places.any() else None

    def _functions(self, function_of: Callable[[Plan], int]) -> Any:
        numbers = self.column("plans")
        table = np.zeros(int(numbers.max()) + 1, np.int32)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            plan = plan_number(number)
            plan.called = True
            table[number] = function_of(plan)
        return table[numbers]

    def ended_columns(self) -> EndColumns | None:
        ended = self.column("ended")
        if not len(ended):
            return None
        return EndColumns(ended, self.column("ends"), sparse(self.errors, ended))

    def add_to(self, rows: Rows) -> None:
        """The inputs and outputs, among the rows of the flush."""
        values = self.all_values()
        if values:
            times, sites = self.column("times"), self.column("sites").astype(np.int32)
            rows.keep_many(sites, values, (self.column("counts"), self.column("owners"), times, times))


def _runs_of_names(threads: list[tuple[int, int, str]]) -> list[tuple[str, int]]:
    """Each name with how many calls follow each other under it: few, where every call has a log of its own."""
    return [(name, sum(count for count, _, _ in run)) for name, run in groupby(threads, itemgetter(2))]


def sparse(texts: dict[int, Any], calls: Column) -> list[str | None] | None:
    """The texts of a few of the calls; None if there are none."""
    if not texts:
        return None
    column: list[str | None] = [None] * len(calls)
    for place in np.flatnonzero(np.isin(calls, list(texts))).tolist():
        column[place] = texts[int(calls[place])]
    return column


def _nearest(trace: Trace) -> int:
    """The innermost open call that is recorded. In place of one that is left out stands what it is in, inverted."""
    if trace.stack:
        call = trace.stack[-1]
        return call if call > 0 else ~call
    return _outside(trace)


def _outside(trace: Trace) -> int:
    """The call that the first calls of a log belong to."""
    inside = trace.inside
    return NO_CALL if inside is None else inside.root


def _found(trace: Trace, number: int) -> int:
    """An end that is not that of the innermost call (Ctrl-C came between): that of the next one of its function."""
    while trace.plans:
        call = trace.stack.pop()
        if trace.plans.pop() == number * 4:
            return call
    return 0


class _Known:
    """What reading needs to know of a plan."""

    __slots__ = ("arity", "inputs", "output", "plan", "taken")

    def __init__(self, plan: Plan, following: Any) -> None:
        self.plan = plan
        self.inputs = plan.input_sites
        self.arity = len(plan.input_sites)
        self.output = plan.output_site
        self.taken: bool = following.takes(plan)

    def is_asked_for_inside(self, trace: Trace) -> bool:
        """Whether a call now is in scope of a request of its own, or of an open call's."""
        level = len(trace.stack)
        requests = [
            (level, self.plan.root),
            *((at, plan_number(code >> 2).root) for at, code in enumerate(trace.plans)),
        ]
        return any(
            root is not None
            and root is not trace.following
            and root.brings_names
            and root.takes(self.plan)
            and level - at <= root.depth
            for at, root in requests
        )

"""From the logs of followed calls to rows: numbers for calls, parents, inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.store.flush import EndColumns, StartColumns, written_callers

from . import numbers
from .numberlane import Block
from .plan import Plan, plan_number
from .trace import ENTER, LIVE, NO_CALL, RETURN, Trace

if TYPE_CHECKING:
    from clew.recorder.columns import Rows


_PATIENCE = 16  # items


class _Numbers:
    """Numbers for calls that get theirs here; far from those that probes give. One flush at a time asks."""

    def __init__(self) -> None:
        self.next = 1 << 40

    def take(self) -> int:
        self.next += 1
        return self.next - 1


_lean = _Numbers()


class _OutOfScopeError(Exception):
    """A call that is left out: the quick way ends before it."""


def _length(code: int, trace: Trace) -> int:
    """Items of the event with which a call of this kind begins."""
    plan = plan_number(code >> 2)
    if not trace.following.takes(plan):
        raise _OutOfScopeError
    return 3 + len(plan.input_sites)


class LeanRows:
    """What the logs of a flush held, as columns."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.parents: list[int] = []
        self.plans: list[int] = []
        self.started: list[int] = []
        self.lines: list[int] = []
        self.threads: list[tuple[int, int, str]] = []  # so many of the calls, in which thread
        self.callers: dict[int, list[tuple[str, int, str]]] = {}  # by call
        self.ended: list[int] = []
        self.ends: list[int] = []
        self.errors: dict[int, str] = {}  # by place among the ended
        self.sites: list[int] = []
        self.values: list[Any] = []
        self.counts: list[int] = []  # values of a call, one after the other
        self.owners: list[int] = []
        self.times: list[int] = []

    def take(self, trace: Trace) -> None:
        """Empty a log. Another thread may be appending."""
        count = len(trace)
        items = trace[:count]
        del trace[:count]
        before = len(self.calls)
        self._read(trace, items)
        self.threads.append((len(self.calls) - before, trace.thread, trace.thread_name))

    def _read(self, trace: Trace, items: list[Any]) -> None:
        """By turns: quickly while that goes, and carefully for a while where it does not."""
        at, patience = 0, _PATIENCE
        while at < len(items):
            begin = at
            at = self._read_quickly(trace, items, at)
            patience = _PATIENCE if at - begin > patience else 2 * patience
            at = self._read_carefully(trace, items, at, at + patience)

    def _read_quickly(self, trace: Trace, items: list[Any], at: int) -> int:
        """As far as there is nothing but calls in scope that begin and return. Gives how far that is.

        The loop only finds out who called whom: a million calls go through it, and the program waits meanwhile.
        Columns are gathered afterwards.
        """
        if trace.following.depth < len(items) or trace.callers or not trace.stack or min(trace.stack) <= 0:
            return at
        stack, plans = trace.stack, trace.plans
        lengths: dict[int, int] = {}  # by code
        enters: list[int] = []
        exits: list[int] = []
        parents: list[int] = []
        ended: list[int] = []
        first = call = _lean.next
        count = len(items)
        try:
            while at < count:
                code = items[at]
                if not code & 3:
                    length = lengths.get(code) or lengths.setdefault(code, _length(code, trace))
                    parents.append(stack[-1])  # first: it fails where a second root begins
                    enters.append(at)
                    stack.append(call)
                    plans.append(code)
                    call += 1
                    at += length
                elif code & 3 == RETURN and plans[-1] == code - RETURN:
                    exits.append(at)
                    ended.append(stack.pop())
                    plans.pop()
                    at += 3
                else:
                    break
        except (_OutOfScopeError, IndexError):
            pass
        _lean.next = call
        self._gather(trace, items, enters, exits, parents, ended, first)
        return at

    def _gather(
        self,
        trace: Trace,
        items: list[Any],
        enters: list[int],
        exits: list[int],
        parents: list[int],
        ended: list[int],
        first: int,
    ) -> None:
        self.calls += range(first, first + len(enters))
        self.parents += parents
        codes = [items[at] for at in enters]
        self.plans += [code >> 2 for code in codes]
        started = [items[at + 1] for at in enters]
        self.started += started
        self.lines += [items[at + 2] for at in enters]
        for code in dict.fromkeys(codes):
            mine = [place for place, other in enumerate(codes) if other == code]
            self._gather_inputs(plan_number(code >> 2), items, enters, mine, started, first)
        outputs = {code: plan_number(code >> 2).output_site for code in {items[at] for at in exits}}
        left = [items[at + 1] for at in exits]
        self.sites += [outputs[items[at]] for at in exits]
        self.values += [items[at + 2] for at in exits]
        self.counts += [1] * len(exits)
        self.owners += ended
        self.times += left
        self.ended += ended
        self.ends += left

    def _gather_inputs(
        self, plan: Plan, items: list[Any], enters: list[int], mine: list[int], started: list[int], first: int
    ) -> None:
        """The arguments of all calls of one function, call by call."""
        count = len(plan.input_sites)
        if not count:
            return
        values: list[Any] = [None] * (count * len(mine))
        for argument in range(count):
            offset = 3 + argument
            values[argument::count] = [items[enters[place] + offset] for place in mine]
        self.values += values
        self.sites += plan.input_sites * len(mine)
        self.counts += [count] * len(mine)
        self.owners += [first + place for place in mine]
        self.times += [started[place] for place in mine]

    def _read_carefully(self, trace: Trace, items: list[Any], at: int, until: int) -> int:
        """Everything else: calls that are left out, exceptions, calls with an object of their own."""
        count = min(len(items), until)
        known: dict[int, _Known] = {}  # by plan
        while at < count:
            code, time = items[at], items[at + 1]
            number, kind = code >> 2, code & 3
            plan = known.get(number) or known.setdefault(number, _Known(plan_number(number), trace))
            at += 3
            in_scope = plan.taken and len(trace.stack) <= trace.following.depth
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
        parent = _nearest(trace)
        if plan is None:
            trace.stack.append(~parent)
            trace.plans.append(number * 4)
            return
        call = _lean.take()
        if not trace.stack:
            self._first(trace, call)
        trace.stack.append(call)
        trace.plans.append(number * 4)
        self.calls.append(call)
        self.parents.append(parent)
        self.plans.append(number)
        self.started.append(time)
        self.lines.append(line)
        if given:
            self._row(call, time, plan.inputs, given)

    def _first(self, trace: Trace, call: int) -> None:
        if trace.root == NO_CALL:
            trace.root = call
        if trace.callers:
            self.callers[call], trace.callers = trace.callers, []

    def _leave(self, trace: Trace, plan: _Known, number: int, time: int, payload: Any, returned: bool) -> None:
        call = trace.stack.pop()
        if trace.plans.pop() != number * 4:
            call = _found(trace, number)
        if call <= 0:
            return
        if returned:
            self._row(call, time, [plan.output], [payload])
        else:
            self.errors[len(self.ended)] = payload
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
            call.parent_id = nearest
            call.dropped = not in_scope and not call.plan.always
            if not trace.stack:
                trace.root = call.id if trace.root == NO_CALL else trace.root
                call.callers, trace.callers = trace.callers, []
        trace.stack.append(~nearest if call.dropped else call.id)
        trace.plans.append(number * 4)

    # ---- as columns

    def starts(self, function_of: Callable[[Plan], int], rank: int) -> StartColumns | None:
        if not self.calls:
            return None
        counts = [count for count, _, _ in self.threads]
        return StartColumns(
            call=np.array(self.calls, np.int64),
            parent=np.array(self.parents, np.int64),
            function=self._functions(function_of),
            time=_column(self.started),
            thread=np.repeat(np.array([thread for _, thread, _ in self.threads], np.int64), counts),
            thread_names=[(name, count) for count, _, name in self.threads if count],
            line=np.array(self.lines, np.int64),
            callers=[written_callers(self.callers.get(call)) for call in self.calls] if self.callers else None,
            rank=rank,
        )

    def _functions(self, function_of: Callable[[Plan], int]) -> Any:
        plans, back = np.unique(np.array(self.plans, np.int64), return_inverse=True)
        known = [plan_number(number) for number in plans.tolist()]
        for plan in known:
            plan.called = True
        return np.array([function_of(plan) for plan in known], np.int32)[back]

    def ended_columns(self) -> EndColumns | None:
        if not self.ended:
            return None
        errors = [self.errors.get(place) for place in range(len(self.ended))] if self.errors else None
        return EndColumns(np.array(self.ended, np.int64), _column(self.ends), errors)

    def add_to(self, rows: Rows) -> None:
        """The inputs and outputs, among the rows of the flush."""
        if self.values:
            times = _column(self.times)
            spans = np.array(self.counts, np.int64), np.array(self.owners, np.int64), times, times
            rows.keep_many(self._block(), self.sites, self.values, spans)

    def _block(self) -> Block | None:
        """The values as columns if all of them are numbers."""
        packed = numbers.pack(self.values)
        sites = np.array(self.sites, np.int32)
        columns = numbers.columns_of(packed, sites) if packed is not None else None
        return None if columns is None else Block(sites, *columns)


def _column(times: list[int]) -> Any:
    return np.array(times, np.int64)


def _nearest(trace: Trace) -> int:
    """The innermost open call that is recorded. In place of one that is left out stands what it is in, inverted."""
    if trace.stack:
        call = trace.stack[-1]
        return call if call > 0 else ~call
    inside = trace.inside
    if isinstance(inside, Trace):
        return inside.root
    return NO_CALL if inside is None else inside


def _found(trace: Trace, number: int) -> int:
    """An end that is not that of the innermost call (Ctrl-C came between): that of the next one of its function."""
    while trace.plans:
        call = trace.stack.pop()
        if trace.plans.pop() == number * 4:
            return call
    return 0


class _Known:
    """What reading needs to know of a plan."""

    __slots__ = ("arity", "inputs", "output", "taken")

    def __init__(self, plan: Plan, trace: Trace) -> None:
        self.inputs = plan.input_sites
        self.arity = len(plan.input_sites)
        self.output = plan.output_site
        self.taken: bool = trace.following.takes(plan)

"""Calls that began and ended between two looks of the recorder: one event each, read many at once.

    mark, id, origin, thread, thread's name, begun, ended, error, result, argument, ..., value, site, value, site, ...

The origin is the number of the call it was made in; or the call itself, where more must be asked of it. The program
pays for one `extend` of a list. A call that is open when the recorder looks is written in parts instead: recorder.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.store.flush import EndColumns, StartColumns, written_callers

from .event_marks import MarkFinder
from .live_call import MOMENT
from .number_logs import same
from .plan import Plan, plan_number, plans
from .value_cells import VALUE, cells_of

if TYPE_CHECKING:
    from .live_call import LiveCall
    from .row_columns import Rows

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]

_HEAD: Final = 9  # items before the arguments
_ID, _ORIGIN, _THREAD, _THREAD_NAME, _BEGUN, _ENDED, _ERROR, _RESULT = range(1, _HEAD)
_finder = MarkFinder(plans, lambda plan: [plan.short])


class _Rows(NamedTuple):
    """What calls did, as columns: one row for each argument, change, moment and result."""

    event: Ints  # which of the calls
    at: Ints  # where in the block the value stands
    site: Ints
    is_change: Mask

    def only(self, chosen: Ints | Mask) -> _Rows:
        return _Rows(self.event[chosen], self.at[chosen], self.site[chosen], self.is_change[chosen])


class ShortCalls:
    """The calls of one block of events, as columns."""

    def __init__(self, block: list[Any]) -> None:
        self._objects = np.empty(len(block), np.object_)
        self._objects[:] = block
        self._addresses = np.frombuffer(self._objects, np.uint64)
        at, numbers = _finder.find(self._objects)
        stop = np.append(at[1:], len(block))
        self._plans = {number: plan_number(number) for number in np.flatnonzero(np.bincount(numbers)).tolist()}
        order = np.argsort(self._objects[at + _ID].astype(np.int64), kind="stable")  # as they began: a parent first
        self._at, self._stop, self._numbers = at[order], stop[order], numbers[order]
        self._asked = self._calls_to_ask()
        self.ids, self._begun, self._ended = map(self._column, (_ID, _BEGUN, _ENDED))
        self._raised = self._is_given(_ERROR)

    def _calls_to_ask(self) -> dict[int, LiveCall]:
        """The calls that are their own origin, by place; those that turned out to be out of scope are left out."""
        origins = self._objects[self._at + _ORIGIN]
        try:
            self._parents = origins.astype(np.int64)
            return {}
        except TypeError:
            pass
        kept = np.array([type(origin) is int or not origin.dropped for origin in origins], np.bool_)
        self._at, self._stop, self._numbers = self._at[kept], self._stop[kept], self._numbers[kept]
        origins = origins[kept].tolist()
        self._parents = np.array([o if type(o) is int else o.parent_number() for o in origins], np.int64)
        return {place: origin for place, origin in enumerate(origins) if type(origin) is not int}

    def __len__(self) -> int:
        return len(self._at)

    def _column(self, item: int) -> Ints:
        column: Ints = self._objects[self._at + item].astype(np.int64)
        return column

    def _is_given(self, item: int) -> Mask:
        """Of which calls this item is not None."""
        given: Mask = self._addresses[self._at + item] != id(None)
        return given

    def _of_plans(self, ask: Callable[[Plan], int]) -> Ints:
        """What is asked of the plan of each call."""
        table = np.zeros(max(self._plans, default=0) + 1, np.int64)
        for number, plan in self._plans.items():
            table[number] = ask(plan)
        return table[self._numbers]

    # ---- the calls

    def starts(self, function_of: Callable[[Plan], int], rank: int) -> StartColumns:
        for plan in self._plans.values():
            plan.called = True
        asked = {place: (call.line, call.stage, written_callers(call.callers)) for place, call in self._asked.items()}
        nothing = (None, None, None)
        lines, stages, callers = (
            zip(*(asked.get(p, nothing) for p in range(len(self))), strict=True) if asked else nothing
        )
        return StartColumns(
            call=self.ids,
            parent=self._parents,
            function=self._of_plans(function_of).astype(np.int32),
            time=self._begun,
            thread=self._column(_THREAD),
            thread_names=self._thread_names(),
            line=lines,
            stage=stages,
            callers=callers,
            rank=rank,
        )

    def _thread_names(self) -> list[tuple[str, int]]:
        at = self._at + _THREAD_NAME
        first = np.concatenate([[0], np.flatnonzero(np.diff(self._addresses[at])) + 1])
        counts = np.diff(np.append(first, len(at)))
        return list(zip(self._objects[at[first]].tolist(), counts.tolist(), strict=True))

    def ends(self) -> EndColumns:
        errors = self._objects[self._at + _ERROR].tolist() if self._raised.any() else None
        return EndColumns(self.ids, self._ended, errors)

    # ---- what they did

    def add_to(self, rows: Rows) -> None:
        """Give the arguments, changes and results of these calls to the flush."""
        columns = self._rows()
        begin, stop, is_value = self._times(columns)
        values: list[Any] = self._objects[columns.at[is_value]].tolist()
        columns, begin, stop = columns.only(is_value), begin[is_value], stop[is_value]
        sites = columns.site.astype(np.int32)
        if not values:
            return
        cells = cells_of(sites, values)
        chosen = self._changed(columns, values, *cells)
        if chosen is not None:
            values = [values[row] for row in chosen.tolist()]
            columns = columns.only(chosen)
            begin, stop, sites = begin[chosen], stop[chosen], sites[chosen]
            cells = cells[0][chosen], cells[1][chosen]
        rows.keep_many(sites, values, _spans(self.ids[columns.event], begin, stop), cells)

    def _rows(self) -> _Rows:
        """In the order of the calls; of each its arguments, its changes and its result."""
        arguments = self._of_plans(lambda plan: len(plan.argument_sites))
        changes_at = self._at + _HEAD + arguments
        changes = (self._stop - changes_at) // 2
        results_at = self._of_plans(lambda plan: plan.result_site)
        has_result = (results_at > 0) & self._is_given(_RESULT) & ~self._raised
        counts = arguments + changes + has_result
        event = np.repeat(np.arange(len(self)), counts)
        nth = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
        is_argument = nth < arguments[event]
        is_change = ~is_argument & (nth < (arguments + changes)[event])
        change_at = changes_at[event] + 2 * (nth - arguments[event])
        at = np.where(is_argument, self._at[event] + _HEAD + nth, self._at[event] + _RESULT)
        at[is_change] = change_at[is_change]
        first = self._of_plans(lambda plan: min(plan.argument_sites, default=0))
        site = np.where(is_argument, first[event] + nth, results_at[event])
        site[is_change] = self._objects[at[is_change] + 1].astype(np.int64)
        return _Rows(event, at, site, is_change)

    def _times(self, rows: _Rows) -> tuple[Ints, Ints, Mask]:
        """Between when each row happened, and which rows are values rather than times."""
        begun, ended = self._begun[rows.event], self._ended[rows.event]
        is_result = ~rows.is_change & (rows.at == self._at[rows.event] + _RESULT)
        begin = np.where(is_result, ended, begun)
        stop = np.where(rows.is_change | is_result, ended, begun)
        clock = self._of_plans(lambda plan: plan.site(0, plan.clock_index) if plan.clock_index >= 0 else MOMENT)
        is_time = rows.is_change & ((rows.site == MOMENT) | (rows.site == clock[rows.event]))
        if not is_time.any():
            return begin, stop, ~is_time
        marks = np.flatnonzero(is_time)
        times = self._objects[rows.at[marks]].astype(np.int64)
        every = np.arange(len(rows.event))
        before = np.searchsorted(marks, every) - 1
        after = np.minimum(before + 1, len(marks) - 1)
        has_before = rows.is_change & (before >= 0) & (rows.event[marks[before]] == rows.event)
        begin = np.where(has_before, times[before], begin)
        has_after = rows.is_change & (marks[after] > every) & (rows.event[marks[after]] == rows.event)
        stop = np.where(has_after, times[after], stop)
        exact = has_before & (rows.site[marks[before]] != MOMENT)  # before the change stands when it was
        return begin, np.where(exact, begin, np.maximum(begin, stop)), ~is_time

    def _changed(self, rows: _Rows, values: list[Any], kinds: Any, cells: Any) -> Ints | None:
        """Which rows are changes: not those that bind an equal value again, nor those of lines to ignore."""
        base, width = self._of_plans(lambda plan: plan.base), self._of_plans(lambda plan: plan.width)
        place = rows.site - base[rows.event]
        judged = np.flatnonzero(rows.is_change & (self._of_plans(lambda plan: plan.dedupe)[rows.event] > 0))
        dropped = np.zeros(len(values), np.bool_)
        if len(judged) > len(np.unique(rows.event[judged])):
            event, name = rows.event[judged], place[judged] % width[rows.event[judged]]
            dropped[_bound_again(judged, event * int(width.max()) + name, values, kinds, cells)] = True
        for number, plan in self._plans.items():
            if True in plan.ignored:
                mine = rows.is_change & (self._numbers[rows.event] == number)
                dropped[mine] |= np.array(plan.ignored)[place[mine] // plan.width]
        return np.flatnonzero(~dropped) if dropped.any() else None


def _bound_again(rows: Ints, names: Ints, values: list[Any], kinds: Any, cells: Any) -> Ints:
    """Those of the rows that hold the same as the row before them of the same name."""
    order = np.argsort(names, kind="stable")
    again = np.flatnonzero(names[order[1:]] == names[order[:-1]])
    before, now = rows[order[again]], rows[order[again + 1]]
    bits = np.where(np.isnan(cells), np.nan, cells).view(np.int64)
    equal = (kinds[before] == kinds[now]) & (bits[before] == bits[now])
    for place in np.flatnonzero(equal & (kinds[now] == VALUE)).tolist():
        equal[place] = same(values[before[place]], values[now[place]])
    found: Ints = now[equal]
    return found


def _spans(owners: Ints, begin: Ints, stop: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows of one call and one time, one after the other, as one span."""
    differs = (owners[1:] != owners[:-1]) | (begin[1:] != begin[:-1]) | (stop[1:] != stop[:-1])
    first = np.concatenate([[0], np.flatnonzero(differs) + 1])
    counts = np.diff(np.append(first, len(owners)))
    return counts, owners[first], begin[first], stop[first]

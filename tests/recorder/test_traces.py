"""The quick way of reading the log of followed calls gives what the careful one gives."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.recorder import call_log_rows
from clew.recorder.call_log import ENTER, NO_CALL, NO_LIMIT, RAISE, RETURN, WAYS, Trace, Way
from clew.recorder.call_log_rows import LeanRows
from clew.recorder.plan import Plan, Watched
from clew.recorder.recorder import Recorder


def a_plan(name: str, arguments: int) -> Plan:
    watched = (*(Watched(f"a{i}", "input") for i in range(arguments)), Watched("return", "output"))
    return Plan(name, "m", "f.py", 1, watched, [1], [False], parameters=tuple(f"a{i}" for i in range(arguments)))


PLANS = [a_plan(f"f{arguments}", arguments) for arguments in (0, 1, 2)]
HIDDEN = a_plan("hidden", 1)
LEADING_HERE = [Way([("f.py", line, "caller")], None, []) for line in (1, 2)]


class Following:
    def __init__(self, depth: int) -> None:
        self.depth = depth

    def takes(self, plan: Plan) -> bool:
        return plan is not HIDDEN


#: (0 to 2: a call of that function begins, 3: of the hidden one, 4 and more: the innermost returns, 9: it raises)
STEPS = st.lists(st.integers(0, 9), max_size=60)


def log_of(steps: list[int], *, tells_ways: bool = False) -> list[list[Any]]:
    """The events, each as the items it adds; all calls end. Every other outermost call is inside call 7."""
    events, open_plans = [], []
    for time, step in enumerate([*steps, *[4] * len(steps)]):
        if step < 4:
            plan = [*PLANS, HIDDEN][step]
            open_plans.append(plan)
            line = -(step % 2 + 1 + time % 2 * 7 * WAYS) if tells_ways and len(open_plans) == 1 else step
            events.append([plan.marks[ENTER], time, line, *range(time, time + len(plan.input_sites))])
        elif open_plans:
            kind, said = (RAISE, "error") if step == 9 else (RETURN, time * 2)
            events.append([open_plans.pop().marks[kind], time, said])
    return events


def as_list(rows: LeanRows, name: str) -> list[int]:
    return rows.column(name).tolist()  # type: ignore[no-any-return]


def read(events: list[list[Any]], cuts: list[int], depth: int) -> list[Any]:
    """What is known of each call, calls numbered in the order they begin."""
    trace = Trace(Recorder(Path("unused")), Following(depth), 1, "main")
    trace.ways += LEADING_HERE
    found: dict[int, dict[str, Any]] = {}
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        for event in events[begin:end]:
            trace += event
        rows = LeanRows()
        rows.take(trace)
        starts = rows.starts(lambda plan: 0, 0)
        callers = starts.callers if starts is not None else None
        for call, parent, plan, time, line, text in zip(
            *map(as_list, [rows] * 5, ["calls", "parents", "plans", "started", "lines"]),
            callers or [None] * len(rows.column("calls")),
            strict=True,
        ):
            found[call] = {"parent": parent, "plan": plan, "time": time, "line": line, "callers": text, "rows": []}
        values = iter(zip(as_list(rows, "sites"), rows.all_values(), strict=True))
        for call, count, time in zip(*map(as_list, [rows] * 3, ["owners", "counts", "times"]), strict=True):
            found[call]["rows"].append((time, [next(values) for _ in range(count)]))
        for call, time in zip(as_list(rows, "ended"), as_list(rows, "ends"), strict=True):
            found[call]["ended"] = time, rows.errors.get(call)
    for call in found.values():
        call["rows"].sort(key=itemgetter(0))  # what is read at once stands behind the rest
    order = sorted(found, key=lambda call: found[call]["time"])
    number = {call: place for place, call in enumerate(order)}
    return [found[call] | {"parent": number.get(found[call]["parent"], found[call]["parent"])} for call in order]


@given(
    steps=STEPS,
    cuts=st.lists(st.integers(0, 120), max_size=3),
    depth=st.sampled_from([1, 3, NO_LIMIT]),
    lost=st.lists(st.integers(0, 120), max_size=2),
    tells_ways=st.booleans(),
)
def test_the_quick_way_gives_what_the_careful_one_gives(
    steps: list[int], cuts: list[int], depth: int, lost: list[int], tells_ways: bool
) -> None:
    log = log_of(steps, tells_ways=tells_ways)
    events = [event for place, event in enumerate(log) if place not in lost or event[0] % 4 == ENTER]
    cuts = sorted(min(cut, len(events)) for cut in cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_log_rows, "_FEW", 2)
        quick = read(events, cuts, depth)
        patch.setattr(LeanRows, "_may_be_quick", lambda self, trace: False)
        assert read(events, cuts, depth) == quick


def test_a_long_log_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    carefully = []
    read_carefully = LeanRows._read_carefully

    def counted(self: LeanRows, trace: Trace, items: list[Any], at: int, until: int) -> int:
        carefully.append(until - at)
        return read_carefully(self, trace, items, at, until)

    monkeypatch.setattr(LeanRows, "_read_carefully", counted)
    assert len(read(log_of([0, *[1, 2, 4, 4] * 1000]), [], NO_LIMIT)) == 2001
    assert sum(carefully) < 1000


def test_an_end_without_its_beginning_is_passed_over() -> None:
    events = [[PLANS[0].marks[RETURN], 1, None], *log_of([0, 1])]
    assert [call["plan"] for call in read(events, [], NO_LIMIT)] == [PLANS[0].number, PLANS[1].number]


def test_an_end_that_was_lost_ends_the_calls_inside_it_for_the_next() -> None:
    """Ctrl-C can come between the end of a call and its event."""
    first, second, *rest = log_of([0, 1])
    found = read([first, second, rest[-1], *log_of([2])], [], NO_LIMIT)
    plans = [call["plan"] for call in found]
    parents = {call["plan"]: None if call["parent"] == NO_CALL else plans[call["parent"]] for call in found}
    assert parents == {PLANS[0].number: None, PLANS[1].number: PLANS[0].number, PLANS[2].number: None}


def test_an_outermost_call_has_its_callers_and_the_call_around_it() -> None:
    found = read(log_of([0, 0, 4, 4, 1, 4] * 30, tells_ways=True), [], NO_LIMIT)
    outermost = [call for call in found if call["callers"]]
    assert [call["callers"] for call in outermost] == ['[["f.py", 1, "caller"]]', '[["f.py", 2, "caller"]]'] * 30
    assert {call["parent"] for call in outermost} == {NO_CALL}
    assert {call["line"] for call in outermost} == {0}
    (inside,) = read(log_of([4, 0], tells_ways=True), [], NO_LIMIT)
    assert inside["parent"] == 7

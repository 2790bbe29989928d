"""The two lanes from a log to columns: the quick one for numbers, and the plain one, which is the measure of it."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.recorder import number_logs, packed_numbers, row_columns
from clew.recorder.live_call import LiveCall
from clew.recorder.plan import Plan, Thinning, Watched
from clew.recorder.recorder import Recorder
from clew.recorder.row_columns import Chunk, Rows, joined, take
from clew.records import DELETED, Kind, Value

WIDTH = 3
STATEMENTS = 4
#: A number bound to one of three names at one of four statements; few different ones, so that some are no change.
NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, 1.0, 1, 0, -1, True, False, None, 2**31 - 1, -(2**31)]),
    st.sampled_from([2**31, 2**53, -(2**53), 2**53 + 1, 10**400, 5e-324]),
    st.floats(),
    st.integers(),
)
LOGS = st.lists(st.tuples(NUMBERS, st.integers(0, STATEMENTS - 1), st.integers(0, WIDTH - 1)), max_size=60)


def a_call(width: int = WIDTH, ignored: tuple[int, ...] = (), thinning: Thinning | None = None) -> LiveCall:
    watched = tuple(Watched(f"x{i}", thinning=thinning if i == 0 else None) for i in range(width))
    lines = list(range(1, STATEMENTS + 1))
    plan = Plan("f", "m", "f.py", 1, watched, lines, [number in ignored for number in range(STATEMENTS)])
    call = LiveCall(plan, Recorder(Path("unused")), ())
    call.started = call.drained_at = 0
    return call


def rows_of(call: LiveCall, logs: list[list[tuple[Any, int, int]]]) -> list[tuple[Any, ...]]:
    """The changes in logs drained one by one: (statement, name, kind, number's bits, value, when) of each."""
    return changes_of(call, Rows(itertools.count()), chunks_of(call, logs))


def chunks_of(call: LiveCall, logs: list[list[tuple[Any, int, int]]]) -> list[Chunk]:
    chunks = []
    for number, log in enumerate(logs, 1):
        for value, statement, name in log:
            call.log += [value, call.plan.site(statement, name)]
        chunks.append(take(call, lambda: number * 1000))
    return [chunk for chunk in chunks if chunk is not None]


def changes_of(call: LiveCall, rows: Rows, chunks: list[Chunk]) -> list[tuple[Any, ...]]:
    for chunk in chunks:
        rows.add(chunk)
    rows.release_held(call)
    found = rows.columns()
    if found is None:
        return []
    values = {id: value for id, value, _ in rows.values} | dict(zip(rows.text_ids, rows.texts, strict=True))
    places = [divmod(site - call.plan.base, call.plan.width) for site in found.site.tolist()]
    bits = np.where(np.isnan(found.number), np.nan, found.number).view(np.int64).tolist()
    assert {span.call for span in found.spans} == {call.id}
    when = [(span.start, span.stop) for span in found.spans for _ in range(span.changes)]
    return [
        (*place, Kind(kind), bit, values[int(number)] if kind == Kind.VALUE else None, span)
        for place, kind, number, bit, span in zip(
            places, found.kind.tolist(), found.number.tolist(), bits, when, strict=True
        )
    ]


def in_both_lanes(monkeypatch: pytest.MonkeyPatch, logs: list[list[tuple[Any, int, int]]], **options: Any) -> Any:
    results = []
    for packed_from in (1, 10**9):
        with monkeypatch.context() as patch:
            patch.setattr(row_columns, "_PACKED_FROM", packed_from)
            results.append(rows_of(a_call(**options), logs))
    return results


@given(logs=st.lists(LOGS, max_size=3), ignored=st.sets(st.integers(0, STATEMENTS - 1), max_size=2))
def test_both_lanes_give_the_same_rows(logs: list[Any], ignored: set[int]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, plain = in_both_lanes(monkeypatch, logs, ignored=tuple(ignored))
    assert quick == plain


@given(
    sites=st.lists(st.tuples(st.integers(0, STATEMENTS - 1), st.integers(0, WIDTH - 1)), min_size=1, max_size=4),
    rounds=st.lists(st.lists(st.sampled_from([0.5, 1.5, 1, 2, math.nan, True, None]), min_size=4, max_size=4)),
    start=st.lists(st.sampled_from([0.5, 1]), max_size=2),
    cuts=st.lists(st.integers(1, 9), max_size=5),
    tail=st.integers(0, 3),
)
def test_a_loop_gives_the_same_rows_in_both_lanes(
    sites: list[Any], rounds: list[Any], start: list[Any], cuts: list[int], tail: int
) -> None:
    log = [(value, 0, 0) for value in start]
    log += [(value, *site) for values in rounds for site, value in zip(sites, values, strict=False)]
    log = log[: max(len(log) - tail, 0)]
    logs = []
    for cut in cuts:
        logs.append(log[:cut])
        log = log[cut:]
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, plain = in_both_lanes(monkeypatch, [*logs, log])
    assert quick == plain


@pytest.mark.parametrize("types", [(float, float), (float, int), (int, int)])
@pytest.mark.parametrize("base", [16, 1000])
def test_numbers_of_a_loop_are_judged_in_one_comparison(
    types: tuple[type, ...], base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number_logs, "_changed", None)
    monkeypatch.setattr(packed_numbers, "columns_of", None)
    call = a_call()
    call.plan.base = base
    log = [(types[i % 2](i // 4), 1, i % 2) for i in range(1001)]
    rows = rows_of(call, [log])
    assert [row[:2] for row in rows[:4]] == [(1, 0), (1, 1), (1, 0), (1, 1)]
    assert len(rows) == 501


@given(log=LOGS)
def test_both_lanes_give_the_same_rows_when_one_name_is_thinned(log: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, plain = in_both_lanes(monkeypatch, [log], thinning=Thinning(every=2, last=2))
    assert quick == plain


@given(values=st.lists(st.floats() | st.integers(-100, 100) | st.booleans() | st.none(), min_size=1, max_size=40))
def test_each_name_of_a_kind_of_its_own_takes_the_quick_lane(values: list[Any]) -> None:
    """A site's type is learnt where it first comes, however many other sites there are."""
    kinds = [float, int, bool, type(None)]
    log = [(value, kinds.index(type(value)), kinds.index(type(value))) for value in values]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(row_columns, "_PACKED_FROM", 1)
        monkeypatch.setattr("clew.recorder.packed_numbers._STEPS", 1)
        monkeypatch.setattr(Rows, "_plain_lane", None)
        quick = rows_of(a_call(width=4), [log])
        monkeypatch.undo()
        assert quick == rows_of(a_call(width=4), [log])


def test_many_names_are_judged_each_by_itself() -> None:
    log = [(float(i // 40), 0, i % 20) for i in range(400)]  # each name has each number twice
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, plain = in_both_lanes(monkeypatch, [log], width=20)
    assert quick == plain
    assert len(quick) == 200


def test_a_number_bound_again_after_a_drain_is_no_change() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, plain = in_both_lanes(monkeypatch, [[(math.nan, 0, 0)], [(math.nan, 1, 0), (0.0, 1, 0)], [(-0.0, 1, 0)]])
    assert quick == plain
    assert [row[2:4] for row in quick] == [
        (Kind.FLOAT, np.float64("nan").view(np.int64)),
        (Kind.FLOAT, 0),
        (Kind.FLOAT, -(2**63)),
    ]


def test_one_true_and_one_point_nought_are_three_values() -> None:
    rows = rows_of(a_call(), [[(1, 0, 0), (True, 0, 0), (1.0, 0, 0), (1, 0, 0)]])
    assert [row[2] for row in rows] == [Kind.INT, Kind.BOOL, Kind.FLOAT, Kind.INT]


def test_an_integer_beyond_a_float_is_kept_as_a_value() -> None:
    log = [(2**53, 0, 0), (2**53 + 1, 0, 0), (10**400, 0, 0)]
    assert [(row[2], row[4]) for row in rows_of(a_call(), [log])] == [
        (Kind.INT, None),
        (Kind.VALUE, 2**53 + 1),
        (Kind.VALUE, 10**400),
    ]


def test_texts_deletions_and_captured_values_keep_their_order_among_numbers() -> None:
    array = Value("ndarray", "{}", [], digest=b"1")
    log: list[Any] = [(1.5, 0, 0), ("a", 1, 1), (array, 2, 2), (2.5, 0, 0), (DELETED, 3, 1), ("ä", 1, 1)] * 20
    rows = rows_of(a_call(), [log])
    assert [(row[2], row[4]) for row in rows[:6]] == [
        (Kind.FLOAT, None),
        (Kind.VALUE, "a"),
        (Kind.VALUE, array),
        (Kind.FLOAT, None),
        (Kind.DELETED, None),
        (Kind.VALUE, "ä"),
    ]
    assert len(rows) == 120 - 19  # the same array again is no change


def test_a_value_that_thinning_leaves_out_is_not_written() -> None:
    call = a_call(thinning=Thinning(every=10))
    rows = Rows(itertools.count())
    for i in range(100):
        call.log += [10**400 + i, call.plan.site(0, 0)]
    chunk = take(call, lambda: 1)
    assert chunk is not None
    rows.add(chunk)
    assert [value - 10**400 for _, value, _ in rows.values] == list(range(0, 100, 10))


def test_the_last_changes_come_when_the_call_is_over_in_their_order() -> None:
    rows = rows_of(a_call(thinning=Thinning(first=1, last=2)), [[(float(i), 0, 0) for i in range(10)]])
    assert [np.int64(row[3]).view(np.float64) for row in rows] == [0.0, 8.0, 9.0]


@given(logs=st.lists(LOGS, max_size=4))
def test_chunks_joined_give_the_rows_of_chunks_one_by_one(logs: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(row_columns, "_PACKED_FROM", 1)
        found = []
        for how in (joined, list):
            call, rows = a_call(), Rows(itertools.count())
            found.append(changes_of(call, rows, how(chunks_of(call, logs))))
    assert found[0] == found[1]


def test_half_a_pair_stays_in_the_log() -> None:
    call = a_call()
    call.log += [1.0, call.plan.site(0, 0), 2.0]
    chunk = take(call, lambda: 1)
    assert chunk is not None
    assert (chunk.values, call.log) == ([1.0], [2.0])


def test_changes_lie_between_two_drains() -> None:
    rows = rows_of(a_call(), [[(float(i), 0, 0) for i in range(100)], [(float(-i), 0, 0) for i in range(1, 100)]])
    assert [row[5] for row in rows] == [(0, 1000)] * 100 + [(1000, 2000)] * 99


@pytest.mark.parametrize("packed_from", [1, 1000])
def test_changes_lie_between_the_calls_inside(monkeypatch: pytest.MonkeyPatch, packed_from: int) -> None:
    monkeypatch.setattr(row_columns, "_PACKED_FROM", packed_from)
    call, rows = a_call(), Rows(itertools.count())
    call.moment(100)
    call.moment(200)
    call.log += [1.0, call.plan.site(0, 0), 2.0, call.plan.site(0, 0)]
    call.moment(300)
    call.log += [3.0, call.plan.site(0, 0)]
    found = changes_of(call, rows, chunks_of(call, [[]]))
    assert [row[5] for row in found] == [(200, 300), (200, 300), (300, 1000)]


def test_moments_alone_are_taken_and_move_what_follows() -> None:
    call, rows = a_call(), Rows(itertools.count())
    call.moment(500)
    (first,) = chunks_of(call, [[]])
    rows.add(first)
    assert (len(first), rows.columns(), call.log) == (0, None, [])
    call.log += [1.0, call.plan.site(0, 0)]
    second = take(call, lambda: 2000)
    assert second is not None
    assert [row[5] for row in changes_of(call, rows, [second])] == [(1000, 2000)]


def test_a_moment_never_comes_between_a_value_and_its_site() -> None:
    call = a_call()
    call.log += [1.0]
    call.moment(100)
    call.log += [call.plan.site(0, 0)]
    assert call.log == [1.0, call.plan.site(0, 0)]


def test_another_threads_calls_leave_the_log_alone() -> None:
    call = a_call()
    call.thread += 1
    call.moment(100)
    assert call.log == []

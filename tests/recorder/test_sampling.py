"""When changes happened: looks at the lengths of logs against a clock that is read at every change."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.recorder import log_sampling, row_columns
from clew.recorder.live_call import LiveCall
from clew.recorder.plan import Plan, Watched
from clew.recorder.recorder import Recorder
from clew.recorder.row_columns import Rows, pieces, take

#: What happens to a log, in any order: a change, a call that begins inside, a look, one that is kept waiting, a flush.
EVENTS = st.lists(
    st.sampled_from(["change", "change", "container", "moment", "look", "late look", "flush", "piece"]), max_size=60
)


class Log:
    """The log of a call that does not end, and what happens to it by a clock that goes on with each reading."""

    def __init__(self) -> None:
        self.ticks = itertools.count(1000, 10)
        self.plan = Plan("f", "m", "f.py", 1, (Watched("x"),), [1], [False])
        self.call = LiveCall(self.plan, Recorder(Path("unused")), ())
        self.call.started = self.call.drained_at = self.clock()
        self.rows, self.truth = Rows(itertools.count()), list[int]()

    def clock(self) -> int:
        return next(self.ticks)

    def change(self, *, is_timed: bool = False) -> None:
        moment = self.clock()
        if is_timed:
            self.call.moment(moment)
        self.call.log += [len(self.truth), self.plan.site(0, 0)]
        self.truth.append(moment)
        if is_timed:
            self.call.moment(moment)

    def look(self, clock: Callable[[], int]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_sampling, "time", SimpleNamespace(time_ns=clock))
            log_sampling._note_length(self.call)

    def look_late(self) -> None:
        """The program goes on between the first reading of the clock and the second."""
        steps = itertools.chain([lambda: None, self.change], itertools.repeat(lambda: None))

        def clock() -> int:
            next(steps)()
            return next(itertools.islice(self.ticks, log_sampling._AT_ONCE // 10, None))

        self.look(clock)

    def take_piece(self) -> None:
        chunk = take(self.call, self.clock)
        if chunk is not None:
            self.rows.add(chunk)

    def flush(self) -> None:
        for chunk in pieces(self.call, self.clock):
            self.rows.add(chunk)


@given(EVENTS, st.sampled_from([20, 1000]), st.booleans())
def test_every_change_happened_within_its_span(events: list[str], items_at_once: int, ends: bool) -> None:
    log = Log()
    happens: dict[str, Callable[[], None]] = {
        "change": log.change,
        "container": lambda: log.change(is_timed=True),
        "moment": lambda: log.call.moment(log.clock()),
        "look": lambda: log.look(log.clock),
        "late look": log.look_late,
        "piece": log.take_piece,
        "flush": log.flush,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_columns, "items_at_once", lambda log, most: items_at_once)
        for event in events:
            happens[event]()
            if items_at_once < len(events):  # pieces end at looks
                log.look(log.clock)
        log.call.ended = log.clock() if ends else 0
        log.flush()
    spans = [span for span in log.rows.spans for _ in range(span.changes)]
    assert len(spans) == len(log.truth)
    assert all(span.start <= moment <= span.stop for span, moment in zip(spans, log.truth, strict=True))


def test_pieces_of_large_values_that_no_look_divides_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_columns, "items_at_once", lambda log, most: 4)
    log = Log()
    for _ in range(16):
        log.change()
    log.flush()
    assert [span.changes for span in log.rows.spans] == [2, 2, 2, 2, 8]
    assert all(span.stop > span.start for span in log.rows.spans)
    assert [first.stop for first in log.rows.spans[:-1]] == [second.start for second in log.rows.spans[1:]]


def test_a_change_that_is_logged_after_its_hooks_keeps_its_time_though_a_flush_comes_between() -> None:
    log = Log()
    log.call.sampled = False
    for _ in range(2):
        moment = log.clock()
        log.flush()  # the hook asks for what was recorded
        log.call.moment(moment)
        log.call.log += [len(log.truth), log.plan.site(0, 0)]
        log.call.moment(moment)
        log.truth.append(moment)
    log.flush()
    assert [(span.start, span.stop) for span in log.rows.spans] == [(moment, moment) for moment in log.truth]


def test_a_look_while_pairs_are_taken_counts_for_nothing() -> None:
    plan = Plan("f", "m", "f.py", 1, (Watched("x"),), [1], [False])
    call = LiveCall(plan, Recorder(Path("unused")), ())
    call.takes = 1
    log_sampling._note_length(call)
    assert call.samples is None


def test_a_pause_stands_between_the_changes_it_was_between(tmp_path: Path) -> None:
    moments: list[tuple[float, float]] = []

    @clew.watch("x")
    def work() -> None:
        for number in range(8):
            before = time.time()
            x = number
            moments.append((before, time.time()))
            time.sleep(0.25 if number == 2 else 0.01)

    with clew.run(path=tmp_path / "run") as run:
        work()
    began = run.meta["started_ns"] / 1e9
    series = run["x"]
    earliest, latest = series.times - series.times_error + began, series.times + series.times_error + began
    befores, afters = np.array(moments).T
    assert (earliest <= afters + 1e-6).all()
    assert (latest >= befores - 1e-6).all()
    assert np.argmax(np.diff(series.times)) == 2


def test_the_time_of_a_container_is_exact(tmp_path: Path) -> None:
    @clew.watch("items")
    def work() -> None:
        items = []
        for number in range(3):
            items.append(number)
            time.sleep(0.01)

    with clew.run(path=tmp_path / "run") as run:
        work()
    assert run["items"].times_error.tolist() == [0.0] * 4
    assert [change.time_error for change in run["items"].changes] == [0.0] * 4

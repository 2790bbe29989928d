"""When changes happened: looks at the lengths of logs against a clock that is read at every change."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.recorder import sampling
from clew.recorder.columns import Rows, pieces
from clew.recorder.live import LiveCall
from clew.recorder.plan import Plan, Watched
from clew.recorder.recorder import Recorder

#: What happens to a log, in any order: a change, a call that begins inside, a look, a flush.
EVENTS = st.lists(st.sampled_from(["change", "change", "container", "moment", "look", "flush"]), max_size=60)


@given(EVENTS)
def test_every_change_happened_within_its_span(events: list[str]) -> None:
    clock = itertools.count(1000, 10)
    plan = Plan("f", "m", "f.py", 1, (Watched("x"),), [1], [False])
    call = LiveCall(plan, Recorder(Path("unused")), ())
    call.started = call.drained_at = next(clock)
    rows, truth, spans = Rows(itertools.count()), [], []

    def flush() -> None:
        for chunk in pieces(call, next(clock)):
            rows.add(chunk)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "time", SimpleNamespace(time_ns=lambda: next(clock)))
        for number, event in enumerate(events):
            if event in ("change", "container"):
                moment = next(clock)
                if event == "container":
                    call.moment(moment)
                call.log += [number, plan.site(0, 0)]
                truth.append(moment)
                if event == "container":
                    call.moment(moment)
            elif event == "moment":
                call.moment(next(clock))
            elif event == "look":
                sampling._note_length(call)
            else:
                flush()
        flush()
    spans = [span for span in rows.spans for _ in range(span.changes)]
    assert len(spans) == len(truth)
    assert all(span.start <= moment <= span.stop for span, moment in zip(spans, truth, strict=True))


def test_a_look_while_pairs_are_taken_counts_for_nothing() -> None:
    plan = Plan("f", "m", "f.py", 1, (Watched("x"),), [1], [False])
    call = LiveCall(plan, Recorder(Path("unused")), ())
    call.takes = 1
    sampling._note_length(call)
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

"""How long steps take, and what they are given and give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import GuardError


@clew.op
def scaled(x: Any, by: Any = 2, *rest: Any, plus: Any = 0) -> Any:
    return x * by + sum(rest) + plus


@clew.op
def small(x: Any) -> Any:
    if x > 100:
        raise ValueError(f"{x} is too large")
    return x


def pipeline(x: Any, y: Any) -> Any:
    first = scaled(x, 3, y, plus=1)
    if first > 50:
        return "large"
    return small(first) + y


def test_a_profile_is_a_table_and_a_timeline() -> None:
    profile = clew.record(pipeline, 1, 2).profile({"x": 2, "y": 1})
    names = [step.name for step in profile.steps]
    assert names == ["scaled", "gt", "small", "add"]
    assert all(a.start + a.seconds <= b.start for a, b in zip(profile.steps, profile.steps[1:], strict=False))
    assert profile.steps[-1].start + profile.steps[-1].seconds <= profile.total
    head, *rows, total = str(profile).splitlines()
    assert head.split() == ["step", "time", "share", "where"]
    assert [row.split()[0] for row in rows] == names
    assert all(re.search(r"µs +\d+% .*█.* .*test_measuring.py:\d+$", row) for row in rows)
    starts = [row.index("█") for row in rows]
    assert starts == sorted(starts)
    assert total.startswith("total")


def test_every_step_is_stored_with_what_it_was_given_and_gave(tmp_path: Path) -> None:
    graph = clew.record(pipeline, 1, 2)
    with clew.run(path=tmp_path / "run") as run:
        assert graph.run({"x": 2, "y": 5}, record=True) == pipeline(2, 5)
    calls = [(call.function, call.args, call.result) for call in run.calls()]
    assert calls == [
        ("pipeline", {"x": 2, "y": 5}, 17),
        ("scaled", {"x": 2, "by": 3, "arg2": 5, "plus": 1}, 12),
        ("gt", {"arg0": 12, "arg1": 50}, False),
        ("small", {"x": 12}, 12),
        ("add", {"arg0": 12, "arg1": 5}, 17),
    ]
    assert {call.parent.function for call in run.calls()[1:] if call.parent} == {"pipeline"}


def test_what_is_raised_is_stored_with_the_step_that_raised_it(tmp_path: Path) -> None:
    graph = clew.record(lambda x: small(scaled(x)), 1)
    with clew.run(path=tmp_path / "run") as run, pytest.raises(ValueError, match="200 is too large"):
        graph.run({"x": 100}, record=True, parallel=2)
    errors = {call.function: call.error for call in run.calls()}
    assert errors["scaled"] in (None, "")
    assert "ValueError" in str(errors["small"])


def test_a_decision_that_goes_otherwise_ends_the_stored_run_too(tmp_path: Path) -> None:
    graph = clew.record(pipeline, 1, 2)
    with clew.run(path=tmp_path / "run") as run, pytest.raises(GuardError):
        graph.run({"x": 50, "y": 5}, record=True)
    assert "GuardError" in str(run.calls("pipeline")[0].error)

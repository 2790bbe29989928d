"""Which step a change belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.records import DELETED
from reading.writing import Written


def test_without_steps_changes_are_numbered_by_name_over_the_run(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for _ in range(2):
        call = shard.call()
        shard.change(call, "x", 1)
        shard.change(call, "y", 1)
        shard.change(call, "x", 2)
    shard.close()
    run = writer.open()
    assert run["x"].steps == [0, 1, 2, 3]
    assert run["y"].steps == [0, 1]
    assert [change.step for change in run.changes()] == [0, 0, 1, 2, 1, 3]


def test_a_change_has_the_last_step_before_it_in_its_call(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    for step in (10, 20):
        shard.step(call, step)
        shard.change(call, "x", step)
        shard.change(call, "x", step + 1)
    shard.close()
    run = writer.open()
    assert run["x"].steps == [10, 10, 20, 20]
    assert run["x"].changes[2].step == 20


def test_steps_of_one_call_do_not_reach_its_sibling(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    first_call, two = shard.call(), shard.call()
    shard.step(first_call, 7)
    shard.change(two, "x", 1)
    shard.change(first_call, "x", 2)
    shard.close()
    assert writer.open()["x"].steps == [None, 7]


def test_a_call_inherits_the_step_its_caller_was_at(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    top = shard.call("loop")
    for step in (1, 2):
        shard.step(top, step)
        middle = shard.call("middle", parent=top)
        inner = shard.call("inner", parent=middle)
        shard.change(inner, "x", step)
    shard.step(top, 3)
    shard.change(inner, "x", 9)  # late, but its call began in step 2
    shard.close()
    run = writer.open()
    assert run["x"].steps == [1, 2, 2]
    assert [call.step for call in run.calls("inner")] == [1, 2]
    assert run.calls("loop")[0].step is None


def test_a_call_that_received_its_step_needs_no_caller(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call(step=42)
    shard.change(call, "x", 1)
    inner = shard.call(parent=call)
    shard.change(inner, "x", 2)
    shard.step(call, 43)
    shard.change(call, "x", 3)
    shard.close()
    run = writer.open()
    assert run["x"].steps == [42, 42, 43]
    assert [call.step for call in run.calls()] == [42, 42]


def test_changes_that_were_held_back_have_the_step_of_their_moment(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call(at=0)
    shard.step(call, 1, at=10)
    shard.change(call, "x", "a", at=11)
    shard.step(call, 2, at=20)
    shard.change(call, "x", "c", at=21)
    shard.change(call, "x", "b", at=12)
    shard.close()
    series = writer.open()["x"]
    assert series.values == ["a", "b", "c"]
    assert series.steps == [1, 1, 2]


def test_each_process_has_its_own_steps(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for process in (0, 1):
        shard = writer.shard(process=process)
        call = shard.call(at=0)
        shard.step(call, 100 * process, at=1)
        shard.change(call, "x", process, at=2 + process)
        shard.close()
    assert writer.open()["x"].steps == [0, 100]


def test_a_step_may_be_a_number_of_numpy_or_a_text(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    for step in (np.int64(5), "warmup", 2.5):
        shard.step(call, step)
        shard.change(call, "x", 1)
    shard.close()
    steps = writer.open()["x"].steps
    assert steps == [5, "warmup", 2.5]
    assert type(steps[0]) is int


def test_a_step_that_was_deleted_or_none_says_nothing(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    for step in (5, None, DELETED):
        shard.step(call, step)
        shard.change(call, "x", 1)
    shard.close()
    assert writer.open()["x"].steps == [5, 5, 5]


def test_a_damaged_run_whose_calls_made_each_other_still_answers(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    first_call = shard.call("a", parent=2)
    shard.call("b", parent=first_call)
    second_call = shard.call("c")
    shard.step(second_call, 9)
    shard.change(first_call, "x", 1)
    shard.close()
    assert writer.open()["x"].steps == [0]


def test_recursion_a_thousand_deep_finds_the_step_at_its_root(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    shard.step(call, 3)
    for _ in range(1000):
        call = shard.call(parent=call)
    shard.change(call, "x", 1)
    shard.close()
    assert writer.open()["x"].steps == [3]


def test_steps_as_numbers_are_the_steps_themselves(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    outer = shard.call("outer", step=5)
    shard.change(outer, "x", 0.0)
    for step in (7, 8.5):
        shard.step(outer, step)
        shard.change(outer, "x", 1.0)
        inner = shard.call("inner", parent=outer)
        shard.change(inner, "y", 2.0)
    single = shard.call("alone")
    shard.change(single, "z", 3.0)
    shard.close()
    run = writer.open()
    for name, expected in {"x": [5, 7, 8.5], "y": [7, 8.5], "z": [0]}.items():
        steps = run.tables.steps.numbers(run.tables.table.rows_of(name))
        assert steps is not None
        assert steps.tolist() == run[name].steps == expected


def test_a_change_before_the_first_step_of_its_function_has_none(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    train = shard.call("train")
    shard.change(train, "lr", 0.1)
    early = shard.call("check", parent=train)
    shard.change(early, "score", 0)
    for step in (3, 4):
        shard.step(train, step)
        shard.change(train, "loss", 1.0)
        check = shard.call("check", parent=train)
        shard.change(check, "score", step)
    elsewhere = shard.call("plot")
    shard.change(elsewhere, "width", 7)
    shard.close()
    run = writer.open()
    assert {name: run[name].steps for name in run} == {
        "lr": [None],
        "score": [None, 3, 4],
        "loss": [3, 4],
        "width": [0],
    }
    steps = run.tables.steps.numbers(run.tables.table.rows_of("score"))
    assert steps is not None
    assert np.array_equal(steps, [np.nan, 3, 4], equal_nan=True)


def test_steps_as_numbers_of_one_loop_after_another(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for _ in range(3):
        call = shard.call("train")
        shard.change(call, "x", 0.0)
        for step in range(4):
            shard.step(call, step)
            shard.change(call, "x", 1.0)
    shard.close()
    run = writer.open()
    steps = run.tables.steps.numbers(run.tables.table.rows_of("x"))
    assert steps is not None
    assert run["x"].steps == [None, 0, 1, 2, 3] * 3
    assert np.array_equal(steps, [np.nan, 0, 1, 2, 3] * 3, equal_nan=True)


def test_steps_that_are_not_numbers_are_not_returned_as_such(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call("train")
    shard.step(call, "warm up")
    shard.change(call, "x", 0.0)
    shard.close()
    run = writer.open()
    assert run.tables.steps.numbers(run.tables.table.rows_of("x")) is None


def test_the_steps_of_many_calls_are_those_of_each(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    outer = shard.call("outer")
    for step in (None, 3, 4):
        if step is not None:
            shard.step(outer, step)
        shard.call("inner", parent=outer)
    shard.close()
    run = writer.open()
    assert run.tables.steps.of_calls(0, np.arange(4)) == [None, None, 3, 4] == [call.step for call in run.calls()]


@clew.follow(show=False)
def inner(x: int) -> int:
    return x + 1


@clew.watch("z")
def watched_inner(x: int) -> int:
    z = x
    return z


@clew.watch("y", step="step")
def outer(called: Any) -> None:
    for step in range(20):
        y = called(step)
        sum(range(20_000))


@pytest.mark.parametrize("called", [inner, watched_inner])
def test_a_call_inside_a_watched_loop_has_the_step_it_was_made_at(tmp_path: Path, called: Any) -> None:
    with clew.run(path=tmp_path / "before"):
        inner(0)  # follows the others here from now on; outside a followed call they are only watched
    with clew.run(path=tmp_path / "run") as run:
        outer(called)
    calls = run.calls(called.__name__)
    assert [call.step for call in calls] == list(range(20))
    ends = [call.start + call.duration for call in calls]
    changed = [change.time for change in run.changes("y")]
    assert all(before <= after for before, after in zip(ends, changed, strict=True)), "what it gave was bound later"
    assert all(before <= call.start for before, call in zip(changed, calls[1:], strict=False))

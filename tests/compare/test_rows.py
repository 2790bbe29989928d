"""Values are paired by name, step and order, or with the value that one run held while the other changed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import clew
from reading.writing import Shard, Written


def stepped(base: Path, name: str, steps: dict[Any, dict[str, Any]], function: str = "train") -> Any:
    """A call that counts through steps; at each of them some names change."""
    writer = Written(base, f"120000-{name}")
    shard = writer.shard()
    call = shard.call(function)
    for step, changes in steps.items():
        shard.step(call, step)
        for what, value in changes.items():
            shard.change(call, what, value)
    shard.end(call)
    shard.close()
    return writer.open()


def traced(base: Path, name: str, steps: dict[int, dict[str, Any]]) -> Any:
    """What a model tracer writes: a call for each iteration."""
    writer = Written(base, f"120000-{name}")
    shard = writer.shard()
    for step, changes in steps.items():
        call = shard.call("Net.iteration", stage="train")
        shard.step(call, step)
        for what, value in changes.items():
            shard.change(call, what, value)
        shard.end(call)
    shard.close()
    return writer.open()


def differences_of(comparison: Any) -> list[tuple[Any, ...]]:
    return [
        (difference.name, difference.step, difference.a, difference.b, difference.held)
        for difference in comparison.differences
    ]


def test_values_are_compared_at_the_same_step(tmp_path: Path) -> None:
    a = stepped(tmp_path, "a", {n: {"loss": float(n)} for n in range(10)})
    b = stepped(tmp_path, "b", {n: {"loss": float(n)} for n in range(4, 12)})
    comparison = clew.diff(a, b)
    assert len(comparison.differences) == 0
    assert (comparison.only_in_a.values, comparison.only_in_b.values) == (4, 2)
    assert clew.diff(a, b, common=True).equal


def test_a_run_that_did_not_change_holds_what_it_had(tmp_path: Path) -> None:
    a = stepped(tmp_path, "a", {0: {"lr": 0.1, "x": 1}, 1: {"x": 2}, 2: {"x": 3}, 3: {"lr": 0.3, "x": 4}})
    b = stepped(tmp_path, "b", {0: {"lr": 0.1, "x": 1}, 1: {"x": 2}, 2: {"lr": 0.2, "x": 3}, 3: {"lr": 0.3, "x": 4}})
    assert differences_of(clew.diff(a, b)) == [("lr", 2, 0.1, 0.2, "a")]
    assert differences_of(clew.diff(b, a)) == [("lr", 2, 0.2, 0.1, "b")]
    assert len(clew.diff(a, b).only_in_a) == len(clew.diff(a, b).only_in_b) == 0


def test_arguments_and_results_belong_to_the_call_and_not_to_its_last_step(tmp_path: Path) -> None:
    runs = []
    for name, count in (("a", 5), ("b", 3)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        call = shard.call(args={"count": count})
        for step in range(count):
            shard.step(call, step)
            shard.change(call, "x", step)
        shard.end(call, result=[count])
        shard.close()
        runs.append(writer.open())
    comparison = clew.diff(*runs)
    assert [(difference.what, difference.name, difference.step) for difference in comparison.differences] == [
        ("argument", "(arguments)", None),
        ("result", "(result)", None),
    ]
    assert (comparison.only_in_a.values, comparison.only_in_b.values) == (2, 0)


def test_a_change_of_only_the_second_run_comes_after_the_calls_made_by_then(tmp_path: Path) -> None:
    runs = []
    for name, given in (("a", 1.0), ("b", 2.0)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        call = shard.call()
        for step in range(3):
            shard.step(call, step)
            inner = shard.call("inner", parent=call)
            shard.change(inner, "return", given if step else 0.0, role="output")
            shard.end(inner)
            if step == 0 or name == "b":
                shard.change(call, "loss", given * step)
        shard.end(call)
        shard.close()
        runs.append(writer.open())
    assert [difference.name for difference in clew.diff(*runs).differences] == ["return", "loss", "return", "loss"]


def test_a_run_that_ended_before_holds_nothing(tmp_path: Path) -> None:
    a = stepped(tmp_path, "a", {n: {"loss": float(n)} for n in range(5)})
    b = stepped(tmp_path, "b", {n: {"loss": float(n)} for n in range(3)})
    comparison = clew.diff(a, b)
    assert (len(comparison.differences), comparison.only_in_a.values) == (0, 2)
    assert [(missing.name, missing.step) for missing in comparison.only_in_a] == [("loss", 3)]


def test_a_value_that_a_tracer_omitted_is_held_over_iterations(tmp_path: Path) -> None:
    a = traced(tmp_path, "a", {0: {"w": 1.0, "h": 5.0}, 1: {"h": 6.0}, 2: {"h": 7.0}})
    b = traced(tmp_path, "b", {0: {"w": 1.0, "h": 5.0}, 1: {"h": 6.0}, 2: {"w": 2.0, "h": 7.0}})
    assert differences_of(clew.diff(a, b)) == [("w", 2, 1.0, 2.0, "a")]
    assert clew.diff(a, b).first.file == "mod.py"


def test_an_omitted_input_comes_before_what_was_computed_from_it(tmp_path: Path) -> None:
    a = traced(tmp_path, "a", {0: {"0.input": 1.0, "0": 2.0, "1": 3.0}, 1: {"0": 2.5, "1": 3.5}})
    b = traced(tmp_path, "b", {0: {"0.input": 1.0, "0": 2.0, "1": 3.0}, 1: {"0.input": 1.5, "0": 2.75, "1": 3.75}})
    comparison = clew.diff(a, b)
    assert differences_of(comparison) == [
        ("0.input", 1, 1.0, 1.5, "a"),
        ("0", 1, 2.5, 2.75, ""),
        ("1", 1, 3.5, 3.75, ""),
    ]
    assert [difference.ordinal for difference in comparison.differences] == [(2, 2)] * 3
    assert comparison.differences[1].role == "propagator"


def test_the_input_of_a_model_was_not_made_in_it(tmp_path: Path) -> None:
    a, b = (traced(tmp_path, str(given), {0: {"0.weight": 1.0, "input": given}}) for given in (1.0, 2.0))
    assert (clew.diff(a, b).first.name, clew.diff(a, b).first.role) == ("input", "unknown")


def test_within_a_step_a_held_value_comes_before_the_next_common_change(tmp_path: Path) -> None:
    a = stepped(tmp_path, "a", {0: {"x": 1.0, "y": 2.0}, 1: {"y": 3.0}})
    b = stepped(tmp_path, "b", {0: {"x": 1.0, "y": 2.0}, 1: {"x": 1.5, "y": 3.5}})
    assert differences_of(clew.diff(a, b)) == [("x", 1, 1.0, 1.5, "a"), ("y", 1, 3.0, 3.5, "")]


def test_iterations_find_each_other_by_their_step(tmp_path: Path) -> None:
    a = traced(tmp_path, "a", {n: {"h": float(n)} for n in range(6)})
    b = traced(tmp_path, "b", {n: {"h": float(n)} for n in range(3, 8)})
    comparison = clew.diff(a, b)
    assert (comparison.compared, len(comparison.differences)) == (3, 0)
    assert (comparison.only_in_a.calls, comparison.only_in_b.calls) == (3, 2)


def test_without_steps_a_change_that_one_run_lacks_does_not_shift_all_the_others(tmp_path: Path) -> None:
    a = stepless(tmp_path, "a", [("x", value, 10) for value in (1.0, 2.0, 3.0, 4.0, 5.0)])
    b = stepless(tmp_path, "b", [("x", value, 10) for value in (1.0, 2.0, 4.0, 5.0)])
    comparison = clew.diff(a, b)
    assert differences_of(comparison) == [("x", None, 3.0, 2.0, "b")]
    assert (comparison.only_in_a.values, comparison.only_in_b.values) == (0, 0)


def stepless(base: Path, name: str, changes: list[tuple[str, Any, int]]) -> Any:
    """A call in which names change at lines, one after the other."""
    writer = Written(base, f"120000-{name}")
    shard = writer.shard()
    call = shard.call()
    for what, value, line in changes:
        shard.change(call, what, value, line=line)
    shard.end(call)
    shard.close()
    return writer.open()


def test_without_steps_a_statement_that_changed_nothing_in_one_run_is_where_they_differ(tmp_path: Path) -> None:
    a = stepless(tmp_path, "a", [("r", 29.0, 21), ("r", 41.25, 24), ("q", 1.0, 25), ("r", 35.0, 23), ("q", 2.0, 25)])
    b = stepless(
        tmp_path,
        "b",
        [("r", 29.0, 21), ("r", 29.25, 23), ("r", 41.5, 24), ("q", 1.0, 25), ("r", 35.25, 23), ("q", 2.0, 25)],
    )
    assert differences_of(clew.diff(a, b))[:2] == [("r", None, 29.0, 29.25, "a"), ("r", None, 41.25, 41.5, "")]
    assert differences_of(clew.diff(b, a))[:2] == [("r", None, 29.25, 29.0, "b"), ("r", None, 41.5, 41.25, "")]


def test_without_steps_a_run_that_went_on_for_longer_is_only_longer(tmp_path: Path) -> None:
    loop = [("loss", 3.0, 10), ("acc", 0.1, 11), ("loss", 2.0, 10), ("acc", 0.2, 11)]
    a = stepless(tmp_path, "a", [*loop, ("end", 1, 12)])
    b = stepless(tmp_path, "b", [*loop, ("loss", 1.0, 10), ("acc", 0.3, 11), ("end", 1, 12)])
    comparison = clew.diff(a, b)
    assert (differences_of(comparison), comparison.only_in_b.values) == ([], 2)


def test_twenty_thousand_steps_with_one_more_change_are_aligned(tmp_path: Path) -> None:
    rng = np.random.default_rng(0).standard_normal(20_000).tolist()
    a = stepped(tmp_path, "a", {n: {"x": value} for n, value in enumerate(rng)})
    changed_steps: dict[Any, dict[str, Any]] = {n: {"x": value} for n, value in enumerate(rng)}
    changed_steps[777]["y"] = 1
    b = stepped(tmp_path, "b", changed_steps)
    comparison = clew.diff(a, b)
    assert (comparison.compared, len(comparison.differences)) == (20_000, 0)
    assert [(missing.name, missing.step) for missing in comparison.only_in_b] == [("y", 777)]


def lanes(base: Path, name: str, order: list[int]) -> Any:
    """A process for each rank, written in some order."""
    writer = Written(base, f"120000-{name}")
    shards = {rank: writer.shard(rank) for rank in sorted(order)}
    for rank in order:
        shard: Shard = shards[rank]
        call = shard.call("step")
        shard.change(call, "loss", float(rank))
        shard.end(call)
    for shard in shards.values():
        shard.close()
    return writer.open()


def test_ranks_are_compared_with_ranks_whichever_was_first(tmp_path: Path) -> None:
    comparison = clew.diff(lanes(tmp_path, "a", [0, 1, 2]), lanes(tmp_path, "b", [2, 1, 0]))
    assert (comparison.compared, comparison.equal) == (3, True)
    fewer = clew.diff(lanes(tmp_path, "c", [0, 1, 2]), lanes(tmp_path, "d", [0, 1]))
    assert (fewer.compared, fewer.only_in_a.calls) == (2, 1)


def test_an_exception_that_only_one_run_raised_is_a_difference(tmp_path: Path) -> None:
    runs = []
    for name, error in (("a", "ValueError: no"), ("b", "ValueError: yes"), ("c", None)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        call = shard.call()
        shard.change(call, "x", 1)
        shard.end(call, error=error)
        shard.close()
        runs.append(writer.open())
    first = clew.diff(runs[0], runs[1]).first
    assert (first.what, first.a, first.b) == ("exception", "ValueError: no", "ValueError: yes")
    alone = clew.diff(runs[0], runs[2])
    assert (alone.first.what, alone.first.a, alone.first.b) == ("exception", "ValueError: no", None)
    assert "no exception" in str(alone)
    assert len(alone.only_in_a) == len(alone.only_in_b) == 0


def test_a_step_that_an_exception_ended_holds_nothing(tmp_path: Path) -> None:
    runs = []
    for name, error in (("a", None), ("b", "ValueError: bad")):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        call = shard.call()
        for step in range(4):
            shard.step(call, step)
            if error and step == 3:
                break
            shard.change(call, "loss", float(step))
        shard.end(call, error=error)
        shard.close()
        runs.append(writer.open())
    comparison = clew.diff(*runs)
    assert [(difference.what, difference.a, difference.b) for difference in comparison.differences] == [
        ("exception", None, "ValueError: bad")
    ]
    assert [(missing.name, missing.step) for missing in comparison.only_in_a] == [("loss", 3)]
    assert comparison.first.role == "producer"


def test_arguments_that_were_kept_as_one_value_are_compared(tmp_path: Path) -> None:
    runs = []
    for name, lr in (("a", 0.1), ("b", 0.2)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        shard.end(shard.call(args={"lr": lr, "n": 3}))
        shard.close()
        runs.append(writer.open())
    first = clew.diff(*runs).first
    assert (first.what, first.measure.path) == ("argument", "['lr']")

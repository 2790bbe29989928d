"""Runs as columns: lanes of threads, items of pipelines, the order of the tree."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.compare.side import thread_lanes
from reading.writing import Written


def test_threads_are_counted_anew_in_each_run() -> None:
    first = thread_lanes(["MainThread", "Thread-1 (work)", "Thread-2 (work)", "pool-0_10", "pool-0_9"])
    again = thread_lanes(["Thread-12 (work)", "Thread-13 (work)", "MainThread", "pool-3_9", "pool-3_10"])
    assert (first["MainThread"], first["Thread-2 (work)"], first["pool-0_9"]) == ("", "Thread-# (work) 1", "pool-#_# 0")
    assert sorted(first.values()) == sorted(again.values())


@clew.follow(show=False)
def work(number: int, factor: int) -> int:
    return doubled(number) * factor


def doubled(number: int) -> int:
    return number * 2


def in_threads(name: str, *, factor: int = 1) -> Any:
    with clew.run(name) as run:
        work(0, 1)
        barrier = threading.Barrier(3)

        def some(start: int) -> None:
            barrier.wait()
            for number in range(start, start + 5):
                work(number, factor if number == 12 else 1)

        threads = [threading.Thread(target=some, args=(10 * number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return run


def test_runs_are_compared_thread_by_thread(runs_folder: Path) -> None:
    assert clew.diff(in_threads("a"), in_threads("b"), ignore="some").equal
    comparison = clew.diff(in_threads("c"), in_threads("d", factor=7), ignore="some")
    assert [(difference.name, difference.a, difference.b) for difference in comparison.differences] == [
        ("factor", 1, 7),
        ("return", 24, 168),
    ]
    assert comparison.differences[1].role == "propagator"


@clew.stage("clean")
def clean(row: int) -> int:
    return row * 2


def through(name: str, order: list[int], bad: int | None = None) -> Any:
    """Items through a stage, in the order in which two workers happen to take them."""
    with clew.run(name) as run, clew.items(len(order)), ThreadPoolExecutor(1) as pool:
        for number in order:
            pool.submit(clean, number if number != bad else 100).result()
    return run


@pytest.mark.parametrize("function", ["clean"])
def test_items_and_stages_are_compared(runs_folder: Path, function: str) -> None:
    assert clew.diff(through("a", [0, 1, 2]), through("b", [0, 1, 2])).equal
    comparison = clew.diff(through("c", [0, 1, 2]), through("d", [0, 1, 2], bad=1))
    assert [(difference.name, difference.function) for difference in comparison.differences] == [
        ("row", function),
        ("result", function),
    ]
    assert [difference.role for difference in comparison.differences] == ["unknown", "propagator"]
    assert [argument.name for argument in comparison.differences[1].inputs] == ["row"]


def test_calls_in_a_counting_loop_have_its_step(tmp_path: Path) -> None:
    runs = []
    for name, more in (("a", 0.0), ("b", 0.5)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        train = shard.call("train")
        shard.end(shard.call("setup", parent=train))
        for step in range(10, 13):
            shard.step(train, step)
            outer = shard.call("outer", parent=train)
            inner = shard.call("inner", parent=outer)
            shard.change(inner, "x", float(step) + (more if step == 11 else 0.0))
            shard.end(inner)
            shard.end(outer)
        shard.end(train)
        shard.close()
        runs.append(writer.open())
    comparison = clew.diff(*runs)
    assert (comparison.first.step, comparison.first.ordinal) == (11, (2, 3))
    assert [(node.label, node.differ) for node in comparison.steps.children] == [("10", 0), ("11", 1), ("12", 0)]
    assert "`x` at step 11 in call 2 of 3 of inner" in str(comparison)

"""The local engines: in the calling thread, in threads, in processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from clew.engines.engine import Engine
from clew.engines.local import Inline, Processes, Threads
from clew.errors import GraphError
from engines.works import Doubling, drained


@pytest.fixture(params=["inline", "threads", "processes"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    work = Doubling()
    makers: dict[str, Any] = {
        "inline": lambda: Inline(work.run),
        "threads": lambda: Threads(work.run, 2),
        "processes": lambda: Processes(work, 2),
    }
    engine_: Engine = makers[request.param]()
    yield engine_
    engine_.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    engine_ = Processes(Doubling(str(tmp_path)), 1)
    yield engine_
    engine_.close()


def test_every_piece_comes_back_once(engine: Engine) -> None:
    for number in range(10):
        engine.submit((number, 0, 2), [number, "x"])
    outcomes = drained(engine, 10)
    assert {number: outcome.done.results for number, outcome in outcomes.items() if outcome.done} == {
        number: [number * 2, "xx"] for number in range(10)
    }
    assert engine.collect(wait=True) == []


def test_with_nothing_to_do_nobody_waits(engine: Engine) -> None:
    assert engine.collect(wait=True) == []
    assert engine.collect(wait=False) == []


def test_closing_abandons_unfinished_pieces() -> None:
    engine = Processes(Doubling(), 2)
    mine = [psutil.Process(pid) for pid in engine.pids]
    for number in range(20):
        engine.submit((number, 0, 1), [1])
    engine.close()
    _, alive = psutil.wait_procs(mine, timeout=30)
    assert len(mine) == 2
    assert not alive


def test_threads_end_when_the_engine_is_closed() -> None:
    before = set(threading.enumerate())
    engine = Threads(Doubling().run, 3)
    mine = set(threading.enumerate()) - before
    engine.close()
    for thread in mine:
        thread.join(timeout=30)
    assert len(mine) == 3
    assert not any(thread.is_alive() for thread in mine)


def test_an_interrupt_in_a_thread_is_raised_where_results_are_taken() -> None:
    def interrupted(items: list[Any]) -> Any:
        raise KeyboardInterrupt

    engine = Threads(interrupted, 1)
    engine.submit((0, 0, 1), [1])
    with pytest.raises(KeyboardInterrupt):
        engine.collect(wait=True)
    engine.close()


def test_each_process_makes_the_work_ready_once(tmp_path: Path) -> None:
    engine = Processes(Doubling(str(tmp_path)), 2)
    for number in range(12):
        engine.submit((number, 0, 1), ["pid"])
    outcomes = drained(engine, 12)
    pids = engine.pids
    engine.close()
    assert {outcome.done.results[0] for outcome in outcomes.values() if outcome.done} <= set(pids)
    assert {int(file.name[6:]) for file in tmp_path.glob("ready-*")} <= set(pids)
    assert os.getpid() not in pids


def test_a_process_that_dies_is_replaced_and_only_its_piece_is_lost(processes: Processes) -> None:
    before = processes.pids
    for number, item in enumerate([1, "die", 3, 4]):
        processes.submit((number, 0, 1), [item])
    outcomes = drained(processes, 4)
    assert outcomes[1].done is None
    assert outcomes[1].lost == "the worker died (signal SIGKILL)"
    assert [outcomes[number].done.results for number in (0, 2, 3)] == [[2], [6], [8]]  # type: ignore[union-attr]
    assert processes.pids != before


def test_workers_that_cannot_be_prepared_are_an_error_with_their_traceback() -> None:
    engine = Processes(Doubling(broken=True), 1)
    engine.submit((0, 0, 1), [1])
    with pytest.raises(GraphError, match="RuntimeError: the model is missing") as raised:
        engine.collect(wait=True)
    engine.close()
    assert raised.value.slug == "graph-worker"
    assert "prepare" in raised.value.__notes__[0]


class DiesAtOnce(Doubling):
    def prepare(self) -> Any:
        os._exit(7)


def test_workers_that_die_before_they_are_ready_end_the_job() -> None:
    engine = Processes(DiesAtOnce(), 1)
    engine.submit((0, 0, 1), [1])
    with pytest.raises(GraphError, match="ended before it was ready \\(exit status 7\\)"):
        engine.collect(wait=True)
    engine.close()


def test_items_that_cannot_be_sent_fail_alone(processes: Processes) -> None:
    processes.submit((0, 0, 4), [1, lambda: None, "function", 4])
    result = drained(processes, 1)[0].done
    assert result is not None
    assert result.results == [2, None, None, 8]
    assert [place for place, _, _ in result.failures] == [1, 2]
    assert "the item cannot be sent" in result.failures[0][1]
    assert "the result cannot be sent" in result.failures[1][1]


def test_large_pieces_pass_both_ways_at_once(processes: Processes) -> None:
    """More than the operating system's buffers hold: nobody may wait for the other to read first."""
    for number in range(6):
        processes.submit((number, 0, 1), [b"x" * 3_000_000])
    outcomes = drained(processes, 6)
    assert all(outcome.done and len(outcome.done.results[0]) == 6_000_000 for outcome in outcomes.values())
    assert all(outcome.done and outcome.done.size > 6_000_000 for outcome in outcomes.values())


def test_processes_end_when_the_engine_is_closed_whatever_they_are_doing(tmp_path: Path) -> None:
    engine = Processes(Doubling(str(tmp_path)), 1)
    engine.submit((0, 0, 1), ["wait"])
    while not list(tmp_path.glob("at-*")):
        engine.collect(wait=False)
    process = engine._processes[0].process
    engine.close()
    assert process.returncode == 0

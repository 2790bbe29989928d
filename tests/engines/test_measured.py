"""The engine that measures: which it chooses, on a clock that the items move."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from clew.engines import adaptive
from clew.engines.adaptive import Measured
from clew.engines.engine import Done, Key, Outcome, UnsendableError


class Clock:
    """Time passes while items are run: so many seconds for each, by where that is."""

    def __init__(self, serial: float, thread: float, process: float = 0.0) -> None:
        self.now = 0.0
        self._seconds = {"serial": serial, "thread": thread, "process": process}
        self._main = threading.get_ident()
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def run(self, items: list[Any]) -> Done:
        return self.run_in("serial" if threading.get_ident() == self._main else "thread", items)

    def run_in(self, place: str, items: list[Any]) -> Done:
        with self._lock:
            self.now += self._seconds[place] * len(items)
        return Done([10 * item for item in items], [], self._seconds[place] * len(items))


class FakeProcesses:
    """Processes that are ready at the second look, and run in this one."""

    workers, room, piece_seconds = 2, 4, 0.05

    def __init__(self, clock: Clock, *, fails: str = "") -> None:
        self._clock = clock
        self._fails = fails
        self._looks = 0
        self._pieces: list[tuple[Key, list[Any]]] = []
        self.is_closed = False

    def are_ready(self) -> bool:
        self._looks += 1
        if self._fails == "start":
            raise OSError("no memory")
        return self._looks > 1

    def submit(self, key: Key, items: list[Any]) -> None:
        if self._fails == "send":
            raise UnsendableError("a lock")
        self._pieces.append((key, items))

    def collect(self, wait: bool) -> list[Outcome]:
        pieces, self._pieces = self._pieces, []
        done = [Outcome(key, self._clock.run_in("process", items)) for key, items in pieces]
        if self._fails == "answer":
            done = [item._replace(done=Done([None], [], 0.0, unsendable=True)) for item in done]
        if self._fails == "read":
            done = [Outcome(item.key, None, "it cannot be read", unreadable=True) for item in done]
        return done

    def close(self) -> None:
        self.is_closed = True


def ran(engine: Any, count: int) -> list[int]:
    """All results of so many items, each of them a piece."""
    under_way: set[Key] = set()
    results: dict[int, int] = {}
    number = 0
    while len(results) < count:
        if number < count and len(under_way) < engine.room:
            under_way.add((number, 0, 1))
            engine.submit((number, 0, 1), [number])
            number += 1
        for outcome in engine.collect(wait=number == count or len(under_way) >= engine.room):
            under_way.remove(outcome.key)
            assert outcome.done is not None
            results[outcome.key[0]] = outcome.done.results[0]
    engine.close()
    return [results[place] for place in range(count)]


def measured_engine(clock: Clock, count: int | None, processes: Any = "none are wanted") -> Measured:
    return Measured(clock.run, 2, count, processes, clock)


def test_threads_are_chosen_where_they_are_faster() -> None:
    clock = Clock(serial=0.02, thread=0.01)
    engine = measured_engine(clock, 500)
    assert ran(engine, 500) == [10 * item for item in range(500)]
    assert engine.choice.kind == "threads"
    assert engine.choice.reason.startswith("threads were ")


def test_the_calling_thread_is_chosen_where_threads_do_not_help_and_processes_cannot_be() -> None:
    engine = measured_engine(Clock(serial=0.02, thread=0.03), 500)
    assert ran(engine, 500) == [10 * item for item in range(500)]
    assert engine.choice.kind == "serial"
    assert engine.choice.reason.endswith("no processes: none are wanted")


@pytest.mark.parametrize("count", [2000, None])
def test_processes_are_chosen_where_threads_do_not_help_and_much_is_left(count: int | None) -> None:
    clock = Clock(serial=0.02, thread=0.03, process=0.01)
    engine = measured_engine(clock, count, lambda: FakeProcesses(clock))
    assert ran(engine, 2000) == [10 * item for item in range(2000)]
    assert engine.choice.kind == "processes"
    assert "processes were 2.0 times as fast" in engine.choice.reason


def test_processes_that_cost_more_than_they_bring_are_left_again() -> None:
    clock = Clock(serial=0.02, thread=0.03, process=0.05)
    processes = FakeProcesses(clock)
    engine = measured_engine(clock, 2000, lambda: processes)
    assert ran(engine, 2000) == [10 * item for item in range(2000)]
    assert engine.choice.kind == "serial"
    assert processes.is_closed


def test_processes_are_not_started_for_little_work() -> None:
    engine = measured_engine(Clock(serial=0.02, thread=0.03), 60, lambda: pytest.fail("they are started"))
    assert ran(engine, 60) == [10 * item for item in range(60)]
    assert "s of work were left for processes" in engine.choice.reason


def test_little_work_is_not_shared() -> None:
    engine = measured_engine(Clock(serial=0.02, thread=0.01), 10)
    assert ran(engine, 10) == [10 * item for item in range(10)]
    assert engine.choice.kind == "serial"
    assert "left to share" in engine.choice.reason


def test_items_that_use_all_processors_are_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(serial=0.02, thread=0.01)
    monkeypatch.setattr(adaptive, "process_time", lambda: 2 * clock.now)
    engine = measured_engine(clock, 500)
    assert ran(engine, 500) == [10 * item for item in range(500)]
    assert engine.choice.reason == "an item uses 2.0 processors by itself"


def test_processes_that_cannot_be_made_or_do_not_start_are_done_without() -> None:
    def broken() -> Any:
        raise ValueError("it cannot be saved")

    clock = Clock(serial=0.02, thread=0.03)
    starts: list[Any] = [broken, lambda: FakeProcesses(clock, fails="start")]
    for start, why in zip(starts, ("it cannot be saved", "no memory"), strict=True):
        engine = measured_engine(clock, 500, start)
        assert ran(engine, 500) == [10 * item for item in range(500)]
        assert engine.choice.kind == "serial"
        assert why in engine.choice.reason


@pytest.mark.parametrize("fails", ["send", "answer", "read"])
def test_items_that_cannot_be_sent_are_run_in_the_calling_thread(fails: str) -> None:
    clock = Clock(serial=0.02, thread=0.03, process=0.001)
    engine = measured_engine(clock, 500, lambda: FakeProcesses(clock, fails=fails))
    assert ran(engine, 500) == [10 * item for item in range(500)]

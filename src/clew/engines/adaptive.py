"""An engine that uses the calling thread, threads or processes: whichever runs the first items of a job fastest.

It goes through these stages:

serial     run in the calling thread until its speed is known
threads    the same for threads: they help where items wait, or where libraries release the GIL
starting   threads did not help, and much is left: processes start while the calling thread continues
processes  the same for processes: they help unless sending items costs more than running them
settled    run in whichever was fastest
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from clew.engines.engine import Engine, Key, Outcome, Run, UnsendableError
from clew.engines.local import Inline, Processes, Threads

SERIAL_SECONDS = 0.05  # how long items run serially before anything else is tried
THREAD_SECONDS = 0.2
PROCESS_SECONDS = 0.5
WORTH_SECONDS = 2.0  # seconds of work that must be left for processes to be started
GAIN = 1.2  # threads or processes must be so many times as fast to be used
BUSY = 1.3  # if an item uses more processors than this by itself, more workers would slow each other down


@dataclass(frozen=True)
class Choice:
    """Where items were run, and why."""

    kind: str  # "serial", "threads", "processes", or the name of an engine
    workers: int
    reason: str

    def __str__(self) -> str:
        where = "in the calling thread" if self.kind == "serial" else f"in {self.workers} {self.kind}"
        return f"{where} ({self.reason})"


class _Rate:
    """How many items a second an engine has run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = self._end = clock()
        self._items = self.pieces = 0

    def add(self, items: int) -> None:
        self._items += items
        self.pieces += 1
        self._end = self._clock()

    def restart(self) -> None:
        self._start = self._end = self._clock()
        self._items = self.pieces = 0

    @property
    def seconds(self) -> float:
        return self._end - self._start

    @property
    def items_a_second(self) -> float:
        return self._items / max(self.seconds, 1e-9)


class Measured:
    """An engine that finds out which engine to use."""

    deaths, blames = Processes.deaths, Processes.blames

    def __init__(
        self,
        run: Run,
        workers: int,
        count: int | None,
        start_processes: Callable[[], Processes] | str,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """start_processes   starts them, or is the reason why there cannot be any"""
        self.workers = workers
        self._run = run
        self._count = count
        self._start_processes = start_processes
        self._clock = clock
        self._inline: Engine = Inline(run)
        self._engine: Engine = self._inline
        self._next: Engine | None = None  # takes over when nothing is under way
        self._processes: Processes | None = None
        self._stage = "serial"
        self._rates: dict[str, _Rate] = {"serial": _Rate(clock)}
        self._is_full_size = False  # a piece took as long as pieces should; the first are small, and load modules
        self._is_warm = False  # measuring has begun
        self._cpu_before = 0.0
        self._finished_items = 0
        self._pieces: dict[Key, Any] = {}  # pieces under way
        self.choice = Choice("serial", 1, "too few items to measure")

    # ---- an engine

    @property
    def room(self) -> int:
        return 0 if self._next is not None else self._engine.room

    @property
    def piece_seconds(self) -> float:
        return self._engine.piece_seconds

    def submit(self, key: Key, items: Any) -> None:
        if self._is_full_size and not self._is_warm:
            self._is_warm, self._cpu_before = True, process_time()
            self._rates["serial"].restart()
        try:
            self._engine.submit(key, items)
        except UnsendableError:  # run it here, where it need not be sent
            self._inline.submit(key, items)
        self._pieces[key] = items

    def collect(self, wait: bool) -> list[Outcome]:
        outcomes = self._inline.collect(wait)
        if self._engine is not self._inline:
            outcomes += self._engine.collect(wait and not outcomes)
        outcomes = [self._run_here_if_needed(outcome) for outcome in outcomes]
        for outcome in outcomes:
            (_, begin, end), piece = outcome.key, outcome.done
            self._is_full_size |= piece is not None and piece.seconds >= self._inline.piece_seconds / 2
            self._finished_items += end - begin
            if self._stage in self._rates:
                self._rates[self._stage].add(end - begin)
        self._advance()
        return outcomes

    def _run_here_if_needed(self, outcome: Outcome) -> Outcome:
        """Run a piece here if it or its results could not be sent: the results are the same wherever it runs."""
        items = self._pieces.pop(outcome.key)
        if outcome.unreadable or (outcome.done is not None and outcome.done.unsendable):
            return Outcome(outcome.key, self._run(items))
        return outcome

    def close(self) -> None:
        engines = [self._inline, self._engine, self._next, self._processes]
        for place, engine in enumerate(engines):
            if engine is not None and engine not in engines[:place]:
                engine.close()

    # ---- the stages

    def _advance(self) -> None:
        if self._next is not None:
            if not self._pieces:
                self._take_over(self._next)
            return
        rate = self._rates.get(self._stage)
        if self._stage == "serial" and self._is_warm and rate is not None and rate.seconds >= SERIAL_SECONDS:
            self._after_serial(rate)
        elif self._stage == "threads" and rate is not None and self._is_measured(rate, THREAD_SECONDS):
            self._after_threads()
        elif self._stage == "later":
            self._consider_processes()
        elif self._stage == "starting":
            self._use_processes_if_ready()
        elif self._stage == "processes" and rate is not None and self._is_measured(rate, PROCESS_SECONDS):
            self._after_processes()

    def _is_measured(self, rate: _Rate, seconds: float) -> bool:
        return rate.seconds >= seconds and rate.pieces >= self.workers

    def _after_serial(self, rate: _Rate) -> None:
        processors = (process_time() - self._cpu_before) / max(rate.seconds, 1e-9)
        seconds_left = None if self._count is None else (self._count - self._finished_items) / rate.items_a_second
        if processors > BUSY:
            self._settle("serial", f"an item uses {processors:.1f} processors by itself")
        elif seconds_left is not None and seconds_left < THREAD_SECONDS:
            self._settle("serial", f"only {seconds_left:.1f} s of work were left to share")
        else:
            self._switch(Threads(self._run, self.workers), "threads")

    def _after_threads(self) -> None:
        if self._speedup("threads") >= GAIN:
            self._settle("threads", self._figures("threads"))
        else:
            self._consider_processes()

    def _consider_processes(self) -> None:
        """Start processes if that is possible and enough work is left; else continue in the calling thread."""
        rate = self._rates["serial"].items_a_second
        seconds_left = (
            self._finished_items / rate if self._count is None else (self._count - self._finished_items) / rate
        )
        if isinstance(self._start_processes, str):
            self._settle("serial", f"{self._figures('threads')}; no processes: {self._start_processes}")
        elif seconds_left >= WORTH_SECONDS:
            self._launch_processes()
        elif self._count is None:  # how much is left is unknown; the guess is as much as was done so far
            self._settle("serial", f"{self._figures('threads')}; too little work for processes so far", stage="later")
        else:
            self._settle("serial", f"{self._figures('threads')}; {seconds_left:.1f} s of work were left for processes")

    def _launch_processes(self) -> None:
        assert callable(self._start_processes)
        try:
            self._processes = self._start_processes()
        except Exception as error:  # a graph that cannot be saved can still be run here
            self._settle("serial", f"{self._figures('threads')}; no processes: {error}")
            return
        self._switch(self._inline, "starting")

    def _use_processes_if_ready(self) -> None:
        assert self._processes is not None
        try:
            if self._processes.are_ready():
                self._switch(self._processes, "processes")
        except Exception as error:  # they ended before they were ready
            self._settle("serial", f"{self._figures('threads')}; no processes: {error}")

    def _after_processes(self) -> None:
        figures = f"{self._figures('threads')}, {self._figures('processes')}"
        best = max(("serial", "processes"), key=lambda kind: self._speedup(kind) - (GAIN - 1) * (kind != "serial"))
        self._settle(best, figures)

    # ---- switching engines

    def _settle(self, kind: str, reason: str, stage: str = "settled") -> None:
        self.choice = Choice(kind, 1 if kind == "serial" else self.workers, reason)
        self._switch(self._inline if kind == "serial" else self._engine, stage)

    def _switch(self, engine: Engine, stage: str) -> None:
        """Another engine takes over as soon as the current one has nothing under way."""
        self._stage = stage
        if engine is not self._engine:
            self._next = engine
            if not self._pieces:
                self._take_over(engine)

    def _take_over(self, engine: Engine) -> None:
        if self._engine is not self._inline:
            self._engine.close()
        self._engine, self._next = engine, None
        if self._stage in ("threads", "processes"):
            self._rates[self._stage] = _Rate(self._clock)
            self.choice = Choice(self._stage, self.workers, "the job ended before they were measured")

    def _speedup(self, kind: str) -> float:
        return self._rates[kind].items_a_second / self._rates["serial"].items_a_second

    def _figures(self, kind: str) -> str:
        return f"{kind} were {self._speedup(kind):.1f} times as fast as one thread"

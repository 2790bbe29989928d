"""The calling thread, threads or processes: whichever runs the first items of a job fastest.

serial     the calling thread, until it is known how fast that is
threads    the same for threads: they help where items wait, or where libraries let go of the interpreter
starting   threads did not help, and much is left: processes start while the calling thread goes on
processes  the same for processes: they help unless sending items costs more than running them
settled    in whichever was fastest
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from clew.engines.base import Engine, Key, Outcome, Run, UnsendableError
from clew.engines.local import Inline, Processes, Threads

SERIAL_SECONDS = 0.05  # of items that are run before anything else is tried
THREAD_SECONDS = 0.2
PROCESS_SECONDS = 0.5
WORTH_SECONDS = 2.0  # of work that must be left for processes to be started
GAIN = 1.2  # so many times as fast must threads be, or processes, to be used
BUSY = 1.3  # processors that one item uses by itself: then more workers would stand in each other's way


@dataclass(frozen=True)
class Choice:
    """Where items were run, and why there."""

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
        self._began = self._last = clock()
        self._items = self.pieces = 0

    def done(self, items: int) -> None:
        self._items += items
        self.pieces += 1
        self._last = self._clock()

    def restart(self) -> None:
        self._began = self._last = self._clock()
        self._items = self.pieces = 0

    @property
    def seconds(self) -> float:
        return self._last - self._began

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
        """start_processes   makes them; or why there cannot be any"""
        self.workers = workers
        self._run = run
        self._count = count
        self._start_processes = start_processes
        self._clock = clock
        self._inline: Engine = Inline(run)
        self._engine: Engine = self._inline
        self._next: Engine | None = None  # what takes over when nothing is under way
        self._processes: Processes | None = None
        self._stage = "serial"
        self._rates: dict[str, _Rate] = {"serial": _Rate(clock)}
        self._is_full_size = False  # a piece took as long as pieces should: the first are small, and load much
        self._is_warm = False  # what is measured has begun
        self._busy_before = 0.0
        self._done = 0
        self._pieces: dict[Key, Any] = {}  # under way
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
            self._is_warm, self._busy_before = True, process_time()
            self._rates["serial"].restart()
        try:
            self._engine.submit(key, items)
        except UnsendableError:  # it runs here, where it need not travel
            self._inline.submit(key, items)
        self._pieces[key] = items

    def collect(self, wait: bool) -> list[Outcome]:
        outcomes = self._inline.collect(wait)
        if self._engine is not self._inline:
            outcomes += self._engine.collect(wait and not outcomes)
        outcomes = [self._at_home(outcome) for outcome in outcomes]
        for (_, begin, end), done, *_ in outcomes:
            self._is_full_size |= done is not None and done.seconds >= self._inline.piece_seconds / 2
            self._done += end - begin
            if self._stage in self._rates:
                self._rates[self._stage].done(end - begin)
        self._advance()
        return outcomes

    def _at_home(self, outcome: Outcome) -> Outcome:
        """What could not travel is run here: a result is the same wherever it was made."""
        items = self._pieces.pop(outcome.key)
        if outcome.unreadable or (outcome.done is not None and outcome.done.unsendable):
            return Outcome(outcome.key, self._run(items))
        return outcome

    def close(self) -> None:
        engines = [self._inline, self._engine, self._next, self._processes]
        for place, engine in enumerate(engines):
            if engine is not None and engine not in engines[:place]:
                engine.close()

    # ---- finding out

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
            self._look_at_processes()
        elif self._stage == "processes" and rate is not None and self._is_measured(rate, PROCESS_SECONDS):
            self._after_processes()

    def _is_measured(self, rate: _Rate, seconds: float) -> bool:
        return rate.seconds >= seconds and rate.pieces >= self.workers

    def _after_serial(self, rate: _Rate) -> None:
        busy = (process_time() - self._busy_before) / max(rate.seconds, 1e-9)
        left = None if self._count is None else (self._count - self._done) / rate.items_a_second
        if busy > BUSY:
            self._settle("serial", f"an item uses {busy:.1f} processors by itself")
        elif left is not None and left < THREAD_SECONDS:
            self._settle("serial", f"only {left:.1f} s of work were left to share")
        else:
            self._switch(Threads(self._run, self.workers), "threads")

    def _after_threads(self) -> None:
        if self._gain("threads") >= GAIN:
            self._settle("threads", self._figures("threads"))
        else:
            self._consider_processes()

    def _consider_processes(self) -> None:
        """Start them, if they are possible and enough is left; else go on in the calling thread."""
        rate = self._rates["serial"].items_a_second
        left = self._done / rate if self._count is None else (self._count - self._done) / rate
        if isinstance(self._start_processes, str):
            self._settle("serial", f"{self._figures('threads')}; no processes: {self._start_processes}")
        elif left >= WORTH_SECONDS:
            self._start()
        elif self._count is None:  # it is not known how much is left: at least as much as was done, one hopes
            self._settle("serial", f"{self._figures('threads')}; too little work for processes so far", stage="later")
        else:
            self._settle("serial", f"{self._figures('threads')}; {left:.1f} s of work were left for processes")

    def _start(self) -> None:
        assert callable(self._start_processes)
        try:
            self._processes = self._start_processes()
        except Exception as error:  # a graph that cannot be saved can still be run here
            self._settle("serial", f"{self._figures('threads')}; no processes: {error}")
            return
        self._switch(self._inline, "starting")

    def _look_at_processes(self) -> None:
        assert self._processes is not None
        try:
            if self._processes.are_ready():
                self._switch(self._processes, "processes")
        except Exception as error:  # they end before they are ready
            self._settle("serial", f"{self._figures('threads')}; no processes: {error}")

    def _after_processes(self) -> None:
        figures = f"{self._figures('threads')}, {self._figures('processes')}"
        best = max(("serial", "processes"), key=lambda kind: self._gain(kind) - (GAIN - 1) * (kind != "serial"))
        self._settle(best, figures)

    # ---- from one to another

    def _settle(self, kind: str, reason: str, stage: str = "settled") -> None:
        self.choice = Choice(kind, 1 if kind == "serial" else self.workers, reason)
        self._switch(self._inline if kind == "serial" else self._engine, stage)

    def _switch(self, engine: Engine, stage: str) -> None:
        """Another engine takes over, as soon as the one that is at work has nothing under way."""
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

    def _gain(self, kind: str) -> float:
        return self._rates[kind].items_a_second / self._rates["serial"].items_a_second

    def _figures(self, kind: str) -> str:
        return f"{kind} were {self._gain(kind):.1f} times as fast as one thread"

"""Measuring side by side: contenders take turns, each in a process of its own, and medians are compared.

A contender is a function without arguments that sets up what it needs and gives a *measure*: a function that does the
work once and gives the seconds it took (per unit of work, where the amounts differ). Taking turns spreads what else
the machine does over all of them; the ratio of two medians is then steadier than either.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

ROOT = Path(__file__).parent.parent

QUIET = 0.1  # processors that others may keep busy during a turn that counts
PATIENCE = 2  # turns to try for each that is to count
NOISE: list[float] = []  # of each comparison: processors that others kept busy in the noisiest turn that counts

Measure = Callable[[], float]
Contender = Callable[[], Measure]


CLOCK = "CLEW_BENCH_CLOCK"  # "cpu": the processor time of the process, all its threads and its children


def clock() -> float:
    """The wall clock; on a machine that others use too, the processor time taken is the better witness."""
    if os.environ.get(CLOCK) != "cpu":
        return perf_counter()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def timed(work: Callable[[], object]) -> float:
    """Seconds `work` takes. What it gives is let go of after the clock has stopped."""
    start = clock()
    result = work()
    seconds = clock() - start
    del result
    return seconds


class Worker:
    """A process that holds one contender and measures it when asked."""

    def __init__(self, module: str, name: str, python: str | None = None) -> None:
        self.name = name
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "CLEW_QUIET": "1"}
        for switch in ("CLEW", "CLEW_STRICT", "CLEW_RUN"):
            environment.pop(switch, None)
        command = [python or sys.executable, "-m", "benchmarks.worker", module, name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def measure(self) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {self.name!r} ended with status {self._process.wait()}")
        return float(answer)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@dataclass
class Result:
    """What each contender took, turn by turn."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return median(self.seconds[name])

    def ratio(self, name: str, other: str) -> float:
        """The median of the ratios turn by turn: what slows the machine down slows both of a turn."""
        return median(a / b for a, b in zip(self.seconds[name], self.seconds[other], strict=True))

    def spread(self, name: str, other: str) -> float:
        """How far off that median may be: half the width of its 95 % interval, from the order of the ratios."""
        ratios = sorted(a / b for a, b in zip(self.seconds[name], self.seconds[other], strict=True))
        reach = int(0.98 * len(ratios) ** 0.5)
        middle = len(ratios) // 2
        return (ratios[min(len(ratios) - 1, middle + reach)] - ratios[max(0, middle - reach)]) / 2


def compare(module: str, names: Iterable[str], *, repeats: int, python: str | None = None) -> Result:
    """Measure the contenders of a module in turns; the first turn warms up and does not count.

    A turn during which other programs used the processors is done again, within reason; the quietest turns count.
    """
    workers: list[Worker] = []
    turns: list[tuple[float, list[float]]] = []
    try:
        workers += [Worker(module, name, python) for name in names]
        for worker in workers:
            worker.measure()
        while len(turns) < PATIENCE * repeats and sum(noise < QUIET for noise, _ in turns) < repeats:
            turns.append(_turn(workers))
    finally:
        for worker in workers:
            worker.close()
    turns = sorted(turns, key=lambda turn: turn[0])[:repeats]
    NOISE.append(turns[-1][0])
    columns = zip(*(seconds for _, seconds in turns), strict=True)
    return Result({worker.name: list(column) for worker, column in zip(workers, columns, strict=True)})


def _turn(workers: list[Worker]) -> tuple[float, list[float]]:
    """One measurement of each, and how many processors others kept busy meanwhile."""
    start, others = perf_counter(), _others(workers)
    seconds = [worker.measure() for worker in workers]
    return (_others(workers) - others) / (perf_counter() - start), seconds


def _others(workers: list[Worker]) -> float:
    """Processor seconds used on this machine by anybody but this benchmark; 0 where that is not told."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _idle, _wait, _irq, _soft, stolen = map(int, file.readline().split()[1:9])
        own = [_ticks(pid) for pid in (os.getpid(), *(worker.pid for worker in workers))]
    except OSError:
        return 0.0
    return (user + nice + system + stolen - sum(own)) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    """What a process and the children it has waited for have used."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:15]))


# ---- tables ----------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def times(ratio: float) -> str:
    """A ratio for people: 1.34 ×, 28 ×, 4,500 ×."""
    return f"{ratio:.2f} ×" if ratio < 10 else f"{ratio:.1f} ×" if ratio < 100 else f"{ratio:,.0f} ×"


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def machine() -> str:
    """Where this was measured, in one line."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass  # not Linux: the short name does
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def load() -> float:
    """Other work on the machine, as the load average of the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0

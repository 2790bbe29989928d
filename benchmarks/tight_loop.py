"""Two floats watched in a tight loop of five statements: the dearest case, since the loop does nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from benchmarks import peers
from benchmarks.harness import Contender, Measure, compare, duration, table, timed, times

MANY = 3_000_000  # rounds of the loop
TITLE = "Two floats in a tight loop"


def loop(rounds: int) -> float:
    a, b = 0.0, 1.0
    for i in range(rounds):
        c = i * 0.5
        a = a + c
        d = a - c
        b = b * 0.5 + d
        e = c + d
    return e


def loop_by_hand(rounds: int) -> tuple[list[float], list[float]]:
    log_a: list[float] = []
    log_b: list[float] = []
    a, b = 0.0, 1.0
    for i in range(rounds):
        c = i * 0.5
        a = a + c
        log_a.append(a)
        d = a - c
        b = b * 0.5 + d
        log_b.append(b)
        e = c + d  # noqa: F841
    return log_a, log_b


def calling(function: Callable[[int], Any], rounds: int) -> Measure:
    return lambda: timed(lambda: function(rounds)) / rounds


def in_memory() -> Measure:
    """The function alone: the thread that takes what it logged comes afterwards."""
    import clew
    from clew.recorder import backlog, recorder

    backlog.INTERVAL = recorder.HURRY = 3600.0
    watched = clew.watch("a", "b")(loop)

    def measure() -> float:
        with clew.run("bench") as run:
            seconds = timed(lambda: watched(MANY))
        shutil.rmtree(str(run.path))
        return seconds / MANY

    return measure


def stored() -> Measure:
    """From opening the run to its being closed, everything on disk."""
    import clew

    watched = clew.watch("a", "b")(loop)

    def whole_run() -> Any:
        with clew.run("bench") as run:
            watched(MANY)
        return run

    def measure() -> float:
        runs: list[Any] = []
        seconds = timed(lambda: runs.append(whole_run()))
        shutil.rmtree(str(runs[0].path))
        return seconds / MANY

    return measure


def peer(decorator: Callable[..., peers.Decorator], rounds: int) -> Contender:
    def contender() -> Measure:
        peers.quiet()
        return calling(decorator("a", "b")(loop), rounds)

    return contender


OURS: dict[str, Contender] = {
    "untraced": lambda: calling(loop, MANY),
    "by hand": lambda: calling(loop_by_hand, MANY),
    "clew, in memory": in_memory,
    "clew, stored": stored,
}
PEERS: dict[str, Contender] = {
    "VizTracer log_var": peer(peers.viztracer, 50_000),
    "settrace that does nothing": lambda: calling(peers.smallest_settrace(loop), 100_000),
    "ztrace's method": peer(peers.ztrace_method, 5_000),
    "snoop": peer(peers.snoop, 300),
    "PySnooper": peer(peers.pysnooper, 300),
}
CONTENDERS = OURS | PEERS
NOTES = {"clew, in memory": "≤ 1.5 × by hand", "clew, stored": "≤ 2 × by hand"}


def report(repeats: int, pythons: list[str]) -> str:
    result = compare(__name__, CONTENDERS, repeats=repeats)
    rows = [
        (
            name,
            duration(result.median(name)),
            times(result.ratio(name, "untraced")),
            times(result.ratio(name, "by hand")),
            times(result.ratio(name, "clew, in memory")),
            NOTES.get(name, ""),
        )
        for name in CONTENDERS
    ]
    text = table(["", "a round", "untraced", "by hand", "clew, in memory", "to reach"], rows)
    return text + "".join(_other_python(python, repeats) for python in pythons)


def _other_python(python: str, repeats: int) -> str:
    import subprocess

    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    result = compare(__name__, OURS, repeats=repeats, python=python)
    rows = [
        (name, duration(result.median(name)), *(times(result.ratio(name, base)) for base in ("untraced", "by hand")))
        for name in OURS
    ]
    return f"\n\nThe same on {version}:\n\n" + table(["", "a round", "untraced", "by hand"], rows)

"""Graphs: what running one costs beside calling its functions, two processors, many items, bundles, torch modules."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import clew
from benchmarks.graphops import CHAIN, chain, heavier, plus_one, product, side_by_side, squares, two
from benchmarks.harness import Contender, Measure, compare, duration, table, timed, times
from clew.graph.bundle import load

TITLE = "Graphs"
RUNS = 2_000  # of the chain, in one measurement
MILLION = 1_000_000
HEAVIER = 20_000  # items of some 50 µs
PIECE = 1_000  # chunksize of Pool.imap


# ---- one run of ten operators ----------------------------------------------------------------------------------------


def by_hand() -> Measure:
    def work() -> None:
        for number in range(RUNS):
            x: float = number
            for _ in range(CHAIN):
                x = plus_one(x)

    return lambda: timed(work) / RUNS / CHAIN


def graph_call() -> Measure:
    graph = clew.record(chain, 1)

    def work() -> None:
        for number in range(RUNS):
            graph(x=number)

    return lambda: timed(work) / RUNS / CHAIN


def dask_chain() -> Measure:
    """Dask's own synchronous scheduler, the quickest it has."""
    import dask

    steps: dict[str, Any] = {f"s{n}": (plus_one, f"s{n - 1}") for n in range(1, CHAIN + 1)}
    runs = RUNS // 20

    def work() -> None:
        for number in range(runs):
            dask.get({"s0": number, **steps}, f"s{CHAIN}")  # type: ignore[attr-defined]

    return lambda: timed(work) / runs / CHAIN


def hamilton_chain() -> Measure:
    os.environ["HAMILTON_TELEMETRY_ENABLED"] = "false"
    from hamilton import ad_hoc_utils, base, driver

    scope: dict[str, Any] = {}
    source = "\n".join(f"def s{n}(s{n - 1}: float) -> float:\n    return s{n - 1} + 1\n" for n in range(1, CHAIN + 1))
    exec(compile(source, "<hamilton>", "exec"), scope)
    functions = [scope[f"s{n}"] for n in range(1, CHAIN + 1)]
    module = ad_hoc_utils.create_temporary_module(*functions, module_name="hamilton_chain")
    made = driver.Driver({}, module, adapter=base.DefaultAdapter())
    runs = RUNS // 20

    def work() -> None:
        for number in range(runs):
            made.execute([f"s{CHAIN}"], inputs={"s0": float(number)})

    return lambda: timed(work) / runs / CHAIN


HAND = "the functions, called by hand"
GRAPH = "clew, `graph(x=1)`"
ONE = {HAND: by_hand, GRAPH: graph_call, "Dask, `dask.get`": dask_chain, "Hamilton, `execute`": hamilton_chain}


# ---- two processors --------------------------------------------------------------------------------------------------


def matrix() -> Any:
    return np.linspace(0.0, 1.0, 200_000)


def one_after_the_other() -> Measure:
    graph, given = clew.record(side_by_side, matrix()), {"matrix": matrix()}
    return lambda: timed(lambda: graph.run(given))


def at_the_same_time() -> Measure:
    graph, given = clew.record(side_by_side, matrix()), {"matrix": matrix()}
    return lambda: timed(lambda: graph.run(given, parallel=2))


def dask_threads() -> Measure:
    from dask.threaded import get

    steps: dict[str, Any] = {f"p{n}": (product, "m") for n in range(4)}
    given = matrix()
    return lambda: timed(lambda: get({"m": given, **steps}, list(steps), num_workers=2))


STRAIGHT, PARALLEL = "graph.run", "graph.run, parallel=2"
TWO = {STRAIGHT: one_after_the_other, PARALLEL: at_the_same_time, "Dask, two threads": dask_threads}


# ---- many items ------------------------------------------------------------------------------------------------------


def drained(results: Iterable[Any]) -> None:
    deque(results, maxlen=0)


def loop(function: Callable[[Any], Any], count: int) -> Contender:
    return lambda: lambda: timed(lambda: drained(function(x) for x in range(count))) / count


def mapped(pipeline: Callable[[Any], Any], count: int, **options: Any) -> Contender:
    def contender() -> Measure:
        graph = clew.record(pipeline, 1)
        return lambda: timed(lambda: drained(graph.map(range(count), **options))) / count

    return contender


def written(pipeline: Callable[[Any], Any], count: int) -> Contender:
    def contender() -> Measure:
        graph = clew.record(pipeline, 1)

        def measure() -> float:
            with tempfile.TemporaryDirectory() as folder:
                return timed(lambda: graph.map(range(count), workers=1, output=f"{folder}/out.parquet")) / count

        return measure

    return contender


def pooled(function: Callable[[Any], Any], count: int, piece: int) -> Contender:
    def work() -> None:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            drained(pool.imap(function, range(count), chunksize=piece))

    return lambda: lambda: timed(work) / count


def from_the_first(results: Any) -> float:
    """Seconds that the results take once the first is there: without the start of whoever makes them."""
    next(results)
    return timed(lambda: drained(results))


def mapped_once_started(pipeline: Callable[[Any], Any], count: int) -> Contender:
    def contender() -> Measure:
        graph = clew.record(pipeline, 1)
        return lambda: from_the_first(graph.map(range(count), workers=2, processes=True)) / count

    return contender


def pooled_once_started(function: Callable[[Any], Any], count: int, piece: int) -> Contender:
    def measure() -> float:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return from_the_first(pool.imap(function, range(count), chunksize=piece)) / count

    return lambda: measure


def small(x: float) -> float:
    return plus_one(plus_one(x))


def called(count: int) -> Contender:
    def contender() -> Measure:
        graph = clew.record(two, 1)
        return lambda: timed(lambda: drained(graph(x=x) for x in range(count))) / count

    return contender


LOOP, POOL = "a plain loop over the functions", f"`Pool(2).imap`, forked, chunksize={PIECE:,}"
HERE, THREADS, PROCESSES, FILE = (
    "graph.map, workers=1",
    "graph.map, 2 threads",
    "graph.map, 2 processes",
    "into Parquet",
)
STARTED = "from the first result on"
SMALL = {
    LOOP: loop(small, MILLION),
    "a plain loop over graph(x=x)": called(MILLION),
    HERE: mapped(two, MILLION, workers=1),
    THREADS: mapped(two, MILLION, workers=2, processes=False),
    PROCESSES: mapped(two, MILLION, workers=2, processes=True),
    POOL: pooled(small, MILLION, PIECE),
    f"{PROCESSES}, {STARTED}": mapped_once_started(two, MILLION),
    f"{POOL}, {STARTED}": pooled_once_started(small, MILLION, PIECE),
    f"{HERE}, {FILE}": written(two, MILLION),
}
_LARGER = "of 50 µs: "
LARGER = {
    _LARGER + LOOP: loop(squares, HEAVIER),
    _LARGER + HERE: mapped(heavier, HEAVIER, workers=1),
    _LARGER + PROCESSES: mapped(heavier, HEAVIER, workers=2, processes=True),
    _LARGER + POOL: pooled(squares, HEAVIER, PIECE),
    f"{_LARGER}{PROCESSES}, {STARTED}": mapped_once_started(heavier, HEAVIER),
    f"{_LARGER}{POOL}, {STARTED}": pooled_once_started(squares, HEAVIER, PIECE),
}


# ---- a bundle --------------------------------------------------------------------------------------------------------


def loading() -> Measure:
    folder = Path(tempfile.mkdtemp()) / "bundle"
    clew.record(chain, 1).save(folder)
    return lambda: timed(lambda: load(folder, trusted=True))


def started() -> Measure:
    graph = clew.record(two, 1)
    return lambda: timed(lambda: drained(graph.map([1, 2], processes=True, workers=2)))


BUNDLE = {
    "clew.load, ten operators of one module": loading,
    "graph.map, 2 processes: saving, starting, loading, two items, ending": started,
}


# ---- a torch module --------------------------------------------------------------------------------------------------


def module_call(rows: int, how: str) -> Contender:
    """A small net, as it is, as a graph in the process that has recorded it, and loaded from a bundle."""

    def contender() -> Measure:
        import torch

        from benchmarks.graphnet import Net

        torch.set_num_threads(1)
        net, given = Net().eval(), torch.randn(rows, 16)

        def pipeline(x: Any) -> Any:
            return net(x)

        call: Callable[[Any], Any] = pipeline
        if how != BY_ITSELF:
            call = graph = clew.record(pipeline, given)
            if how == LOADED:
                folder = Path(tempfile.mkdtemp()) / "bundle"
                graph.save(folder, test=False)
                call = load(folder, trusted=True)

        def work() -> None:
            for _ in range(RUNS):
                call(given)

        return lambda: timed(work) / RUNS

    return contender


BY_ITSELF, RECORDED, LOADED = "a function that calls it", "as a graph", "loaded from a bundle"
SIZES = {1: "a row", 256: "a batch of 256"}
MODULE = {
    f"{name}, {size}": module_call(rows, name) for rows, size in SIZES.items() for name in (BY_ITSELF, RECORDED, LOADED)
}


# ---- the page --------------------------------------------------------------------------------------------------------


CONTENDERS = ONE | TWO | SMALL | LARGER | BUNDLE | MODULE


def report(repeats: int, pythons: list[str]) -> str:
    return "\n\n".join([_one(repeats), _two(repeats), _many(repeats), _bundle(repeats), _module(repeats)])


def _one(repeats: int) -> str:
    result = compare(__name__, ONE, repeats=repeats)
    hand = result.median(HAND)
    rows = [
        (name, duration(result.median(name)), _more(result.median(name) - hand), "≤ 1 µs more" if name == GRAPH else "")
        for name in ONE
    ]
    return table(
        [f"{CHAIN} small operators, one after the other", "an operator", "more than by hand", "to reach"], rows
    )


def _more(seconds: float) -> str:
    return duration(seconds) if seconds > 0 else f"− {duration(-seconds)}" if seconds else ""


def _two(repeats: int) -> str:
    result = compare(__name__, TWO, repeats=repeats)
    rows = [(name, duration(result.median(name)), times(result.ratio(STRAIGHT, name))) for name in TWO]
    return table(["four operators of NumPy that do not need each other", "a run", "quicker"], rows)


def _many(repeats: int) -> str:
    tables = []
    for title, contenders, base in (
        (f"{MILLION:,} items, two additions each", SMALL, LOOP),
        (f"{HEAVIER:,} items of some 50 µs", LARGER, _LARGER + LOOP),
    ):
        result = compare(__name__, contenders, repeats=repeats)
        rows = [
            (name.removeprefix(_LARGER), duration(result.median(name)), times(result.ratio(name, base)))
            for name in contenders
        ]
        tables.append(table([title, "an item", "a plain loop"], rows))
    return "\n\n".join(tables)


def _bundle(repeats: int) -> str:
    result = compare(__name__, BUNDLE, repeats=repeats)
    return table(["a bundle", ""], [(name, duration(result.median(name))) for name in BUNDLE])


def _module(repeats: int) -> str:
    rows = []
    for rows_in_batch, size in SIZES.items():
        contenders = {name: one for name, one in MODULE.items() if name.endswith(f", {size}")}
        result = compare(__name__, contenders, repeats=repeats)
        base, reach = f"{BY_ITSELF}, {size}", "≤ 1.2 ×" if rows_in_batch == 1 else "≤ 1.05 ×"
        for name in contenders:
            reached = reach if name.startswith(LOADED) else ""
            rows.append((name, duration(result.median(name)), times(result.ratio(name, base)), reached))
    return table(["a torch module of two layers", "a call", "the module", "to reach"], rows)

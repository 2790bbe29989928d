"""Throughput of `graph.map`: rows of a table beside a plain loop, multiprocessing, joblib and `dask.bag`, in one run.

CLEW_BENCH_ROWS=2000 python -m benchmarks --dry mapping     a quick look
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import clew
from benchmarks.graphops import row_pipeline, row_score, scored_frame
from benchmarks.harness import Contender, Measure, compare, table, timed, times

TITLE = "Many rows"
ROWS = int(os.environ.get("CLEW_BENCH_ROWS", "200000"))
PIECE = 1_000  # rows that the others send at once: without it they are many times slower
BATCH = 500
WORKERS = 2


def rows() -> list[dict[str, Any]]:
    return [{"text": f"Row {number} of a table, with some words in it", "weight": number % 7} for number in range(ROWS)]


def frame() -> pd.DataFrame:
    numbers = np.random.default_rng(0).random((ROWS, 3))
    return pd.DataFrame(numbers, columns=["a", "b", "c"])


def measured(prepare: Callable[[], Any], work: Callable[[Any], Any]) -> Contender:
    """Seconds a row; every row must have come out."""

    def contender() -> Measure:
        prepared = prepare()

        def measure() -> float:
            count = 0

            def run() -> None:
                nonlocal count
                count = len(work(prepared))

            seconds = timed(run)
            assert count == ROWS, f"{count} of {ROWS} rows"
            return seconds / ROWS

        return measure

    return contender


# ---- rows, one by one ------------------------------------------------------------------------------------------------


def mapped(**options: Any) -> Contender:
    def prepare() -> Any:
        return clew.record(row_pipeline, {"text": "An example", "weight": 2}), rows()

    return measured(prepare, lambda given: list(given[0].map(given[1], **options)))


def by_pool(given: list[Any]) -> list[Any]:
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        return list(pool.imap(row_score, given, chunksize=PIECE))


def by_joblib(given: list[Any]) -> list[Any]:
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=WORKERS)(delayed(row_score)(row) for row in given))


def by_dask_bag(given: list[Any]) -> list[Any]:
    import dask.bag

    bag = dask.bag.from_sequence(given, partition_size=max(1, ROWS // (8 * WORKERS)))
    return list(bag.map(row_score).compute(scheduler="processes", num_workers=WORKERS))


LOOP = "a plain loop"
EACH = {
    LOOP: measured(rows, lambda given: [row_score(row) for row in given]),
    "graph.map (it chooses)": mapped(),
    "graph.map, workers=1": mapped(workers=1),
    f"graph.map, {WORKERS} threads": mapped(workers=WORKERS, processes=False),
    f"graph.map, {WORKERS} processes": mapped(workers=WORKERS, processes=True),
    f"`multiprocessing.Pool({WORKERS}).imap`, chunksize={PIECE:,}": measured(rows, by_pool),
    f"joblib, n_jobs={WORKERS}": measured(rows, by_joblib),
    f"`dask.bag`, {WORKERS} processes": measured(rows, by_dask_bag),
}

# ---- frames of rows --------------------------------------------------------------------------------------------------


def frames_in_a_loop(given: pd.DataFrame) -> Any:
    return pd.concat([scored_frame(given.iloc[at : at + BATCH]) for at in range(0, len(given), BATCH)])


def frames_mapped(**options: Any) -> Contender:
    def prepare() -> Any:
        return clew.record(scored_frame, frame().head(BATCH), library="operator"), frame()

    return measured(prepare, lambda given: given[0].map(given[1], batch=BATCH, **options).join())


def frames_by_joblib(given: pd.DataFrame) -> Any:
    from joblib import Parallel, delayed

    blocks = (given.iloc[at : at + BATCH] for at in range(0, len(given), BATCH))
    return pd.concat(Parallel(n_jobs=WORKERS)(delayed(scored_frame)(block) for block in blocks))


FRAME_LOOP = f"a plain loop over frames of {BATCH} rows"
FRAMES = {
    FRAME_LOOP: measured(frame, frames_in_a_loop),
    f"graph.map, batch={BATCH} (it chooses)": frames_mapped(),
    f"graph.map, batch={BATCH}, workers=1": frames_mapped(workers=1),
    f"joblib over frames of {BATCH} rows, n_jobs={WORKERS}": measured(frame, frames_by_joblib),
}

CONTENDERS = EACH | FRAMES


def report(repeats: int, pythons: list[str]) -> str:
    each = _table(f"{ROWS:,} rows, some Python for each", EACH, LOOP, repeats)
    return f"{each}\n\n{_table(f'{ROWS:,} rows, pandas', FRAMES, FRAME_LOOP, repeats)}"


def _table(title: str, contenders: dict[str, Contender], loop: str, repeats: int) -> str:
    result = compare(__name__, contenders, repeats=repeats)
    lines = [(name, f"{1 / result.median(name):,.0f}", times(1 / result.ratio(name, loop))) for name in contenders]
    return table([title, "rows a second", "as fast as the loop"], lines)

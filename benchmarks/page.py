"""The page: how soon it answers on large runs, through a real socket.

    python -m benchmarks page                    builds the runs in a temporary folder and times every question
    python -m benchmarks.page --keep FOLDER      builds them there, if they are not there yet, and leaves them

It says milliseconds, not ratios: there is nothing to set them against.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import load, table

TITLE = "The page"
CHANGES = 10_000_000
CALLS = 100_000
SIBLINGS = 1_000_000
NAMES = 1_000_000
FLUSH = 500_000
START = 1_700_000_000_000_000_000


# ---- the runs --------------------------------------------------------------------------------------------------------


def _meta(name: str) -> dict[str, Any]:
    return {"name": name, "started_ns": START, "ended_ns": START + 60_000_000_000, "how": "finished", "tags": {"lr": 1}}


def _writer(folder: Path) -> Any:
    from clew.store.folder import write_meta
    from clew.store.writer import ShardWriter

    folder.mkdir(parents=True)
    write_meta(folder, _meta(folder.name.partition("-")[2]))
    return ShardWriter(folder, host="bench", rank=0, pid=1)


def many_changes(folder: Path) -> None:
    """One call with ten million changes of three names, a step each round, and some NaN."""
    import numpy as np

    from clew.records import Function, Kind, Site
    from clew.store.flush import CallStart, ChangeColumns, Flush, Span

    writer = _writer(folder)
    sites = [Site(i, 0, name, 10 + i) for i, name in enumerate(("loss", "accuracy", "lr"))]
    sites.append(Site(3, 0, "step", 9, "step"))
    start = CallStart(1, -1, 0, START, 1, "MainThread")
    writer.write(Flush(START, [Function(0, "train", "job", __file__, 1)], sites, [start]))
    random = np.random.default_rng(0)
    rounds = CHANGES // 3
    for begin in range(0, rounds, FLUSH):
        count = min(FLUSH, rounds - begin)
        steps = np.arange(begin, begin + count)
        numbers = np.empty((count, 4))
        numbers[:, 0] = steps
        numbers[:, 1] = np.exp(-steps / 1e6) + random.normal(0, 0.05, count)
        numbers[:, 2] = 1 - numbers[:, 1]
        numbers[:, 3] = 1e-3
        numbers[count // 2, 1] = np.nan
        site = np.tile(np.array([3, 0, 1, 2], np.int32), count)
        kind = np.where(site == 3, np.uint8(Kind.INT), np.uint8(Kind.FLOAT))
        span = Span(4 * count, 1, START + begin * 10_000, START + (begin + count) * 10_000)
        writer.write(Flush(START, changes=ChangeColumns(site, kind, numbers.ravel(), [span])))
    writer.close()


def many_calls(folder: Path, calls: int, per_parent: int) -> None:
    """Calls of two functions in turns, `per_parent` under each call of a third, each given and giving a number."""
    import numpy as np

    from clew.records import Function, Kind, Site
    from clew.store.flush import CallEnd, CallStart, ChangeColumns, EndColumns, Flush, Span, StartColumns

    writer = _writer(folder)
    functions = [Function(i, name, "job", __file__, 10 * i + 1) for i, name in enumerate(("main", "linear", "relu"))]
    sites = [Site(f, f, "x", 10 * f + 1, "input") for f in (1, 2)]
    sites += [Site(2 + f, f, "return", 10 * f + 2, "output") for f in (1, 2)]
    parents = calls // per_parent
    tops = [CallStart(i + 1, -1, 0, START + i * per_parent * 2_000, 1, "MainThread") for i in range(parents)]
    ends = [CallEnd(i + 1, START + (i + 1) * per_parent * 2_000 - 1) for i in range(parents)]
    writer.write(Flush(START, functions, sites, tops, ends))
    for begin in range(0, calls, FLUSH):
        place = np.arange(begin, min(begin + FLUSH, calls))
        id, function = place + parents + 1, (1 + place % 2).astype(np.int32)
        time_ = START + place * 2_000
        names = [("MainThread", len(place))]
        line = np.full(len(place), 3)
        starts = StartColumns(id, place // per_parent + 1, function, time_, line * 0 + 1, names, line, None, 0)
        ended = EndColumns(id, time_ + 1_000, None)
        site = np.repeat(function, 2)
        site[1::2] += 2
        numbers = np.repeat(place * 0.5, 2)
        spans = np.full(len(place), 2), id, time_, time_ + 1_000
        kinds = np.full(len(site), np.uint8(Kind.FLOAT))
        changes = ChangeColumns(site, kinds, numbers, [Span(0, 1, START, START)], spans)
        writer.write(Flush(START, more_starts=starts, more_ends=ended, changes=changes))
    writer.close()


def many_names(folder: Path) -> None:
    """A million names, each with one change."""
    import numpy as np

    from clew.records import Function, Kind, Site
    from clew.store.flush import CallStart, ChangeColumns, Flush, Span

    writer = _writer(folder)
    start = CallStart(1, -1, 0, START, 1, "MainThread")
    writer.write(Flush(START, [Function(0, "train", "job", __file__, 1)], [], [start]))
    for begin in range(0, NAMES, FLUSH):
        ids = np.arange(begin, min(begin + FLUSH, NAMES), dtype=np.int32)
        sites = [Site(id, 0, f"name{id}", 5) for id in ids.tolist()]
        span = Span(len(ids), 1, START + begin, START + begin + len(ids))
        kinds = np.full(len(ids), np.uint8(Kind.FLOAT))
        writer.write(Flush(START, sites=sites, changes=ChangeColumns(ids, kinds, ids * 0.5, [span])))
    writer.close()


def many_tensors(folder: Path) -> None:
    """Two thousand tensors of 64 KB."""
    import numpy as np

    from clew.records import Function, Kind, Site
    from clew.store.flush import CallStart, ChangeColumns, Flush, Span
    from clew.values import capture

    writer = _writer(folder)
    start = CallStart(1, -1, 0, START, 1, "MainThread")
    writer.write(Flush(START, [Function(0, "train", "job", __file__, 1)], [Site(0, 0, "weight", 5)], [start]))
    random = np.random.default_rng(0)
    for begin in range(0, 2_000, 200):
        values = [
            (i, capture(random.normal(0, 1, (128, 128)).astype(np.float32)).value) for i in range(begin, begin + 200)
        ]
        numbers = np.arange(begin, begin + 200, dtype=np.float64)
        span = Span(200, 1, START + begin * 1_000, START + (begin + 200) * 1_000)
        columns = np.zeros(200, np.int32), np.full(200, np.uint8(Kind.VALUE)), numbers
        writer.write(Flush(START, values=values, changes=ChangeColumns(*columns, [span])))
    writer.close()


RUNS: dict[str, Callable[[Path], None]] = {
    "120000-changes": many_changes,
    "120001-calls": lambda folder: many_calls(folder, CALLS, 20),
    "120002-siblings": lambda folder: many_calls(folder, SIBLINGS, SIBLINGS),
    "120003-names": many_names,
    "120004-tensors": many_tensors,
}


def build(base: Path) -> None:
    for name, make in RUNS.items():
        if not (base / "2026-01-01" / name).exists():
            print(f"building {name}", file=sys.stderr, flush=True)
            make(base / "2026-01-01" / name)


# ---- the questions ---------------------------------------------------------------------------------------------------

ROOT_CALL = "bench-r0-1-0:1"
TRAIN = {"name": "loss", "axis": "step", "px": 1200}

#: What is asked of which run, in this order, as a person would go through the pages.
QUESTIONS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("10 million changes", "changes", "", {}),
    ("a curve of 3.3 million points", "changes", "series", TRAIN),
    ("zoomed in", "changes", "series", {**TRAIN, "from": 1_000_000, "to": 1_400_000}),
    ("over time", "changes", "series", {**TRAIN, "axis": "time"}),
    ("another name", "changes", "series", {**TRAIN, "name": "accuracy"}),
    ("a point", "changes", "point", {"name": "loss", "axis": "step", "x": 1_234_567}),
    ("the root of the tree", "changes", "tree", {"offset": 0, "limit": 200}),
    ("ten million siblings, folded", "changes", "tree", {"parent": ROOT_CALL, "offset": 0, "limit": 200}),
    ("200 of them", "changes", "tree", {"parent": ROOT_CALL, "offset": 5_000_000, "limit": 200, "fold": 0}),
    ("source, slider in the middle", "changes", "source", {"call": ROOT_CALL, "at": 5_000_000}),
    ("version", "changes", "version", {}),
    ("100,000 calls", "calls", "", {}),
    ("its roots, folded", "calls", "tree", {"offset": 0, "limit": 200}),
    ("200 roots", "calls", "tree", {"offset": 0, "limit": 200, "fold": 0}),
    ("what one of them called", "calls", "tree", {"parent": ROOT_CALL, "offset": 0, "limit": 200}),
    ("who called whom", "calls", "graph", {}),
    ("a million siblings", "siblings", "", {}),
    ("folded", "siblings", "tree", {"parent": ROOT_CALL, "offset": 0, "limit": 200}),
    ("200 in the middle", "siblings", "tree", {"parent": ROOT_CALL, "offset": 500_000, "limit": 200, "fold": 0}),
    ("those of one function", "siblings", "tree", {"parent": ROOT_CALL, "function": "relu", "offset": 0, "limit": 200}),
    ("who called whom, of a million", "siblings", "graph", {}),
    ("2,000 tensors", "tensors", "", {}),
    ("their statistics", "tensors", "tensors", {"name": "weight", "axis": "step", "px": 1200}),
    ("their histograms", "tensors", "histogram", {"name": "weight", "axis": "step", "columns": 60, "bins": 40}),
    ("one of them", "tensors", "slice", {"name": "weight", "index": 777, "px": 512}),
    ("a million names", "names", "", {}),
    ("a search among them", "names", "names", {"search": "99", "limit": 1000}),
]
AGAIN = 7


@contextmanager
def serving(base: Path) -> Iterator[tuple[str, str, float]]:
    """`clew view` in a process of its own: where it is, its token, and how long it took to be there."""
    command = [
        sys.executable,
        "-m",
        "clew",
        "view",
        "--no-browser",
        "--port",
        "0",
        str(base / "2026-01-01/120000-changes"),
    ]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if "http://" in line)
            address = line.strip().partition("/open/")[0]
            started = time.perf_counter() - begun
            cookies = CookieJar()
            urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies)).open(line.strip()).close()
            yield address, next(iter(cookies)).value or "", started
        finally:
            process.terminate()


def ask(address: str, token: str, path: str, params: dict[str, Any]) -> tuple[float, Any, int]:
    """Seconds, the answer, and the bytes that were sent."""
    query = urllib.parse.urlencode(params)
    headers = {"X-Clew-Token": token, "Accept-Encoding": "identity"}
    request = urllib.request.Request(f"{address}{path}{'?' if query else ''}{query}", headers=headers)
    begun = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        data = answer.read()
    return time.perf_counter() - begun, json.loads(data), len(data)


def measure(base: Path) -> str:
    import os

    os.environ["CLEW_DIR"] = str(base)
    rows = []
    with serving(base) as (address, token, started):
        runs = {run["name"]: run["id"] for run in ask(address, token, "/api/runs", {})[1]["runs"]}
        asked = [
            (title, f"/api/run/{runs[run]}" + (f"/{what}" if what else ""), params)
            for title, run, what, params in QUESTIONS
        ]
        firsts = [ask(address, token, path, params) for _, path, params in asked]
        for (title, path, params), (first, _, size) in zip(asked, firsts, strict=True):
            again = median([ask(address, token, path, params)[0] for _ in range(AGAIN + 1)][1:])
            rows.append((title, f"{1e3 * first:,.0f} ms", f"{1e3 * again:,.1f} ms", f"{size / 1e3:,.1f} KB"))
    head = f"`clew view` on a run of ten million changes answers after {started:.2f} s.\n\n"
    return head + table(["", "first", "again", "answer"], rows)


def report(repeats: int, pythons: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        return f"{measure(Path(folder))}\n\nLoad average at the end {load():.1f}."


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.page", description="How soon the page answers on large runs.")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, required=True, help="build the runs here, leave them")
    folder = parser.parse_args().keep
    build(folder)
    print(measure(folder))


if __name__ == "__main__":
    main()

"""Two runs compared: against plain reading of the same files, and how much memory that takes."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Contender, Measure, compare, duration, table, timed

TITLE = "Two runs compared"
GIGABYTE = 2**30
ELEMENTS = 2**20  # of a float32 array: 4 MB
SCALARS = 10_000_000
CALLS = 100_000  # steps, each of which calls two functions
SMALL = 200_000
START = 1_700_000_000_000_000_000
FOLDER = Path(tempfile.gettempdir()) / f"clew-benchmark-diff-{os.getuid()}"


# ---- runs, written by the store's own writer


def _arrays(writer: Any, noise: float) -> None:
    import numpy as np

    from clew.store.flush import ChangeColumns, Flush, Span
    from clew.values import capture

    random, other = np.random.default_rng(0), np.random.default_rng(1)
    for number in range(GIGABYTE // (4 * ELEMENTS)):
        array = random.standard_normal(ELEMENTS, dtype=np.float32)
        if noise:
            array = array + np.float32(noise) * other.standard_normal(ELEMENTS, dtype=np.float32)
        flush = Flush(time=START + number)
        flush.values.append((number, capture(array).value))
        span = Span(1, 1, START + number, START + number)
        flush.changes = ChangeColumns(np.zeros(1, np.int32), np.zeros(1, np.uint8), np.array([float(number)]), [span])
        writer.write(flush)


def _scalars(writer: Any, changed: int | None) -> None:
    import numpy as np

    from clew.store.flush import ChangeColumns, Flush, Span

    random, each = np.random.default_rng(0), SCALARS // 20
    for number in range(20):
        numbers = random.standard_normal(each)
        if number == changed:
            numbers[100] += 1e-3
        flush = Flush(time=START + number)
        sites = (np.arange(each) % 2).astype(np.int32)
        span = Span(each, 1, START + number * each, START + (number + 1) * each)
        flush.changes = ChangeColumns(sites, np.ones(each, np.uint8), numbers, [span])
        writer.write(flush)


def _calls(writer: Any, inner: list[int]) -> None:
    import numpy as np

    from clew.store.flush import CallEnd, CallStart, ChangeColumns, Flush, Span

    flush, ids, now = Flush(time=START), itertools.count(2), itertools.count(START, 100)
    numbers: list[float] = []
    spans = []
    for step in range(CALLS):
        outer = next(ids)
        for id, parent, function in [(outer, 1, 1), *((next(ids), outer, function) for function in inner)]:
            begin = next(now)
            flush.starts.append(CallStart(id, parent, function, begin, 7, "MainThread", -1, None, 0, None))
            flush.ends.append(CallEnd(id, next(now), None, -1))
            numbers += [float(step), float(function)]
            spans.append(Span(2, id, begin, begin))
    kinds, sites = np.ones(len(numbers), np.uint8), np.arange(len(numbers), dtype=np.int32) % 2
    flush.changes = ChangeColumns(sites, kinds, np.array(numbers), spans)
    writer.write(flush)


def _small(writer: Any, add: float) -> None:
    import numpy as np

    from clew.store.flush import ChangeColumns, Flush, Span
    from clew.values import capture

    flush = Flush(time=START)
    flush.values += [(number, capture(np.full(4, number + add, np.float32)).value) for number in range(SMALL)]
    columns = np.zeros(SMALL, np.int32), np.zeros(SMALL, np.uint8), np.arange(SMALL, dtype=float)
    flush.changes = ChangeColumns(*columns, [Span(SMALL, 1, START, START + SMALL)])
    writer.write(flush)


RUNS: dict[str, Any] = {
    "arrays": lambda writer: _arrays(writer, 0.0),
    "arrays again": lambda writer: _arrays(writer, 0.0),
    "arrays rounded": lambda writer: _arrays(writer, 1e-8),
    "arrays changed": lambda writer: _arrays(writer, 1e-3),
    "scalars": lambda writer: _scalars(writer, None),
    "scalars changed": lambda writer: _scalars(writer, 13),
    "calls": lambda writer: _calls(writer, [2, 3]),
    "calls with one more": lambda writer: _calls(writer, [2, 4, 3]),
    "small": lambda writer: _small(writer, 0.0),
    "small changed": lambda writer: _small(writer, 0.5),
}


def made(name: str) -> Path:
    """The folder of a run; it is written when it is first asked for."""
    folder = FOLDER / name.replace(" ", "-")
    if not folder.exists():
        from clew.records import Function, Site
        from clew.store.flush import CallStart, Flush
        from clew.store.folder import write_meta
        from clew.store.writer import ShardWriter

        half = folder.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        write_meta(half, {"name": name, "started_ns": START, "ended_ns": START + 10**9, "how": "finished"})
        writer = ShardWriter(half, host="bench", rank=0, pid=1)
        flush = Flush(time=START)
        flush.functions += [Function(n, f"f{n}", "m", "m.py", n) for n in range(5)]
        flush.sites += [Site(n, 0, f"x{n}", n, "value") for n in range(2)]
        flush.starts.append(CallStart(1, -1, 0, START, 7, "MainThread", -1, None, 0, None))
        writer.write(flush)
        RUNS[name](writer)
        writer.close()
        half.rename(folder)
    return folder


# ---- contenders


def compared(a: str, b: str) -> Contender:
    """From opening both runs to the first difference, with everything that is behind the figures."""

    def contender() -> Measure:
        import clew

        def measure() -> float:
            folders = made(a), made(b)

            def work() -> object:
                found = clew.diff(*folders)
                return found, found.equal, found.first

            return timed(work)

        return measure

    return contender


def plain(a: str, b: str) -> Contender:
    """The bytes of the same files, a piece from each in turn, into one buffer."""

    def contender() -> Measure:
        buffer = bytearray(2**19)

        def work() -> None:
            for folder in (made(a), made(b)):
                for path in folder.rglob("*.*"):
                    if path.is_file():
                        with open(path, "rb", buffering=0) as file:
                            while file.readinto(buffer):
                                pass

        def measure() -> float:
            made(a), made(b)
            return timed(work)

        return measure

    return contender


PAIRS = {
    "1 GB of arrays each, the same": ("arrays", "arrays again"),
    "1 GB of arrays each, all rounded otherwise": ("arrays", "arrays rounded"),
    "1 GB of arrays each, all different": ("arrays", "arrays changed"),
    "10 million numbers each, one different": ("scalars", "scalars changed"),
    "300,000 calls, against 400,000 with one more in each step": ("calls", "calls with one more"),
    "200,000 small arrays each, all different": ("small", "small changed"),
}
CONTENDERS: dict[str, Contender] = {
    **{f"clew, {name}": compared(*pair) for name, pair in PAIRS.items()},
    **{f"reading, {name}": plain(*pair) for name, pair in PAIRS.items()},
}


def peak(a: str, b: str) -> int:
    """The most memory a process that compares the two ever had, less that of one that only imports what it needs."""
    start = "import clew, clew.compare.diff_result, pyarrow, xxhash"
    folders = ", ".join(repr(str(made(name))) for name in (a, b))
    # Not getrusage: that also knows the memory of the process this one was started from.
    end = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    sizes = []
    for work in ("pass", f"found = clew.diff({folders}); found.equal, found.first"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", f"{start}\n{work}\n{end}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        sizes.append(int(done.stdout) * 1024)
    return sizes[1] - sizes[0]


def report(repeats: int, pythons: list[str]) -> str:
    try:
        rows = []
        for name, pair in PAIRS.items():
            both = [f"reading, {name}", f"clew, {name}"]
            found = compare(__name__, both, repeats=repeats)
            reading, ours = map(found.median, both)
            memory = f"{peak(*pair) / 1e6:,.0f} MB"
            rows.append((name, duration(reading), duration(ours), f"{found.ratio(both[1], both[0]):.1f} ×", memory))
        return table(["", "reading the files", "clew.diff", "of it", "memory"], rows)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)

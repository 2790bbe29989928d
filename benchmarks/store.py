"""The store: changes drained to disk in a second, and arrays against a plain `file.write` of the same bytes."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Contender, Measure, compare, table, timed

CHANGES = 1_000_000
ARRAYS = 32
FLUSHES = 4
TITLE = "The store"


def drained(values: Callable[[int], list[Any]], names: int = 2) -> Contender:
    """A log of so many changes, taken, judged, and written: the recorder's thread and the store, no user code."""

    def contender() -> Measure:
        import clew
        from clew import recording
        from clew.recorder import backlog, recorder
        from clew.recorder.live_call import LiveCall
        from clew.recorder.plan import Plan, Watched

        backlog.INTERVAL = recorder.HURRY = 3600.0
        watched = tuple(Watched(f"x{i}") for i in range(names))
        plan = Plan("f", "m", "f.py", 1, watched, [1, 2], [False, False])
        sites = [plan.site(1, i % names) for i in range(CHANGES)]

        def measure() -> float:
            with clew.run("bench") as run:
                into = recording.recorder()
                call = LiveCall(plan, into, ())
                into.begin(call)
                call.log.extend(itertools.chain.from_iterable(zip(values(CHANGES), sites, strict=True)))
                seconds = timed(into.flush)
                into.end(call)
            shutil.rmtree(str(run.path))
            return seconds / CHANGES

        return measure

    return contender


def floats(count: int) -> list[Any]:
    return [i * 0.1 for i in range(count)]


def floats_and_integers(count: int) -> list[Any]:
    return [i if i % 2 else i * 0.1 for i in range(count)]


def several_types_at_a_place(count: int) -> list[Any]:
    return [i if i % 3 else i * 0.1 for i in range(count)]


def texts(count: int) -> list[Any]:
    return list(map(str, range(count)))


def _arrays(size: int) -> list[memoryview]:
    import numpy as np

    random = np.random.default_rng(0)
    return [memoryview(random.bytes(size)) for _ in range(ARRAYS * (2**22 // size))]


def written(size: int) -> Contender:
    """As values of a flush, recognised if they come again, aligned, and pointed to by a record."""

    def contender() -> Measure:
        import numpy as np

        from clew.store.flush import Flush
        from clew.store.writer import ShardWriter
        from clew.values import capture

        values = [(i, capture(np.frombuffer(array, np.uint8)).value) for i, array in enumerate(_arrays(size))]
        each = len(values) // FLUSHES
        flushes = [Flush(i, values=values[i : i + each]) for i in range(0, len(values), each)]

        def measure() -> float:
            with tempfile.TemporaryDirectory() as folder:
                writer = ShardWriter(Path(folder), host="bench", rank=0, pid=os.getpid())
                seconds = timed(lambda: list(map(writer.write, flushes)))
                writer.close()
            return seconds / (ARRAYS * 2**22)

        return measure

    return contender


def plain_write(size: int) -> Contender:
    def contender() -> Measure:
        arrays = _arrays(size)

        def measure() -> float:
            with tempfile.TemporaryDirectory() as folder, open(Path(folder, "plain"), "wb", buffering=0) as file:
                return timed(lambda: [file.write(array) for array in arrays]) / (ARRAYS * 2**22)

        return measure

    return contender


SCALARS: dict[str, Contender] = {
    "floats": drained(floats),
    "floats and integers": drained(floats_and_integers),
    "several types at one place": drained(several_types_at_a_place),
    "fifty names": drained(floats, 50),
    "short texts": drained(texts),
}
SIZES = {"4 MB": 2**22, "64 KB": 2**16}
BYTES: dict[str, Contender] = {
    **{f"plain, {name}": plain_write(size) for name, size in SIZES.items()},
    **{f"clew, {name}": written(size) for name, size in SIZES.items()},
}
CONTENDERS = SCALARS | BYTES


def report(repeats: int, pythons: list[str]) -> str:
    scalars = compare(__name__, SCALARS, repeats=repeats)
    rows = [
        (name, f"{1 / scalars.median(name) / 1e6:.2f} million", "≥ 1 million" if name == "floats" else "")
        for name in SCALARS
    ]
    arrays = compare(__name__, BYTES, repeats=2 * repeats + 1)
    lines = [
        (
            f"arrays of {size}",
            f"{1e-9 / arrays.median(f'plain, {size}'):.2f} GB/s",
            f"{1e-9 / arrays.median(f'clew, {size}'):.2f} GB/s",
            f"{100 / arrays.ratio(f'clew, {size}', f'plain, {size}'):.0f} %",
            "≥ 80 %",
        )
        for size in SIZES
    ]
    return (
        table(["changes drained to disk", "a second", "to reach"], rows)
        + "\n\n"
        + table(["", "`file.write`", "clew", "of it", "to reach"], lines)
    )

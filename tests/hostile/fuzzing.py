"""Forged and damaged runs, read by everything that reads, in a process that may take only so much memory and time.

    python -m hostile.fuzzing SEED [rows=COUNT] [bodies=COUNT] [bytes=COUNT] [pages=COUNT] [--all]

prints JSON: how many were read, and what came out that is no ClewError. `--all`: the slow readers too,
on every fifth run.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.store.format import META_NAME
from hostile import forging, reading, samples

MEMORY = 3 << 30  # bytes, beyond what the libraries have taken when they are loaded
SECONDS = 60  # of the processor, for one reader of one run
SLOW = ("export zarr", "report", "export safetensors", "export hdf5")
SLOW_EVERY = 5  # runs of which the slow readers read one; all of those with forged values
LIBRARIES = ("numpy", "pyarrow.parquet", "pandas", "h5py", "zarr", "torch", "PIL.Image", "safetensors", "tensorboardX")
PER_RUN = 50  # forged values in one run


class TooSlowError(Exception):
    """A reader took longer than SECONDS."""


def rows(run: Path, folder: Path, chance: random.Random, count: int) -> Iterator[str]:
    """Each with one odd thing in one column of one table."""
    head, flushes = forging.read_flushes(run)
    cases = [(table, field, cell) for table, field, type in forging.columns() for cell in forging.odd_cells(type)]
    for table, field, cell in chance.sample(cases * (count // len(cases) + 1), count):
        total, forged = sum(len(row[table]) for row in flushes), copy.deepcopy(flushes)
        chosen = chance.choice((range(total), range(1), range(max(total - 1, 0), total), range(1, total, 3)))
        forging.put_cell(forged, table, field, cell, chosen.__contains__)
        forging.copied(run, folder)
        try:
            forging.write_flushes(folder, head, forged)
        except (ValueError, TypeError):  # Arrow has no way to write it
            continue
        yield f"{table}.{field} = {cell!r:.40} in {chosen}"


def bodies(run: Path, folder: Path, chance: random.Random, count: int) -> Iterator[str]:
    """PER_RUN values in each, every one with an odd thing in its body, as change, argument, result, step and item."""
    head, flushes = forging.read_flushes(run)
    values = {value["body"]: value for row in flushes for value in row["values"] if value["body"]}
    forged = [
        (value, body)
        for value in values.values()
        if len(value["body"]) < 3000
        for body in forging.forged_bodies(value["body"])
    ]
    start = next(row["starts"][0] for row in flushes if row["starts"])
    for number in range(count):
        some = chance.sample(forged, PER_RUN)
        forging.copied(run, folder)
        forging.write_flushes(folder, head, [_flush_of(some, start)])
        yield f"values {number}: " + json.dumps([body for _, body in some])


def _flush_of(some: list[tuple[dict[str, Any], str]], start: dict[str, Any]) -> forging.Row:
    began, count = 1_700_000_000_000_000_000, len(some)
    flush: forging.Row = {name: [] for name in forging.TABLES}
    flush |= {"time": 1, "blobs": 0, "functions": [{"id": 0, "name": "f", "module": "m", "file": "/x.py", "line": 1}]}
    roles = [
        *(("value", f"v{n}") for n in range(count)),
        ("input", "a"),
        ("value", "all"),
        ("step", "s"),
        ("item", "i"),
    ]
    flush["sites"] = [
        {"id": id, "function": 0, "name": name, "line": id + 1, "role": role} for id, (role, name) in enumerate(roles)
    ]
    flush["values"] = [{**value, "id": id, "body": body} for id, (value, body) in enumerate(some)]
    for id in range(count):
        time = began + id * 1000
        about = {"function": 0, "time": time, "args": id if id % 2 else -1, "stage": "s" if id % 3 == 0 else None}
        flush["starts"].append({**start, "call": id + 1, "parent": -1, "step": None, **about})
        flush["ends"].append({"call": id + 1, "time": time + 900, "error": None, "result": id})
        sites = [id, count, count + 1, *([count + 2] if id % 5 == 0 else []), *([count + 3] if id % 3 == 0 else [])]
        flush["spans"].append({"changes": len(sites), "call": id + 1, "start": time + 1, "stop": time + 800})
        flush["changes"] += [{"site": site, "kind": 0, "number": float(id)} for site in sites]
    return flush


def bytes_(run: Path, folder: Path, chance: random.Random, count: int) -> Iterator[str]:
    """Each with some bytes of a batch changed at random, under the right checksum."""
    for _ in range(count):
        seed = chance.randrange(1 << 32)
        forging.mutate_stream(forging.copied(run, folder), seed)
        yield f"seed {seed}"


def pages(run: Path, folder: Path, chance: random.Random, count: int) -> Iterator[str]:
    """Each with an odd thing in run.json, state.json or the page of a graph."""
    for _ in range(count):
        forging.copied(run, folder)
        files = [folder / META_NAME, *folder.glob("graph-*.json"), *folder.glob("shards/*/state.json")]
        file = chance.choice(files)
        tree = json.loads(file.read_bytes())
        path = chance.choice(list(forging._places(tree)))
        odd = chance.choice(forging.ODD)
        text = json.dumps(forging._replaced(tree, path, odd))
        file.write_text(text.ljust(512) if file.name == "state.json" else text)
        yield f"{file.name} {path} = {odd!r:.40}"


WAYS = {"rows": rows, "bodies": bodies, "bytes": bytes_, "pages": pages}


def main(seed: int, counts: dict[str, int], readers: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as base_name:
        base = Path(base_name)
        run = samples.everything(base / "runs").rename(base / "original")
        _bound_memory()
        found: list[str] = []
        read = 0
        chance = random.Random(seed)
        for way, count in counts.items():
            for label in WAYS[way](run, base / "forged", chance, count):
                read += 1
                takes_slow = way == "bodies" or read % SLOW_EVERY == 0
                for name in [name for name in readers if takes_slow or name not in SLOW]:
                    error = _read(name, base / "forged", run, base / "out")
                    if error is not None:
                        found.append(f"{name}, {label[:300]}: {_told(error)}")
        return {"read": read, "readers": len(readers), "surprises": found}


def _bound_memory() -> None:
    for library in LIBRARIES:
        try:
            importlib.import_module(library)
        except ImportError:
            continue
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))


def _read(name: str, folder: Path, run: Path, out: Path) -> BaseException | None:
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return reading.surprises(folder, run, out, [name]).get(name)
    except TooSlowError as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_slow(*_: object) -> None:
    raise TooSlowError(f"more than {SECONDS} s")


def _told(error: BaseException) -> str:
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "/clew/" in frame.filename]
    where = f" at {own[-1].filename.rpartition('/clew/')[2]}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__}: {str(error)[:200]}{where}"


if __name__ == "__main__":
    os.environ["CLEW_QUIET"] = "1"
    every = "--all" in sys.argv
    counts = {way: int(count) for way, _, count in (word.partition("=") for word in sys.argv[2:] if "=" in word)}
    found = main(int(sys.argv[1]), counts, [name for name in reading.READERS if every or name not in SLOW])
    print(json.dumps(found))

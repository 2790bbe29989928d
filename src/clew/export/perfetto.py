"""Perfetto: the calls as a timeline, and numbers as counters beside it. Chrome's trace event format, as JSON.

It opens in ui.perfetto.dev and in chrome://tracing. A viewer wants calls of one track to lie inside each other. Those
of tasks and generators, which take turns in one thread, do not: they are given tracks of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from clew.export.files import blocks, chosen, total, whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from clew.export import Progress
    from clew.history.calls import ShardCalls
    from clew.history.run import Run

Event = dict[str, Any]
STILL_RUNNING = np.iinfo(np.int64).max
_BLOCK = 20_000


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Every call; of the names, those that hold numbers. Values that are no finite numbers are left out."""
    shards = run.tables.calls.shards
    count, done = sum(shard.count for shard in shards) + total(run, names), 0
    with whole_file(target) as draft, draft.open("w", encoding="utf-8") as file:
        out = _Out(file, {"run": run.name, "status": run.status, "clew": str(run.meta.get("clew", ""))})
        for number, shard in enumerate(shards):
            out.add(_process(number, shard))
            for events in _calls(number, shard, run.tables.start_ns):
                out.add(events)
                done += len(events)
                progress(min(done, count), count)
        for name in chosen(run, names):
            for part in _counters(run, name):
                out.add(part)
            progress(min(done := done + len(run[name]), count), count)
        out.end()
    return target


class _Out:
    """Events, one a line, inside one JSON object."""

    def __init__(self, file: TextIO, about: dict[str, str]) -> None:
        self._file = file
        self._between = "\n"
        file.write('{"displayTimeUnit": "ns", "otherData": ' + json.dumps(about) + ', "traceEvents": [')

    def add(self, events: list[Event]) -> None:
        for event in events:
            self._file.write(self._between + json.dumps(event, allow_nan=False))
            self._between = ",\n"

    def end(self) -> None:
        self._file.write("\n]}\n")


def _process(number: int, shard: ShardCalls) -> list[Event]:
    about = {"name": f"rank {shard.reader.rank}, process {shard.reader.pid}"}
    return [{"ph": "M", "pid": number, "tid": 0, "name": "process_name", "args": about}]


def _calls(number: int, shard: ShardCalls, start_ns: int) -> Iterator[list[Event]]:
    """The calls of one process in the order they began, a block at a time, with the names of new tracks before."""
    began = np.asarray(shard.start("time"), dtype=np.int64)
    at = shard.ends(shard.start("call"))
    ended = np.where(at >= 0, shard.finished.time[at], STILL_RUNNING) if len(shard.finished) else at * 0 + STILL_RUNNING
    order = np.lexsort((np.arange(len(began)), -ended, began))  # who began with another but ends later is outside
    tracks = _Tracks(number)
    for first in range(0, len(order), _BLOCK):
        part = order[first : first + _BLOCK]
        told = shard.starts.take(part)
        threads = told.column("thread_name")
        stages = told.column("stage")
        errors = _errors(shard, at[part])
        events: list[Event] = []
        for place, local in enumerate(part.tolist()):
            begin, end = int(began[local]), int(ended[local])
            thread = str(threads[place] or int(shard.start("thread")[local]))
            track = tracks.of(thread, begin, end)
            events += tracks.new()
            event = _event(shard, local, begin - start_ns, None if end == STILL_RUNNING else end - begin)
            about = {"stage": stages[place], "error": errors[place]}
            event["args"] |= {key: str(value) for key, value in about.items() if value is not None}
            events.append({**event, "pid": number, "tid": track})
        yield events


def _errors(shard: ShardCalls, ends: Any) -> list[Any]:
    found = np.flatnonzero(ends >= 0)
    errors: list[Any] = [None] * len(ends)
    if len(found):
        for place, error in zip(found.tolist(), shard.finished.take(ends[found]).error, strict=True):
            errors[place] = error
    return errors


def _event(shard: ShardCalls, local: int, start: int, duration: int | None) -> Event:
    function = shard.reader.functions[int(shard.start("function")[local])]
    times: Event = {"ph": "B", "ts": start / 1e3}
    if duration is not None:
        times = {"ph": "X", "ts": start / 1e3, "dur": duration / 1e3}
    args = {"file": f"{function.file}:{function.line}", "call": int(shard.start("call")[local])}
    return {**times, "name": function.name, "cat": function.module or "call", "args": args}


class _Tracks:
    """Which track a call is drawn on: that of its thread, or another one beside it where it would overlap."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._open: dict[str, list[tuple[int, list[int]]]] = {}  # thread → its tracks: number, ends of what is open
        self._count = 0
        self._new: list[Event] = []

    def of(self, thread: str, begin: int, end: int) -> int:
        tracks = self._open.setdefault(thread, [])
        for number, ends in tracks:
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return number
        self._count += 1
        tracks.append((self._count, [end]))
        name = thread if len(tracks) == 1 else f"{thread} ({len(tracks)})"
        self._new.append(
            {"ph": "M", "pid": self._process, "tid": self._count, "name": "thread_name", "args": {"name": name}}
        )
        return self._count

    def new(self) -> list[Event]:
        """The tracks that were opened since this was last asked."""
        events, self._new = self._new, []
        return events


def _counters(run: Run, name: str) -> Iterator[list[Event]]:
    """A counter for each process that changed the name."""
    table = run.tables.table
    for block in blocks(run, name):
        numbers, are_numbers = table.numbers(block.rows)
        shards = table.shard_of(block.rows).tolist()
        rows = zip(numbers.tolist(), are_numbers.tolist(), block.times.tolist(), shards, strict=True)
        yield [
            {"ph": "C", "pid": shard, "tid": 0, "name": name, "ts": time * 1e6, "args": {"value": number}}
            for number, is_number, time, shard in rows
            if is_number and math.isfinite(number)
        ]

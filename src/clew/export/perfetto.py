"""Exports to Perfetto: calls as a timeline, and numbers as counters beside it, in Chrome's trace event format.

The file opens in ui.perfetto.dev and in chrome://tracing. Viewers require the calls of one track to be
nested. Those of tasks and generators, which take turns in one thread, are not: they get tracks of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from clew.export.whole_files import count_changes, names_to_export, read_blocks, whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from clew.export import Progress
    from clew.reading.calls import ShardCalls
    from clew.reading.run import Run

Event = dict[str, Any]
STILL_RUNNING = np.iinfo(np.int64).max
_BLOCK = 20_000


def write(run: Run, target: Path, *, names: list[str] | None, progress: Progress) -> Path:
    """Write every call, and the names that hold numbers. Values that are not finite numbers are left out."""
    shards = run.tables.calls.shards
    total, count = sum(shard.count for shard in shards) + count_changes(run, names), 0
    with whole_file(target) as draft, draft.open("w", encoding="utf-8") as file:
        out = _EventFile(file, {"run": run.name, "status": run.status, "clew": str(run.meta.get("clew", ""))})
        for number, shard in enumerate(shards):
            out.add(_process_events(number, shard))
            for events in _call_events(number, shard, run.tables.start_ns):
                out.add(events)
                count += len(events)
                progress(min(count, total), total)
        for name in names_to_export(run, names):
            for events in _counter_events(run, name):
                out.add(events)
            progress(min(count := count + len(run[name]), total), total)
        out.end()
    return target


class _EventFile:
    """Writes events into one JSON object, one on each line."""

    def __init__(self, file: TextIO, metadata: dict[str, str]) -> None:
        self._file = file
        self._separator = "\n"
        file.write('{"displayTimeUnit": "ns", "otherData": ' + json.dumps(metadata) + ', "traceEvents": [')

    def add(self, events: list[Event]) -> None:
        for event in events:
            self._file.write(self._separator + json.dumps(event, allow_nan=False))
            self._separator = ",\n"

    def end(self) -> None:
        self._file.write("\n]}\n")


def _process_events(number: int, shard: ShardCalls) -> list[Event]:
    args = {"name": f"rank {shard.reader.rank}, process {shard.reader.pid}"}
    return [{"ph": "M", "pid": number, "tid": 0, "name": "process_name", "args": args}]


def _call_events(number: int, shard: ShardCalls, start_ns: int) -> Iterator[list[Event]]:
    """The calls of one process in the order they began, a block at a time, preceded by the names of new tracks."""
    starts = np.asarray(shard.start("time"), dtype=np.int64)
    at = shard.ends(shard.start("call"))
    ends = np.where(at >= 0, shard.finished.time[at], STILL_RUNNING) if len(shard.finished) else at * 0 + STILL_RUNNING
    order = np.lexsort((np.arange(len(starts)), -ends, starts))  # of calls that began together, the outer ends later
    tracks = _Tracks(number)
    for first in range(0, len(order), _BLOCK):
        part = order[first : first + _BLOCK]
        columns = shard.starts.take(part)
        threads = columns.column("thread_name")
        stages = columns.column("stage")
        errors = _call_errors(shard, at[part])
        events: list[Event] = []
        for place, local in enumerate(part.tolist()):
            begin, end = int(starts[local]), int(ends[local])
            thread = str(threads[place] or int(shard.start("thread")[local]))
            track = tracks.of(thread, begin, end)
            events += tracks.take_new()
            event = _call_event(shard, local, begin - start_ns, None if end == STILL_RUNNING else end - begin)
            args = {"stage": stages[place], "error": errors[place]}
            event["args"] |= {key: str(value) for key, value in args.items() if value is not None}
            events.append({**event, "pid": number, "tid": track})
        yield events


def _call_errors(shard: ShardCalls, ends: Any) -> list[Any]:
    """The error of each call; None for a call that did not raise or has not ended."""
    ended = np.flatnonzero(ends >= 0)
    errors: list[Any] = [None] * len(ends)
    if len(ended):
        for place, error in zip(ended.tolist(), shard.finished.take(ends[ended]).error, strict=True):
            errors[place] = error
    return errors


def _call_event(shard: ShardCalls, local: int, start: int, duration: int | None) -> Event:
    function = shard.reader.functions[int(shard.start("function")[local])]
    times: Event = {"ph": "B", "ts": start / 1e3}
    if duration is not None:
        times = {"ph": "X", "ts": start / 1e3, "dur": duration / 1e3}
    args = {"file": f"{function.file}:{function.line}", "call": int(shard.start("call")[local])}
    return {**times, "name": function.name, "cat": function.module or "call", "args": args}


class _Tracks:
    """Chooses the track of each call: that of its thread, or another one beside it where it would overlap."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._open: dict[str, list[tuple[int, list[int]]]] = {}  # thread → its tracks: number, ends of open calls
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

    def take_new(self) -> list[Event]:
        """The events that name the tracks opened since the last call of this method."""
        events, self._new = self._new, []
        return events


def _counter_events(run: Run, name: str) -> Iterator[list[Event]]:
    """The values of one counter for each process that changed the name."""
    table = run.tables.table
    for block in read_blocks(run, name):
        numbers, are_numbers = table.numbers(block.rows)
        shards = table.shard_of(block.rows).tolist()
        rows = zip(numbers.tolist(), are_numbers.tolist(), block.times.tolist(), shards, strict=True)
        yield [
            {"ph": "C", "pid": shard, "tid": 0, "name": name, "ts": time * 1e6, "args": {"value": number}}
            for number, is_number, time, shard in rows
            if is_number and math.isfinite(number)
        ]

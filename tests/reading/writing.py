"""Writes runs for the tests of the reading side, with the real writer."""

from __future__ import annotations

import itertools
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np

from clew.reading import open_run
from clew.reading.run import Run
from clew.records import DELETED, Function, Kind, Note, Site, Value
from clew.store.flush import CallEnd, CallStart, ChangeColumns, Flush, Span
from clew.store.folder import write_meta
from clew.store.writer import ShardWriter

START = 1_700_000_000_000_000_000
MS = 1_000_000


class Shard:
    """One process of a run that is being written. Every act takes a millisecond unless it is told when."""

    def __init__(self, folder: Path, *, rank: int = 0, pid: int = 100) -> None:
        self.writer = ShardWriter(folder, host="host", rank=rank, pid=pid)
        self.rank = rank
        self.now = START
        self._functions: dict[tuple[str, str, str, int], int] = {}
        self._sites: dict[tuple[int, str, int, str, str | None], int] = {}
        self._ids = itertools.count(1)
        self._values = itertools.count(1)
        self._function_of: dict[int, int] = {}
        self._flush = Flush(time=START)
        self._rows: list[tuple[int, int, int, int, float]] = []

    def _tick(self, at: int | None) -> int:
        self.now = self.now + MS if at is None else START + at * MS
        return self.now

    def call(
        self,
        name: str = "train",
        *,
        parent: int = -1,
        at: int | None = None,
        args: dict[str, Any] | None = None,
        step: int | None = None,
        stage: str | None = None,
        module: str = "pkg.mod",
        file: str = "mod.py",
        line: int = 1,
        **fingerprint: str | None,
    ) -> int:
        key = name, module, file, line
        if key not in self._functions:
            self._functions[key] = len(self._functions)
            self._flush.functions.append(Function(self._functions[key], *key, **fingerprint))
        id = next(self._ids)
        self._function_of[id] = self._functions[key]
        value = -1 if args is None else self.value(args)
        start = CallStart(id, parent, self._functions[key], self._tick(at), 7, "main", value, step, self.rank, stage)
        self._flush.starts.append(start)
        return id

    def end(self, call: int, *, at: int | None = None, error: str | None = None, result: Any = None) -> None:
        value = -1 if result is None else self.value(result)
        self._flush.ends.append(CallEnd(call, self._tick(at), error, value))

    def change(
        self,
        call: int,
        name: str,
        value: Any,
        *,
        line: int = 10,
        at: int | None = None,
        role: str = "value",
        mode: str | None = None,
    ) -> None:
        function = self._function_of.get(call, 0)
        key = function, name, line, role, mode
        if key not in self._sites:
            self._sites[key] = 16 + len(self._sites)
            self._flush.sites.append(Site(self._sites[key], function, name, line, role, mode))  # type: ignore[arg-type]
        self._rows.append((call, self._sites[key], self._tick(at), *self._cell(value)))

    def step(self, call: int, value: Any, *, at: int | None = None) -> None:
        self.change(call, "step", value, role="step", at=at)

    def _cell(self, value: Any) -> tuple[int, float]:
        kinds = {float: Kind.FLOAT, int: Kind.INT, bool: Kind.BOOL}
        if type(value) in kinds and not (type(value) is int and abs(value) > 2**53):
            return kinds[type(value)], float(value)
        if value is None or value is DELETED:
            return Kind.NONE if value is None else Kind.DELETED, 0.0
        return Kind.VALUE, self.value(value)

    def value(self, value: Any) -> int:
        from clew.values import capture

        id = next(self._values)
        writer = value if isinstance(value, Value) else capture(value).value
        self._flush.values.append((id, writer))
        return id

    def note(self, kind: str, subject: str, text: str, count: int = 1) -> None:
        self._flush.notes.append(Note(kind, subject, text, count))

    def flush(self) -> None:
        if self._rows:
            calls, sites, times, kinds, numbers = zip(*self._rows, strict=True)
            spans = [Span(1, call, time, time) for call, time in zip(calls, times, strict=True)]
            columns = np.array(sites, np.int32), np.array(kinds, np.uint8), np.array(numbers, np.float64)
            self._flush.changes = ChangeColumns(*columns, spans)
        self._flush.time = self.now
        self.writer.write(self._flush)
        self._flush, self._rows = Flush(time=self.now), []

    def close(self) -> None:
        self.flush()
        self.writer.close()


class Written:
    """A run folder under `base`, with as many shards as are asked for."""

    def __init__(self, base: Path, name: str = "120000-test", **meta: Any) -> None:
        self.folder = base / "2023-11-14" / name
        self.folder.mkdir(parents=True)
        self.meta = {
            "name": name.partition("-")[2],
            "argv": ["train.py", "--lr", "0.1"],
            "host": socket.gethostname(),
            "started": "2023-11-14T22:13:20+00:00",
            "started_ns": START,
            "ended_ns": START + 5_000_000_000,
            "how": "finished",
            "git": {"commit": "0123456789abcdef", "dirty": True, "branch": "main"},
            **meta,
        }
        write_meta(self.folder, self.meta)

    def shard(self, rank: int = 0, process: int = 0) -> Shard:
        return Shard(self.folder, rank=rank, pid=100 + rank + process)

    def open(self) -> Run:
        return open_run(self.folder)


def simple_run(base: Path, changes: dict[str, list[Any]], **meta: Any) -> Run:
    """One call of `train` in which these names took these values, one name after the other."""
    writer = Written(base, **meta)
    shard = writer.shard()
    call = shard.call("train", args={"epochs": 2})
    for number, (name, values) in enumerate(changes.items()):
        for value in values:
            shard.change(call, name, value, line=10 + number)
    shard.end(call, result=0.5)
    shard.close()
    return writer.open()


def json_value(type: str, body: Any) -> Value:
    """A value in its written form."""
    return Value(type, json.dumps(body))

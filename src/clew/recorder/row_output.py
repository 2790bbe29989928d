"""From what a recorder has taken to the rows of its shard. One thread at a time comes here."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.records import Function, Kept, Note, Origin, Site, Value
from clew.store.flush import CallEnd, CallStart, Flush, written_callers
from clew.store.writer import ShardWriter
from clew.values import AUTO, Keep, capture, summary_of
from clew.values.deferred_writing import Later

from . import own_shards
from .event_marks import PIECE_BYTES, blocks
from .fingerprints import fingerprint
from .plan import Plan, plan_of
from .row_columns import Chunk, Rows, joined, pieces
from .short_calls import ShortCalls

if TYPE_CHECKING:
    from .call_log_rows import LeanRows
    from .live_call import LiveCall

BATCH = 100_000  # changes from which on a batch is full: more at once only means memory that is not in the cache


class ShardOutput:
    """The shard of one process: which functions, sites and values it holds already, and what comes next."""

    def __init__(self, folder: Path, keep_for: Callable[[str], Keep], disk: int | None) -> None:
        self.folder = folder
        self.sites: set[int] = set()  # written
        self.functions: dict[Plan, int] = {}
        self._written_functions: dict[int, Function] = {}
        self._keep_for = keep_for
        self._disk = disk
        self._writer: ShardWriter | None = None
        self._value_ids = itertools.count()
        self._marker_ids: dict[str, int] = {}
        self._rings: dict[tuple[Plan, int], deque[tuple[int, Value]]] = {}
        self.start_flush(time.time_ns())

    def start_flush(self, now: int) -> None:
        """Begin the batches of a flush. What was recorded before `now` is in them, or in earlier ones."""
        self._now = now
        self._new_batch()

    def _new_batch(self) -> None:
        self._flush = Flush(self._now)
        self._rows = Rows(self._value_ids, self._marker_ids)

    def writer(self, rank: int) -> ShardWriter:
        """The writer of the shard, which is made with the first batch."""
        if self._writer is None:
            self._writer = ShardWriter(
                self.folder,
                host=socket.gethostname(),
                rank=rank,
                pid=os.getpid(),
                disk=self._disk,
                summarise=summary_of,
            )
            own_shards.add(self._writer.folder, self._written_functions)
        return self._writer

    @property
    def name(self) -> str:
        return self._writer.folder.name if self._writer is not None else ""

    @property
    def seconds_at_the_disk(self) -> float:
        """For how long the operating system has been taking the bytes it was given last; 0 if it has."""
        begun = self._writer.writing_since if self._writer is not None else None
        return 0.0 if begun is None else time.monotonic() - begun

    # ---- adding to a batch

    def begin_calls(self, calls: Iterable[LiveCall], rank: int) -> None:
        for call in calls:
            self._flush.starts.append(self._start_row(call, rank))
            if call.plan.argument_sites:
                self._rows.keep_call(call, call.plan.argument_sites, call.args, call.started)

    def add_chunks(self, chunks: list[Chunk], calls: Iterable[LiveCall], rank: int) -> None:
        """Changes of calls that go on, or have ended just now."""
        taken = [pieces(call) for call in calls]
        first = [next(each, None) for each in taken]
        for chunk in itertools.chain(joined([*chunks, *filter(None, first)]), *taken):
            self._rows.add(chunk)
            self._send_if_full(rank)

    def end_calls(self, calls: Iterable[LiveCall]) -> None:
        for call in calls:
            self._rows.release_held(call)
            if call.plan.result_site and call.error is None and call.result is not None:
                self._rows.keep_call(call, [call.plan.result_site], [call.result], call.ended)
            self._flush.ends.append(CallEnd(call=call.id, time=call.ended, error=call.error))

    def add_short_calls(self, items: list[Any], rank: int) -> None:
        for block in blocks(items):
            self._send_if_full(rank)
            calls = ShortCalls(block)
            if len(calls):
                self._flush.more_starts.append(calls.starts(self._function, rank))
                self._flush.more_ends.append(calls.ends())
                calls.add_to(self._rows)

    def add_followed_calls(self, followed: LeanRows, rank: int) -> None:
        starts, ends = followed.starts(self._function, rank), followed.ended_columns()
        self._flush.more_starts += [starts] if starts is not None else []
        self._flush.more_ends += [ends] if ends is not None else []
        self._flush.origins += followed.origins
        followed.add_to(self._rows)

    def add_origins(self, origins: list[Origin]) -> None:
        self._flush.origins += origins

    def add_notes(self, notes: list[Note]) -> None:
        self._flush.notes += notes

    def _send_if_full(self, rank: int) -> None:
        if self._rows.count > BATCH or self._rows.large_bytes > PIECE_BYTES:
            self.send(rank)

    def send(self, rank: int) -> None:
        """Write the batch as it is, and begin another."""
        flush, rows = self._flush, self._rows
        self._announce(rows.sites)
        flush.changes = rows.columns()
        self._add_values(rows)
        self._new_batch()
        self.writer(rank).write(flush)

    # ---- rows

    def _start_row(self, call: LiveCall, rank: int) -> CallStart:
        call.plan.called = True
        return CallStart(
            call=call.id,
            parent=call.parent_number(),
            function=self._function(call.plan),
            time=call.started,
            thread=call.thread,
            thread_name=call.thread_name,
            rank=rank,
            line=call.line,
            stage=call.stage,
            callers=written_callers(call.callers),
        )

    def _function(self, plan: Plan) -> int:
        number = self.functions.get(plan)
        if number is None:
            number = self.functions[plan] = len(self.functions)
            function = Function(number, plan.name, plan.module, plan.file, plan.line, *fingerprint(plan))
            self._written_functions[number] = replace(function, source=None)
            self._flush.functions.append(function)
        return number

    def _announce(self, sites: set[int]) -> None:
        """Write the names and lines of sites that no earlier batch has."""
        for site in sorted(sites - self.sites):
            plan = plan_of(site)
            statement, index = divmod(site - plan.base, plan.width)
            watched = plan.watched[index]
            number = self._function(plan)
            self._flush.sites.append(
                Site(site, number, watched.name, plan.lines[statement], watched.role, watched.mode)
            )
        self.sites |= sites

    def _add_values(self, rows: Rows) -> None:
        for number, value, site in rows.values:
            self._flush.values.append((number, self._within_ring(number, _as_value(value), site)))
        if rows.texts:
            import numpy as np

            self._flush.texts, self._flush.text_ids = rows.texts, np.array(rows.text_ids, np.int64)

    def _within_ring(self, number: int, value: Value, site: int) -> Value:
        """Under keep="last N" a value is written as a summary now, and in full at the end if it is among the last."""
        plan = plan_of(site)
        index = (site - plan.base) % plan.width
        keep = plan.watched[index].keep or self._keep_for(plan.names[index])
        if keep.mode != "last" or value.kept is not Kept.FULL or not (value.parts or value.body):
            return value
        ring = self._rings.setdefault((plan, index), deque(maxlen=keep.last))
        ring.append((number, value))
        return Value(value.type, None, [], Kept.SUMMARY, f"keep='last {keep.last}'", summary_of(value), value.digest)

    def stop(self, reason: str) -> None:
        """Say in the shard that nothing more comes, and why."""
        if self._writer is not None:
            self._writer.stop(reason)

    def close(self, *, complete: bool, rank: int) -> None:
        """Write what was held back, and say that nothing is missing; unless something is."""
        values = [pair for ring in self._rings.values() for pair in ring]
        self._rings.clear()
        if values and complete:
            self.writer(rank).write(Flush(time.time_ns(), values=values))
        if self._writer is not None:
            self._writer.close(complete=complete)
            own_shards.close(self._writer.folder)


def _as_value(value: Any) -> Value:
    if type(value) is Value:
        return value
    return value.value() if isinstance(value, Later) else capture(value, AUTO).value

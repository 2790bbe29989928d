"""One run's recorder in one process: gathers what probes wrote, a few times a second, and gives it to the store.

Hot code calls `begin`, `end` and `hold` only. Everything else happens in a background thread, or at close.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew import env, trouble
from clew.records import Function, Kept, Note, Site, Value
from clew.values import AUTO, Keep, capture, summary_of
from clew.values.later import Later

from .live import LiveCall
from .plan import Plan, plan_of
from .trace import Busy

if TYPE_CHECKING:
    from clew.store.flush import CallEnd, CallStart, Flush
    from clew.store.writer import ShardWriter

    from .columns import Chunk, Rows
    from .trace import Trace
    from .traces import LeanRows

INTERVAL = 0.5  # seconds between flushes: what `kill -9` can cost at most is this and the writing itself
HURRY = 0.02  # seconds between looks while logs grow fast, so that their memory is used again while in the cache
_SOON = 0.05  # seconds
_BATCH = 100_000  # changes from which on a batch is full: more at once only means memory that is not in the cache
_FAST = 2 * 16_384  # items in a log that make it one that grows fast


class Recorder:
    """Buffers of one run, drained by one thread into one shard."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: Callable[[str], Keep] = lambda name: AUTO,
        disk: int | None = None,
        memory: int = 512 * 2**20,
    ) -> None:
        self.folder = folder
        self.keep_for = keep
        self.disk = disk
        self.memory = memory
        self.rank = env.rank()
        self._flushed = 0.0
        self.pending = 0  # bytes of arrays copied and not yet written
        self.paused = False  # clew.off(): what comes is thrown away
        self.dead: str | None = None  # why nothing is written any more
        self._begun: list[LiveCall] = []
        self._ended: list[LiveCall] = []
        self._new: list[LiveCall] = []  # begun, and not yet written so
        self._open: dict[int, LiveCall] = {}
        self._traces: list[Trace] = []  # logs of followed calls
        self._chunks: list[Chunk] = []  # taken from logs, and not yet written
        self._notes: list[Note] = []
        self.last_exit: tuple[str, str | None, int | None] | None = None  # a call left through sys.exit()
        self._reset_shard()

    def _reset_shard(self) -> None:
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._writer: ShardWriter | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._value_ids = itertools.count()
        self._functions: dict[Plan, int] = {}
        self._sites: set[int] = set()
        self._rings: dict[tuple[Plan, int], deque[tuple[int, Value]]] = {}

    # ---- hot: called by instrumented code -------------------------------------------------------------------------

    def begin(self, call: LiveCall) -> None:
        self._begun.append(call)
        if self._thread is None:
            self._start()

    def end(self, call: LiveCall) -> None:
        if call.parent is not None:
            call.parent.moment(call.ended)
        self._ended.append(call)

    def follow(self, trace: Trace) -> None:
        """Take what is written into this log from now on."""
        self._traces.append(trace)
        if self._thread is None:
            self._start()

    def hold(self, value: Value) -> None:
        """Count copied bytes; when too many wait, write them now instead of growing without bound."""
        size = sum(len(memoryview(part).cast("B")) if part else 0 for part in value.parts)
        if size:
            self.hold_bytes(size)

    def hold_bytes(self, size: int) -> None:
        self.pending += size
        if self.pending > self.memory:
            self.flush()

    # ---- the thread -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="clew-recorder", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        # Loaded now, not at exit: loading extension modules there makes Python forget that Ctrl-C ended it. Under the
        # lock, for which a fork waits: a child made in the middle of an import could never import again.
        with self._lock:
            from clew.store import writer  # noqa: F401

            from . import columns  # noqa: F401

        wake, thread = self._wake, self._thread
        pause, due = HURRY, time.monotonic() + INTERVAL
        while not wake.wait(pause):
            if self._thread is not thread:
                return
            hurry = self._lighten()
            if time.monotonic() >= due or sum(map(len, self._chunks)) > _BATCH:
                self.flush()
                due = time.monotonic() + INTERVAL
            rest = max(due - time.monotonic(), 0.001)
            pause = min(HURRY, rest) if hurry else rest

    def _lighten(self) -> bool:
        """Take what is there out of logs that grow fast, without writing it yet. Gives whether there are such."""
        with self._lock:
            self._welcome()
            if self.dead or self.paused:
                return False
            large = [call for call in self._open.values() if len(call.log) > _FAST]
            if large:
                from .columns import take

                self._chunks += filter(None, [take(call, time.time_ns()) for call in large])
            return bool(large)

    def _welcome(self) -> None:
        """Calls that have begun are looked after from now on."""
        begun = _emptied(self._begun)
        self._new += begun
        self._open.update((call.id, call) for call in begun)

    @property
    def shard_name(self) -> str:
        return self._writer.folder.name if self._writer is not None else ""

    @property
    def sites_seen(self) -> set[int]:
        return self._sites

    @property
    def plans_seen(self) -> set[Plan]:
        return set(self._functions)

    def note(self, note: Note) -> None:
        """Put a line into the run's ledger."""
        self._notes.append(note)

    def flush(self) -> None:
        """Write everything that is there. Never raises into the caller's program."""
        with Busy(), self._lock:
            try:
                self._flush()
            except OSError as error:
                self._die(error)
            except Exception as error:  # a bug of ours must not become the user's
                self._die(error, internal=True)

    def innermost(self, trace: Trace) -> tuple[str, int] | None:
        """The call that is open in this log now, by shard and number; None if there is none that is recorded."""
        with self._lock:
            self.flush()
            call = trace.stack[-1] if trace.stack else 0
            call = call if call >= 0 else ~call
            return None if self.dead or call <= 0 else (self._shard().folder.name, call)

    def flush_soon(self) -> None:
        """Write what is there, unless that was done a moment ago."""
        if time.monotonic() - self._flushed > _SOON:
            self.flush()

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        ended = _emptied(self._ended)  # first, so that the beginning of each of them is known
        self._welcome()
        begun, self._new = self._new, []
        if self.dead or self.paused:
            self._throw_away(ended)
            return
        self.pending = 0
        if not self._anything(begun, ended):
            return
        self._write(begun, ended)
        for call in ended:
            self._open.pop(call.id, None)

    def _anything(self, begun: list[LiveCall], ended: list[LiveCall]) -> bool:
        return bool(
            begun
            or ended
            or self._chunks
            or self._notes
            or any(map(len, self._traces))
            or any(len(call.log) > 1 for call in self._open.values())
        )

    def _throw_away(self, ended: list[LiveCall]) -> None:
        for call in self._open.values():
            call.log.clear()
        for over in ended:
            self._open.pop(over.id, None)
        self._chunks.clear()
        for trace in self._traces:
            trace.clear()
        self._traces = [trace for trace in self._traces if not trace.over]
        self.pending = 0

    def _write(self, begun: list[LiveCall], ended: list[LiveCall]) -> None:
        from clew.store.flush import Flush

        from .columns import Rows, joined, take

        now = time.time_ns()
        flush, rows = Flush(now), Rows(self._value_ids)
        followed = self._take_traces()
        begun = [call for call in begun if not self._is_dropped(call)]
        ended = [call for call in ended if not call.dropped]
        flush.starts = [self._start_row(call, flush) for call in begun]
        chunks, self._chunks = self._chunks, []
        chunks += filter(None, [take(call, now) for call in self._open.values()])
        for chunk in joined(chunks):
            rows.add(chunk)
            if rows.count > _BATCH:
                self._send(rows, flush)
                flush, rows = Flush(now), Rows(self._value_ids)
        for call in ended:
            rows.release_held(call)
        flush.ends = [self._end_row(call, flush) for call in ended]
        if followed is not None:
            flush.more_starts = followed.starts(lambda plan: self._function(plan, flush), self.rank)
            flush.more_ends = followed.ended_columns()
            flush.origins = followed.origins
            followed.add_to(rows)
        flush.notes, self._notes = self._notes, []
        self._send(rows, flush)

    def _take_traces(self) -> LeanRows | None:
        """What the logs of followed calls hold; first of all, because it tells live calls their parents."""
        if not any(map(len, self._traces)):
            return None
        from .traces import LeanRows

        rows = LeanRows()
        for trace in list(self._traces):
            over = trace.over
            rows.take(trace)
            if over and not len(trace):
                self._traces.remove(trace)
        return rows

    def _is_dropped(self, call: LiveCall) -> bool:
        if call.dropped:
            self._open.pop(call.id, None)
        return call.dropped

    def _send(self, rows: Rows, flush: Flush) -> None:
        self._announce(rows.sites, flush)
        flush.changes = rows.columns()
        self._add_values(rows, flush)
        self._shard().write(flush)

    def _shard(self) -> ShardWriter:
        if self._writer is None:
            from clew.store.writer import ShardWriter

            self._writer = ShardWriter(
                self.folder,
                host=socket.gethostname(),
                rank=self.rank,
                pid=os.getpid(),
                disk=self.disk,
                summarise=summary_of,
            )
        return self._writer

    # ---- rows -----------------------------------------------------------------------------------------------------

    def _start_row(self, call: LiveCall, flush: Flush) -> CallStart:
        from clew.store.flush import CallStart, written_callers

        args = -1
        if call.args:
            args = next(self._value_ids)
            flush.values.append((args, arguments_value(call.plan.parameters, call.args)))
            call.args = None
        call.plan.called = True
        parent = call.parent_id
        if parent is None:
            parent = call.parent.id if call.parent is not None and call.parent.recorder is self else -1
        return CallStart(
            call=call.id,
            parent=parent,
            function=self._function(call.plan, flush),
            time=call.started,
            thread=call.thread,
            thread_name=call.thread_name,
            args=args,
            rank=self.rank,
            line=call.line,
            stage=call.stage,
            callers=written_callers(call.callers),
        )

    def _end_row(self, call: LiveCall, flush: Flush) -> CallEnd:
        from clew.store.flush import CallEnd

        result = -1
        if call.error is None and call.result is not None:
            result = next(self._value_ids)
            flush.values.append((result, _as_value(call.result)))
        return CallEnd(call=call.id, time=call.ended, error=call.error, result=result)

    def _function(self, plan: Plan, flush: Flush) -> int:
        number = self._functions.get(plan)
        if number is None:
            number = self._functions[plan] = len(self._functions)
            flush.functions.append(Function(number, plan.name, plan.module, plan.file, plan.line))
        return number

    def _announce(self, sites: set[int], flush: Flush) -> None:
        """Write the names and lines of sites that no earlier flush has."""
        for site in sorted(sites - self._sites):
            plan = plan_of(site)
            statement, index = divmod(site - plan.base, plan.width)
            watched = plan.watched[index]
            number = self._function(plan, flush)
            flush.sites.append(Site(site, number, watched.name, plan.lines[statement], watched.role))
        self._sites |= sites

    def _add_values(self, rows: Rows, flush: Flush) -> None:
        for number, value, site in rows.values:
            flush.values.append((number, self._within_ring(number, _as_value(value), site)))
        if rows.texts:
            import numpy as np

            flush.texts, flush.text_ids = rows.texts, np.array(rows.text_ids, np.int64)

    def _within_ring(self, number: int, value: Value, site: int) -> Value:
        """Under keep="last N" a value is written as a summary now, and in full at the end if it is among the last."""
        plan = plan_of(site)
        index = (site - plan.base) % plan.width
        keep = plan.watched[index].keep or self.keep_for(plan.names[index])
        if keep.mode != "last" or value.kept is not Kept.FULL or not (value.parts or value.body):
            return value
        ring = self._rings.setdefault((plan, index), deque(maxlen=keep.last))
        ring.append((number, value))
        return Value(value.type, None, [], Kept.SUMMARY, f"keep='last {keep.last}'", summary_of(value), value.digest)

    def _write_rings(self) -> None:
        from clew.store.flush import Flush

        values = [pair for ring in self._rings.values() for pair in ring]
        if values:
            self._shard().write(Flush(time.time_ns(), values=values))
        self._rings.clear()

    # ---- trouble and the end --------------------------------------------------------------------------------------

    def _die(self, error: Exception, *, internal: bool = False) -> None:
        self.dead = f"{type(error).__name__}: {error}"
        self._throw_away([])
        trouble.report(
            f"recorder:{self.folder}",
            f"recording into {self.folder} has stopped",
            "Your program goes on unrecorded. Make room or choose another folder with CLEW_DIR or clew.run(path=...)."
            if isinstance(error, OSError)
            else "Your program goes on unrecorded. Please report this with the message above.",
            error,
            internal=internal,
        )

    def close(self) -> None:
        """Write the rest and close the shard."""
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=10)
        with self._lock:
            self._closing = True
            self.flush()
            try:
                if not self.dead:
                    self._write_rings()
                if self._writer is not None:
                    self._writer.close()
            except OSError as error:
                self._die(error)

    def lock_for_fork(self) -> None:
        """Let no flush be half done in the child's copy of this process."""
        self._lock.acquire()

    def unlock_after_fork(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """The parent writes what was pending; this process goes on in a shard of its own, open calls included."""
        open_calls = {call.id: call for call in [*self._open.values(), *self._begun]}
        self._chunks.clear()
        self._new.clear()
        for trace in self._traces:
            trace.clear()
            trace.stack.clear()
            trace.plans.clear()
        for call in self._ended:
            open_calls.pop(call.id, None)
        self._ended = []
        self._notes = []
        self._open = {}
        self._reset_shard()
        for call in open_calls.values():
            call.log.clear()
            call.started = call.drained_at = time.time_ns()
        self._begun = list(open_calls.values())


def arguments_value(names: tuple[str, ...], args: tuple[Any, ...]) -> Value:
    """Arguments of a call as one value: a dictionary by parameter name."""
    plain = dict(zip(names, args, strict=False))
    return capture(plain, AUTO).value


def _emptied(queue: list[LiveCall]) -> list[LiveCall]:
    """What is in `queue`, taken out of it. Another thread may be appending: the list stays the same object."""
    count = len(queue)
    taken = queue[:count]
    del queue[:count]
    return taken


def _as_value(value: Any) -> Value:
    if type(value) is Value:
        return value
    return value.value() if isinstance(value, Later) else capture(value, AUTO).value

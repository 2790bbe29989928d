"""One run's recorder in one process: gathers what probes wrote, a few times a second, and gives it to the store.

Hot code calls `begin`, `end` and `hold` only. Everything else happens in a background thread, or at close. What is
written must not be older than a second, however busy the program is. Two things see to that. A call that ends after
`due` waits until the recorder's thread, which then has the interpreter to itself, has written. And while a call that
does not end makes the recorder late, the recorder puts on the brake (interruptible_lists.py).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew import env, trouble
from clew.records import Note, Value
from clew.values import AUTO, Keep
from clew.values.adapters import load as load_values

from .backlog import MEMORY, PATIENCE, Backlog
from .call_log import Busy
from .calls_at_fork import InheritedCalls
from .child_processes import is_child
from .event_marks import items_at_once
from .interruptible_lists import brake, quick_turns
from .late_imports import load_output
from .live_call import LiveCall
from .log_sampling import Sampler
from .open_call_logs import TraceList
from .plan import Plan
from .waiting_helpers import emptied, is_ending, wait

if TYPE_CHECKING:
    from .call_log import Trace
    from .row_columns import Chunk
    from .row_output import ShardOutput

_TICK = 0.1  # seconds between looks at how much memory waits to be written
HURRY = 0.02  # seconds between looks while logs grow fast, so that their memory is used again while in the cache
_BATCH = 100_000  # changes that are written without waiting for the interval to end
_FAST = 2 * 16_384  # items in a log that make it one that grows fast
_MANY = 400_000  # items of calls that are written without waiting for the interval to end
_SHORT = 256  # items of a log that are sooner copied than looked after
_BUSY = 0.003  # seconds that waking up takes beside a busy thread,
_CROWDED = 0.012  # and beside several
_LONGEST_WAIT = 5.0  # seconds that a call waits for the recorder: its thread may hold what the recorder needs
_OUTPUT = "clew.recorder.row_output"  # what load_output() loads
_LAST_WAIT = 2.0  # seconds, for a lock at the interpreter's end
_NEVER = 1 << 63


class Recorder:
    """Buffers of one run, drained by one thread into one shard."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: Callable[[str], Keep] = lambda name: AUTO,
        disk: int | None = None,
        memory: int = MEMORY,
    ) -> None:
        self.folder = folder
        self.keep_for = keep
        self.disk = disk
        self.memory = memory
        self.rank = env.rank()
        self.pending = 0  # bytes of arrays that were copied and wait to be written
        self._pending_in_flight = 0  # and that are being written
        self.paused = False  # clew.off(): what comes is thrown away
        self.dead: str | None = None  # why nothing is written any more
        self.last_exit: tuple[str, str | None, int | None] | None = None  # a call left through sys.exit()
        self._fresh: dict[int, LiveCall] = {}  # begun, and not yet seen by the recorder's thread
        self._short: list[Any] = []  # events of calls that ended before they were seen
        self._unseen: list[LiveCall] = []  # calls that ended so, and are not written as events
        self._ended: list[LiveCall] = []  # all others that ended
        self._new: list[LiveCall] = []  # seen, and not yet written
        self._open: dict[int, LiveCall] = {}  # seen, and not ended
        self._inherited = InheritedCalls()  # open when the process forked, and nothing happened in them since
        self.traces = TraceList()  # logs of followed calls
        self._chunks: list[Chunk] = []  # taken from logs, and not yet written
        self._notes: list[Note] = []
        self._backlog = Backlog(memory)
        self._reset_shard()

    def _reset_shard(self) -> None:
        self._lock = threading.RLock()
        trouble.report_unknown_switch()
        self._wake = threading.Event()
        self._turn = threading.Condition()  # told after each flush
        self._flushes = 0
        self.due = _NEVER  # ns: whoever ends a call later than this waits for the recorder
        self._output: ShardOutput | None = None
        self._thread: threading.Thread | None = None
        self._sampler: Sampler | None = None
        self._closing = self._closed = False
        self._flushing = 0  # the thread that does
        self._in_flight = 0  # bytes, about, that are being written
        self.forks = 0  # processes that this one forked
        self._was_running = False  # before a fork
        self._is_forked = False  # and has recorded nothing yet

    def load(self) -> None:
        """Load what writing needs, now: later it would count as time of the program, or at exit make Python forget
        that Ctrl-C ended it. Under the lock: a child forked in the middle of an import could never import."""
        if self.dead:
            return
        with self._lock:
            try:
                load_output()
                load_values()
            except Exception as error:
                self._die(error)

    # ---- hot: called by instrumented code -------------------------------------------------------------------------

    def begin(self, call: LiveCall) -> None:
        self._fresh[call.id] = call
        if self._thread is None:
            self._start()
            call.started = call.drained_at = time.time_ns()  # the thread's start is not the call's time

    def end(self, call: LiveCall) -> None:
        if call.parent is not None:
            call.parent.moment(call.ended)
        # whoever takes it out of `_fresh`, this thread or the recorder's, decides how it is written
        if self._fresh.pop(call.id, None) is None:
            self._ended.append(call)
        elif call.plan.thinned or len(call.log) > _SHORT:
            self._unseen.append(call)
        else:
            self._short.extend(call.event())
        if call.ended > self.due:
            self.relieve()

    def follow(self, trace: Trace) -> None:
        """Take what is written into this log from now on."""
        trace.due = self.due
        self.traces.append(trace)
        if self._thread is None:
            self._start()

    def hold(self, value: Value) -> None:
        """Count copied bytes; when too many wait, write them now instead of growing without bound."""
        size = sum(len(memoryview(part).cast("B")) if part else 0 for part in value.parts)
        if size:
            self.hold_bytes(size)

    def hold_bytes(self, size: int) -> None:
        self.pending += size
        if self.pending + self._pending_in_flight > self.memory:
            self.flush()

    def relieve(self) -> None:
        """Wait until the recorder's thread has written. For a disk that is slow to answer only if memory is short."""
        thread, me = self._thread, threading.get_ident()
        if thread is None or not thread.is_alive() or is_ending():
            self.flush()
            return
        if thread.ident == me or self._flushing == me:
            return  # it is the recorder itself that has led into code that is recorded
        seen, deadline = self._flushes, time.monotonic() + _LONGEST_WAIT
        self._wake.set()
        with self._turn:
            while self._flushes == seen and not self._closing:
                self._turn.wait(PATIENCE)
                has_room = self._in_flight + self._bytes_waiting() < self._backlog.most_bytes
                is_slow = self._output is not None and self._output.seconds_at_the_disk > PATIENCE
                if self._flushes == seen and ((has_room and is_slow) or time.monotonic() > deadline):
                    self._set_due(time.time_ns() + int((PATIENCE if has_room else _LONGEST_WAIT) * 1e9))
                    return

    # ---- the thread -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if is_ending():
                self._set_due(0)  # no thread can be started, or would be stopped: calls that end write themselves
            elif self._thread is None and not self._closing:
                self._show_that_it_records()
                self._backlog.in_child = is_child()
                self._thread = threading.Thread(target=self._run, name="clew-recorder", daemon=True)
                self._backlog.rest()
                self._set_due(self._backlog.next_due(time.time_ns()))
                with suppress(RuntimeError):  # none can be started: calls that end later than `due` write themselves
                    self._thread.start()
                    self._sampler = Sampler(
                        lambda: [*self._fresh.values(), *self._open.values(), *self._inherited.calls.values()]
                    )

    def _show_that_it_records(self) -> None:
        """A forked process may end at any time without a word (`os._exit`): its shard, without an end, tells of it."""
        if self._is_forked and not (self.dead or self.paused) and _OUTPUT in sys.modules:
            self._is_forked = False
            try:
                self._shard().writer(self.rank)
            except OSError as error:
                self._die(error)

    def _run(self) -> None:
        wake, thread, backlog = self._wake, self._thread, self._backlog
        due, pause = time.monotonic() + backlog.interval, HURRY
        while self._thread is thread and not self._closing:
            late = wait(wake, pause)
            if self._thread is not thread or self._closing:
                return
            hurry = self._lighten()
            waiting = self._bytes_waiting()
            many = self._items_waiting() > _MANY or sum(map(len, self._chunks)) > _BATCH
            much = waiting > backlog.most_bytes // 4 or self.pending > self.memory // 4
            if many or much or wake.is_set() or time.monotonic() >= due:
                wake.clear()
                self._flush_beside(late, waiting)
                due = time.monotonic() + backlog.interval
            rest = max(due - time.monotonic(), 0.001)
            in_a_hurry = hurry or waiting > backlog.most_bytes // 16
            pause = min(HURRY if in_a_hurry else _TICK, rest, backlog.seconds_to_fill() / 4)

    def _flush_beside(self, late: float, waiting: int) -> None:
        """Flush while the program goes on; or while it waits, if it leaves the recorder too little time or memory."""
        self._backlog.note_growth(waiting)
        stop = late > _CROWDED or self._backlog.outgrows_memory(waiting)
        with self._stopped(stop), quick_turns() if late > _BUSY else nullcontext():
            self.flush()

    @contextmanager
    def _stopped(self, wanted: bool) -> Iterator[None]:
        """Meanwhile the program waits wherever it would write, if that is wanted."""
        if not wanted:
            yield
            return
        with self._lock:
            self._welcome()
            logs = [call.log for call in self._open.values()]
            brake.pull(logs)
            self._set_due(0)
        try:
            yield
        finally:
            self._set_due(self._backlog.next_due(time.time_ns()))
            brake.release(logs)

    def _items_waiting(self) -> int:
        return len(self._short) + self.traces.count_items()

    def _bytes_waiting(self) -> int:
        return self._backlog.bytes_in([self._short, *self.traces, *(call.log for call in list(self._open.values()))])

    def _lighten(self) -> bool:
        """Take what is there out of logs that grow fast, without writing it yet. Gives whether there are such."""
        with self._lock:
            self._welcome()
            if self.dead or self.paused or self._closed:
                return False
            large = [call for call in self._open.values() if len(call.log) > _FAST]
            if large:
                from .row_columns import take

                self._chunks += filter(None, map(take, large))
            return bool(large) or len(self._short) > _FAST or any(len(trace) > _FAST for trace in self.traces)

    def _welcome(self) -> None:
        """Calls that go on are looked after from now on."""
        fresh = self._fresh
        calls = [fresh.pop(number, None) for number in list(fresh)] + self._inherited.take_active()
        for call in calls:
            if call is not None:
                self._new.append(call)
                self._open[call.id] = call

    def _set_due(self, due: int) -> None:
        self.due = due
        self.traces.set_due(due)

    @property
    def shard_name(self) -> str:
        return self._output.name if self._output is not None else ""

    @property
    def sites_seen(self) -> set[int]:
        return self._output.sites if self._output is not None else set()

    @property
    def plans_seen(self) -> set[Plan]:
        return set(self._output.functions) if self._output is not None else set()

    def note(self, note: Note) -> None:
        """Put a line into the run's ledger."""
        self._notes.append(note)

    @trouble.entry_point()
    def flush(self) -> None:
        """Write everything that is there. Never raises into the caller's program."""
        if self._flushing == threading.get_ident():
            return  # a finaliser, run by the garbage collector in the middle of a flush
        if is_ending() and not self._is_free():
            return  # the recorder's thread was stopped for good while it held the lock
        with Busy(), self._lock:
            self._flushing, begun, begun_at = threading.get_ident(), time.time_ns(), time.monotonic()
            waiting = 0
            try:
                self._in_flight = waiting = self._bytes_waiting()
                self._flush()
            except OSError as error:
                self._die(error)
            except Exception as error:  # a bug of ours must not become the user's
                self._die(error, internal=True)
            finally:
                self._flushing = self._in_flight = self._pending_in_flight = 0
                self._flushes += 1
                self._backlog.note_flush(waiting, begun_at)
                self._set_due(self._backlog.next_due(begun))
        with self._turn:
            self._turn.notify_all()

    def _is_free(self) -> bool:
        if self._lock.acquire(timeout=_LAST_WAIT):
            self._lock.release()
            return True
        return False

    def innermost(self, trace: Trace) -> tuple[str, int] | None:
        """The call that is open in this log now, by shard and number; None if there is none that is recorded."""
        with self._lock:
            self.flush()
            call = trace.stack[-1] if trace.stack else 0
            call = call if call >= 0 else ~call
            if self.dead or call <= 0:
                return None
            self._shard().writer(self.rank)
            return self.shard_name, call

    def _flush(self) -> None:
        now = time.time_ns()
        # What has ended is taken first, so that the beginning of each of them is known; logs of followed calls last,
        # because they tell the calls taken before who their parents are.
        ended, short = emptied(self._ended), emptied(self._short)
        unseen = emptied(self._unseen)
        self._welcome()
        unseen_here = [*unseen, *self._inherited.take_ended(ended)]
        begun, self._new = [*self._new, *unseen_here], []
        self._open.update((call.id, call) for call in unseen_here)
        ended += unseen
        if self.dead or self.paused or self._closed:  # threads and greenlets may outlive their run
            self._throw_away(ended)
            return
        self._pending_in_flight, self.pending = self.pending, 0
        if not self._anything(begun, ended, short):
            return
        self._write_long_traces(now)
        self._write(now, begun, ended, short)
        for call in ended:
            self._open.pop(call.id, None)

    def _anything(self, begun: list[LiveCall], ended: list[LiveCall], short: list[Any]) -> bool:
        waiting = begun or ended or short or self._chunks or self._notes or self.traces.count_items()
        return bool(waiting) or any(len(call.log) > 1 for call in self._open.values())

    def _throw_away(self, ended: list[LiveCall]) -> None:
        for call in self._open.values():
            call.log.clear()
            call.samples = None
        for over in ended:
            self._open.pop(over.id, None)
        self._chunks.clear()
        self.traces.throw_away()
        self.pending = 0

    def _write(self, now: int, begun: list[LiveCall], ended: list[LiveCall], short: list[Any]) -> None:
        output, rank = self._shard(), self.rank
        output.start_flush(now)
        followed = self.traces.take()
        for call in begun:
            if call.dropped:
                self._open.pop(call.id, None)
        begun = [call for call in begun if not call.dropped]
        ended = [call for call in ended if not call.dropped]
        output.add_origins(self._inherited.take_origins())
        output.begin_calls(begun, rank)
        chunks, self._chunks = self._chunks, []
        output.add_chunks(chunks, list(self._open.values()), rank)
        output.end_calls(ended)
        output.add_short_calls(short, rank)
        if followed is not None:
            output.add_followed_calls(followed, rank)
        notes, self._notes = self._notes, []
        output.add_notes(notes)
        output.send(rank)

    def _write_long_traces(self, now: int) -> None:
        """Write what fills more than one batch in batches of its own, so that memory stays bounded."""
        for trace in list(self.traces):
            at_once = items_at_once(trace, _MANY)
            for _ in range(len(trace) // at_once):
                from .call_log_rows import LeanRows

                rows = LeanRows()
                rows.take(trace, at_once)
                output = self._shard()
                output.start_flush(now)
                output.add_followed_calls(rows, self.rank)
                output.send(self.rank)

    def _shard(self) -> ShardOutput:
        if self._output is None:
            self._output = load_output().ShardOutput(self.folder, self.keep_for, self.disk)
        assert self._output is not None
        return self._output

    # ---- trouble and the end --------------------------------------------------------------------------------------

    def _die(self, error: Exception, *, internal: bool = False) -> None:
        self.dead = f"{type(error).__name__}: {error}"
        self._throw_away([])
        if self._output is not None:
            self._output.stop(self.dead)
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
        self._closing = True
        self._stop_threads()
        with self._lock:
            self.flush()
            try:
                self._closed = True
                if self._output is not None:
                    self._output.close(complete=not self.dead, rank=self.rank)
            except OSError as error:
                self._die(error)

    def _stop_threads(self) -> None:
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout=10)
        if self._sampler is not None:
            self._sampler.stop()
        self._wake.clear()

    def lock_for_fork(self) -> None:
        """Let no flush be half done in the child's copy of this process, which must know the name of this shard. From
        3.12 on Python warns of forks beside other threads, so that there are none of clew's."""
        self._was_running = self._thread is not None
        self._stop_threads()
        self._lock.acquire()
        if (self._open or self._fresh) and not (self.dead or self.paused or self.shard_name):
            try:
                self._shard().writer(self.rank)
            except OSError as error:
                self._die(error)

    def unlock_after_fork(self) -> None:
        self.forks += 1
        self._lock.release()
        if self._was_running:
            self._start()

    def after_fork_in_child(self) -> None:
        """The parent writes what was pending; this process goes on in a shard of its own."""
        open_calls, shard = {**self._inherited.calls, **self._open, **self._fresh}, self.shard_name
        self._chunks.clear()
        self._new.clear()
        self._short.clear()
        self._unseen.clear()
        self.traces.after_fork_in_child()
        for call in self._ended:
            open_calls.pop(call.id, None)
        self._ended = []
        self._notes = []
        self._open = {}
        self._fresh = {}
        self._reset_shard()
        self._is_forked = True
        for call in open_calls.values():
            call.log.clear()
            call.samples = None
            call.started = call.drained_at = time.time_ns()
        self._inherited = InheritedCalls(open_calls.values(), shard)

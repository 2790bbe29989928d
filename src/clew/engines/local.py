"""Runs pieces on this machine: in the calling thread, in threads, or in processes that each load the work once."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections import deque
from contextvars import copy_context
from multiprocessing.connection import Connection, wait
from typing import Any

from clew.engines.engine import Key, Outcome, Run, Work, pack_items, read_answer, run_piece, worker_error

DEPTH = 2  # pieces that a process has: the one it runs, and the next, so that it never waits
STARTS = 3  # so many processes in a row may end before they are ready
_READY = b"ready"
_PROGRAM = (
    "import json, sys; fd, sys.path[:] = int(sys.argv[1]), json.loads(sys.argv[2]); del sys.argv[1:]; "
    "from clew.engines.local import serve; serve(fd)"
)


class Inline:
    """The calling thread: a piece is run when its outcome is collected."""

    workers = 1
    room = 1
    piece_seconds = 0.02
    deaths = 1
    blames = False

    def __init__(self, run: Run) -> None:
        self._run = run
        self._pieces: deque[tuple[Key, list[Any]]] = deque()

    def submit(self, key: Key, items: Any) -> None:
        self._pieces.append((key, items))

    def collect(self, wait: bool) -> list[Outcome]:
        if not self._pieces or not wait:
            return []
        key, items = self._pieces.popleft()
        return [Outcome(key, self._run(items))]

    def close(self) -> None:
        self._pieces.clear()


class Threads:
    """Threads of this process, for items that wait or whose work is done by libraries that release the GIL."""

    piece_seconds = 0.02
    deaths = 1
    blames = False

    def __init__(self, run: Run, workers: int) -> None:
        self.workers = workers
        self.room = 2 * workers
        self._run = run
        self._pieces: queue.SimpleQueue[tuple[Key, list[Any]] | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._pending = 0
        for number in range(workers):
            # Daemon threads: an item that takes an hour must not keep the program from ending.
            context = copy_context()
            threading.Thread(
                target=context.run, args=(self._run_pieces,), name=f"clew-map-{number}", daemon=True
            ).start()

    def _run_pieces(self) -> None:
        while (piece := self._pieces.get()) is not None:
            key, items = piece
            try:
                self._outcomes.put(Outcome(key, self._run(items)))
            except BaseException as error:
                self._outcomes.put(error)

    def submit(self, key: Key, items: Any) -> None:
        self._pending += 1
        self._pieces.put((key, items))

    def collect(self, wait: bool) -> list[Outcome]:
        collected: list[Outcome] = []
        while self._pending:
            try:
                outcome = self._outcomes.get(block=wait and not collected)
            except queue.Empty:
                break
            self._pending -= 1
            if isinstance(outcome, BaseException):
                raise outcome
            collected.append(outcome)
        return collected

    def close(self) -> None:
        try:
            while True:
                self._pieces.get_nowait()
        except queue.Empty:
            pass
        for _ in range(self.workers):
            self._pieces.put(None)


class _Process:
    """One worker process. It runs its own program, not the user's again, so scripts need no `__main__` guard."""

    def __init__(self, blob: bytes, workers: int) -> None:
        own_end, worker_end = socket.socketpair()
        share = str(max(1, (os.cpu_count() or 1) // workers))
        # Workers that each start a thread for every processor would slow each other down.
        environment = {"OMP_NUM_THREADS": share, "MKL_NUM_THREADS": share, **os.environ}
        command = [sys.executable, "-c", _PROGRAM, str(worker_end.fileno()), json.dumps(sys.path)]
        self.ready = False
        self.pieces: deque[tuple[Key, bytes]] = deque()
        with worker_end:
            self.process = subprocess.Popen(
                command,
                pass_fds=[worker_end.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
                process_group=0,  # a terminal's Ctrl-C must only reach the program; the worker ends with its connection
            )
        self.connection = Connection(own_end.detach())
        try:
            self.connection.send_bytes(blob)
        except OSError:
            pass  # it ended at once, which shows when its answer is read

    def close(self) -> None:
        self.connection.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def describe_end(self) -> str:
        try:
            status = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        if status >= 0:
            return f"exit status {status}"
        return f"signal {signal.Signals(-status).name}" if -status in set(signal.Signals) else f"signal {-status}"


class Processes:
    """Processes of this machine. One that dies is replaced, and the piece it was running is reported as lost."""

    piece_seconds = 0.05
    deaths = 2  # the first may have another cause: memory that ran out, an operator with a kill command
    blames = False

    def __init__(self, work: Work, workers: int, *, in_full: bool = False) -> None:
        """in_full   raise an UnsendableError for a piece of which some part cannot be pickled"""
        self._in_full = in_full
        self.workers = workers
        self.room = (DEPTH + 1) * workers
        self._blob = pickle.dumps(work)
        self._waiting: deque[tuple[Key, bytes]] = deque()
        self._unready_deaths = 0
        self._processes: list[_Process] = []
        try:
            for _ in range(workers):
                self._processes.append(_Process(self._blob, workers))
        except BaseException:
            self.close()
            raise

    def submit(self, key: Key, items: Any) -> None:
        self._waiting.append((key, pack_items(items, in_full=self._in_full)))
        self._send_waiting()

    def are_ready(self) -> bool:
        """True if all processes have prepared the work. Does not wait."""
        for process in _readable([process for process in self._processes if not process.ready], block=False):
            self._receive(process)
        return all(process.ready for process in self._processes)

    def _send_waiting(self) -> None:
        """Send the next pieces to the workers that have fewest. All of them read, so no send blocks for long."""
        while self._waiting:
            free = [process for process in self._processes if process.ready and len(process.pieces) < DEPTH]
            if not free:
                return
            process = min(free, key=lambda process: len(process.pieces))
            process.pieces.append(self._waiting.popleft())
            try:
                process.connection.send_bytes(process.pieces[-1][1])
            except OSError:
                process.ready = False  # it is dead, which `collect` will notice

    def collect(self, wait: bool) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while not outcomes and (self._waiting or any(process.pieces for process in self._processes)):
            readable = _readable(self._processes, wait)
            for process in readable:
                outcomes += self._receive(process)
            self._send_waiting()
            if not readable:
                break
        return outcomes

    def _receive(self, process: _Process) -> list[Outcome]:
        """Read one message: that the worker is ready, or the answer to a piece. Replace a worker that ended."""
        try:
            answer = process.connection.recv_bytes()
        except (EOFError, OSError):
            return self._replace(process)
        if process.ready:
            key, sent = process.pieces.popleft()
            return [read_answer(key, answer, len(sent))]
        if answer != _READY:
            raise worker_error(pickle.loads(answer))
        process.ready = True
        self._unready_deaths = 0
        return []

    def _replace(self, process: _Process) -> list[Outcome]:
        """Start another process, and give the pieces that this one had not begun to others."""
        end, pieces = process.describe_end(), process.pieces
        process.close()
        was_ready = process.ready or bool(pieces)
        self._unready_deaths += not was_ready
        if self._unready_deaths >= STARTS:
            raise worker_error(f"the process ended before it was ready ({end})")
        lost_pieces = [Outcome(pieces.popleft()[0], None, f"the worker died ({end})")] if pieces else []
        self._waiting.extendleft(reversed(pieces))
        self._processes[self._processes.index(process)] = _Process(self._blob, self.workers)
        return lost_pieces

    def close(self) -> None:
        self._waiting.clear()
        for process in self._processes:
            process.connection.close()  # all at once; each ends when it notices
        for process in self._processes:
            process.close()
        self._processes.clear()

    @property
    def pids(self) -> list[int]:
        return [process.process.pid for process in self._processes]


def _readable(processes: list[_Process], block: bool) -> list[_Process]:
    """The processes that have sent something, or have ended."""
    connections = set(wait([process.connection for process in processes], None if block else 0))
    return [process for process in processes if process.connection in connections]


# ---- in the worker ---------------------------------------------------------------------------------------------------


def serve(fd: int) -> None:
    """The main function of a worker process: prepare the work, then run piece after piece until the program is gone."""
    connection = Connection(fd)
    try:
        run = pickle.loads(connection.recv_bytes()).prepare()
    except EOFError:
        return
    except BaseException:
        connection.send_bytes(pickle.dumps(traceback.format_exc()))
        return
    try:
        connection.send_bytes(_READY)
        inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_read_pieces, args=(connection, inbox), daemon=True).start()
        while True:
            connection.send_bytes(run_piece(run, inbox.get()))
    except OSError:
        _exit_now()


def _read_pieces(connection: Connection, inbox: queue.SimpleQueue[bytes]) -> None:
    """Runs in its own thread, because the thread that runs the work may be waiting for its answer to be read."""
    try:
        while True:
            inbox.put(connection.recv_bytes())
    except (EOFError, OSError):
        _exit_now()


def _exit_now() -> None:
    """End now, whatever an item is doing: nobody waits for an answer."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # a closed stream has nothing to flush
    os._exit(0)

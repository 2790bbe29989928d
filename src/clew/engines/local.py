"""This machine: in the calling thread, in threads, or in processes that each load the work once."""

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

from clew.engines.base import Key, Outcome, Run, Work, answered, packed_items, read_answer, unready

DEPTH = 2  # pieces a process has: the one it is at, and the next, so that it never waits
STARTS = 3  # processes in a row that may end before they are ready
_READY = b"ready"
_PROGRAM = (
    "import json, sys; fd, sys.path[:] = int(sys.argv[1]), json.loads(sys.argv[2]); del sys.argv[1:]; "
    "from clew.engines.local import serve; serve(fd)"
)


class Inline:
    """The calling thread: a piece is run when somebody asks what came of it."""

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
    """Threads of this process: for items that wait, or whose work is done by libraries outside the interpreter."""

    piece_seconds = 0.02
    deaths = 1
    blames = False

    def __init__(self, run: Run, workers: int) -> None:
        self.workers = workers
        self.room = 2 * workers
        self._run = run
        self._pieces: queue.SimpleQueue[tuple[Key, list[Any]] | None] = queue.SimpleQueue()
        self._over: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._coming = 0
        for number in range(workers):
            # Daemons: an item that takes an hour must not keep the program from ending.
            context = copy_context()
            threading.Thread(target=context.run, args=(self._work,), name=f"clew-map-{number}", daemon=True).start()

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            key, items = piece
            try:
                self._over.put(Outcome(key, self._run(items)))
            except BaseException as error:
                self._over.put(error)

    def submit(self, key: Key, items: Any) -> None:
        self._coming += 1
        self._pieces.put((key, items))

    def collect(self, wait: bool) -> list[Outcome]:
        found: list[Outcome] = []
        while self._coming:
            try:
                one = self._over.get(block=wait and not found)
            except queue.Empty:
                break
            self._coming -= 1
            if isinstance(one, BaseException):
                raise one
            found.append(one)
        return found

    def close(self) -> None:
        try:
            while True:
                self._pieces.get_nowait()
        except queue.Empty:
            pass
        for _ in range(self.workers):
            self._pieces.put(None)


class _Process:
    """One worker process. It runs a program of its own, not the user's again: scripts need no `__main__` guard."""

    def __init__(self, blob: bytes, workers: int) -> None:
        ours, theirs = socket.socketpair()
        share = str(max(1, (os.cpu_count() or 1) // workers))
        # Workers that each start a thread for every processor would stand in each other's way.
        environment = {"OMP_NUM_THREADS": share, "MKL_NUM_THREADS": share, **os.environ}
        command = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)]
        self.ready = False
        self.pieces: deque[tuple[Key, bytes]] = deque()
        with theirs:
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
                process_group=0,  # a terminal's Ctrl-C is for the program; the worker ends with its connection
            )
        self.connection = Connection(ours.detach())
        try:
            self.connection.send_bytes(blob)
        except OSError:
            pass  # it ended at once; whoever reads its answer learns so

    def close(self) -> None:
        self.connection.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ending(self) -> str:
        try:
            status = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        if status >= 0:
            return f"exit status {status}"
        return f"signal {signal.Signals(-status).name}" if -status in set(signal.Signals) else f"signal {-status}"


class Processes:
    """Processes of this machine. One that dies is replaced; the piece it was at is reported as lost."""

    piece_seconds = 0.05
    deaths = 2  # the first may have been another's fault: memory that ran out, an operator with a kill command
    blames = False

    def __init__(self, work: Work, workers: int, *, whole: bool = False) -> None:
        """whole   a piece with something in it that cannot be pickled is not sent, but an UnsendableError"""
        self._whole = whole
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
        self._waiting.append((key, packed_items(items, whole=self._whole)))
        self._feed()

    def are_ready(self) -> bool:
        """True if all of them have made the work ready. Does not wait."""
        for process in _heard([one for one in self._processes if not one.ready], block=False):
            self._hear(process)
        return all(one.ready for one in self._processes)

    def _feed(self) -> None:
        """The next pieces to those who have fewest. Only to workers that read: none of these sends can block long."""
        while self._waiting:
            free = [one for one in self._processes if one.ready and len(one.pieces) < DEPTH]
            if not free:
                return
            process = min(free, key=lambda one: len(one.pieces))
            process.pieces.append(self._waiting.popleft())
            try:
                process.connection.send_bytes(process.pieces[-1][1])
            except OSError:
                process.ready = False  # it is dead, and `collect` will find that out

    def collect(self, wait: bool) -> list[Outcome]:
        found: list[Outcome] = []
        while not found and (self._waiting or any(one.pieces for one in self._processes)):
            heard = _heard(self._processes, wait)
            for process in heard:
                found += self._hear(process)
            self._feed()
            if not heard:
                break
        return found

    def _hear(self, process: _Process) -> list[Outcome]:
        try:
            answer = process.connection.recv_bytes()
        except (EOFError, OSError):
            return self._replace(process)
        if process.ready:
            key, sent = process.pieces.popleft()
            return [read_answer(key, answer, len(sent))]
        if answer != _READY:
            raise unready(pickle.loads(answer))
        process.ready = True
        self._unready_deaths = 0
        return []

    def _replace(self, process: _Process) -> list[Outcome]:
        """Another in its place. What it had not begun is somebody else's now."""
        ending, pieces = process.ending(), process.pieces
        process.close()
        began = process.ready or bool(pieces)
        self._unready_deaths += not began
        if self._unready_deaths >= STARTS:
            raise unready(f"the process ended before it was ready ({ending})")
        lost = [Outcome(pieces.popleft()[0], None, f"the worker died ({ending})")] if pieces else []
        self._waiting.extendleft(reversed(pieces))
        self._processes[self._processes.index(process)] = _Process(self._blob, self.workers)
        return lost

    def close(self) -> None:
        self._waiting.clear()
        for process in self._processes:
            process.connection.close()  # all at once; each ends when it notices
        for process in self._processes:
            process.close()
        self._processes.clear()

    @property
    def pids(self) -> list[int]:
        return [one.process.pid for one in self._processes]


def _heard(processes: list[_Process], block: bool) -> list[_Process]:
    ready = set(wait([one.connection for one in processes], None if block else 0))
    return [one for one in processes if one.connection in ready]


# ---- in the worker ---------------------------------------------------------------------------------------------------


def serve(fd: int) -> None:
    """What a worker process does: make the work ready, then answer piece after piece, until nobody is there."""
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
        threading.Thread(target=_read, args=(connection, inbox), daemon=True).start()
        while True:
            connection.send_bytes(answered(run, inbox.get()))
    except OSError:
        _leave()


def _read(connection: Connection, inbox: queue.SimpleQueue[bytes]) -> None:
    """A thread takes what comes, because the one that runs the work may itself be waiting for its answer to be read."""
    try:
        while True:
            inbox.put(connection.recv_bytes())
    except (EOFError, OSError):
        _leave()


def _leave() -> None:
    """Nobody waits for an answer: end now, whatever an item is doing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # a closed stream has nothing to flush
    os._exit(0)

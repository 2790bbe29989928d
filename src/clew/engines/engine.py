"""The interface of an engine, which runs pieces of work somewhere else.

An engine takes pieces (lists of items) and returns their outcomes in whatever order they are ready. It
knows nothing of graphs, order or files; its caller knows nothing of threads, processes or machines.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from clew.errors import GraphError

Key = tuple[int, int, int]  # identifies a piece; engines only return it


class Done(NamedTuple):
    """The results of a piece. A failed item has the result None."""

    results: list[Any]
    failures: list[tuple[int, str, str]]  # place in the piece, error, traceback
    seconds: float
    size: int = 0  # bytes sent or received, whichever were more; 0 if nothing is sent
    counts: list[int] | None = None  # how many items each result stands for; None: one
    split: list[str] = []  # noqa: RUF012 - never changed. Why batches could not be run as a whole, and were run in parts
    unsendable: bool = False  # some results could not be sent back
    refused: dict[int, str] = {}  # noqa: RUF012 - never changed. Why batches were not run at all, by their first place


class Outcome(NamedTuple):
    """A piece that is finished: done, or lost with its worker."""

    key: Key
    done: Done | None
    lost: str = ""
    unreadable: bool = False  # it was lost because the worker could not read it, or its results could not be read here


Run = Callable[[list[Any]], Done]


class Work(Protocol):
    """The work of an engine. It is pickled and sent to the workers, prepared there once, and run with each piece."""

    def prepare(self) -> Run: ...

    def is_here(self) -> bool:
        """True if this process finds the right versions of the files it needs."""
        ...

    def with_content(self) -> Work:
        """The same work including those files, for workers that do not find them."""
        ...


class Engine(Protocol):
    """Runs pieces."""

    workers: int  # pieces that run at the same time
    deaths: int  # how often a piece of one item may be lost before the item has failed
    blames: bool  # a lost piece most likely caused the loss itself: the engine has tried it more than once

    @property
    def room(self) -> int:
        """The most pieces that may be under way or waiting to be collected."""
        ...

    @property
    def piece_seconds(self) -> float:
        """How long a piece should take, so that the cost of sending it does not matter."""
        ...

    def submit(self, key: Key, items: Any) -> None:
        """Take a piece. Returns at once."""
        ...

    def collect(self, wait: bool) -> list[Outcome]:
        """The pieces finished since the last call; with `wait`, at least one if any are under way."""
        ...

    def close(self) -> None:
        """Release everything. Unfinished pieces are abandoned."""
        ...


class Unsent:
    """Stands for an item that cannot be run: one that could not be sent, or a row that lacks inputs."""

    def __init__(self, error: str, remedy: str = "Give items that can be pickled.", item: Any = None) -> None:
        self.error = error
        self.remedy = remedy
        self.item = item


class UnsendableError(Exception):
    """Raised for a piece that cannot be pickled, if pieces must be sent in full."""


def pack_items(items: Any, dumps: Callable[[Any], bytes] = pickle.dumps, *, in_full: bool = False) -> bytes:
    """A piece as bytes. An `Unsent` replaces each item that cannot be pickled; with `in_full`, such an item raises."""
    try:
        return dumps(items)
    except Exception as error:
        if in_full:
            raise UnsendableError(str(error)) from error
        return dumps([_replace_unsendable(item, dumps) for item in items])


def _replace_unsendable(item: Any, dumps: Callable[[Any], bytes]) -> Any:
    try:
        dumps(item)
    except Exception as error:
        return Unsent(f"the item cannot be sent to another process: {type(error).__name__}: {error}")
    return item


def run_piece(run: Run, items: bytes) -> bytes:
    """Run a piece and return the answer as bytes: a `Done`, or a text if the worker could not read the piece."""
    try:
        piece = pickle.loads(items)
    except Exception as error:
        return pickle.dumps(f"the item cannot be read in the worker: {type(error).__name__}: {error}")
    result = run(piece)
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return pickle.dumps(_without_unsendable(result))


def _without_unsendable(done: Done) -> Done:
    """The same, with a failure for each item whose result cannot be pickled."""
    results: list[Any] = []
    counts: list[int] = []
    failures, place = list(done.failures), 0
    for result, count in zip(done.results, done.counts or [1] * len(done.results), strict=True):
        try:
            pickle.dumps(result)
            results.append(result)
            counts.append(count)
        except Exception as error:
            message = f"the result cannot be sent from another process: {type(error).__name__}: {error}"
            failures += [(place + row, message, message) for row in range(count)]
            results += [None] * count
            counts += [1] * count
        place += count
    return done._replace(results=results, failures=sorted(failures), counts=done.counts and counts, unsendable=True)


def read_answer(key: Key, answer: bytes, sent: int) -> Outcome:
    """The outcome that `run_piece` has packed."""
    try:
        answered_done = pickle.loads(answer)
    except Exception as error:
        return Outcome(key, None, f"the result cannot be read here: {type(error).__name__}: {error}", unreadable=True)
    if isinstance(answered_done, str):
        return Outcome(key, None, answered_done, unreadable=True)
    return Outcome(key, answered_done._replace(size=max(sent, len(answer))))


def worker_error(trace: str) -> GraphError:
    """The error for workers that cannot begin, which would never finish an item."""
    last = trace.strip().splitlines()[-1] if trace.strip() else "it ended without an error message"
    error = GraphError("graph-worker", f"a worker could not be prepared: {last}.", "The worker's traceback is below.")
    error.add_note(trace)
    return error

"""What runs a piece of work somewhere else: the interface that a cluster's own file implements.

An engine is given pieces (lists of items) and gives back what came of them, in whatever order they are ready. It knows
nothing of graphs, of order or of files; who uses it knows nothing of threads, processes or machines.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from clew.errors import GraphError

Key = tuple[int, int, int]  # which piece it is; engines only hand it back


class Done(NamedTuple):
    """What came of a piece. A failed item has None among the results."""

    results: list[Any]
    failures: list[tuple[int, str, str]]  # place in the piece, error, traceback
    seconds: float
    size: int = 0  # bytes that went there or came back, whichever were more; 0 where nothing travels
    counts: list[int] | None = None  # how many items each result is for; None: one
    split: list[str] = []  # noqa: RUF012 - never changed. Why batches could not be run as a whole, and were run in parts
    unsendable: bool = False  # there are results among them that could not be sent back
    refused: dict[int, str] = {}  # noqa: RUF012 - likewise. Why batches were not run at all, by the place they begin at


class Outcome(NamedTuple):
    """A piece that is over: done, or lost with the worker that had it."""

    key: Key
    done: Done | None
    lost: str = ""
    unreadable: bool = False  # it was lost because it could not be read there, or its results here


Run = Callable[[list[Any]], Done]


class Work(Protocol):
    """What the workers do. It is pickled to where they are, made ready there once, and then called with each piece."""

    def prepare(self) -> Run: ...

    def is_here(self) -> bool:
        """True if this process finds the files it needs, and they are the right ones."""
        ...

    def with_content(self) -> Work:
        """The same with those files in it, for workers that do not."""
        ...


class Engine(Protocol):
    """Somewhere pieces are run."""

    workers: int  # pieces that are run at the same time
    deaths: int  # how often a piece of one item may be lost before the item has failed
    blames: bool  # a piece that is lost has most likely itself to blame: the engine has tried it more than once

    @property
    def room(self) -> int:
        """Pieces that may be under way or waiting to be asked for: more are not sent."""
        ...

    @property
    def piece_seconds(self) -> float:
        """How long a piece should take, so that sending it does not count."""
        ...

    def submit(self, key: Key, items: Any) -> None:
        """Take a piece. Returns at once."""
        ...

    def collect(self, wait: bool) -> list[Outcome]:
        """What is over since the last time; with `wait`, at least one if there is one to come."""
        ...

    def close(self) -> None:
        """Let go of everything. Pieces that are not over are given up."""
        ...


class Unsent:
    """Stands for an item that cannot be run: one that could not be sent, or a row that gives no inputs."""

    def __init__(self, error: str, remedy: str = "Give items that can be pickled.", item: Any = None) -> None:
        self.error = error
        self.remedy = remedy
        self.item = item


class UnsendableError(Exception):
    """A piece that cannot be pickled, raised where whole pieces are asked for."""


def packed_items(items: Any, dumps: Callable[[Any], bytes] = pickle.dumps, *, whole: bool = False) -> bytes:
    """A piece as bytes. What cannot be pickled is left out, and said so in its place; with `whole`, it is an error."""
    try:
        return dumps(items)
    except Exception as error:
        if whole:
            raise UnsendableError(str(error)) from error
        return dumps([_sendable(item, dumps) for item in items])


def _sendable(item: Any, dumps: Callable[[Any], bytes]) -> Any:
    try:
        dumps(item)
    except Exception as error:
        return Unsent(f"the item cannot be sent to another process: {type(error).__name__}: {error}")
    return item


def answered(run: Run, items: bytes) -> bytes:
    """What came of a piece, as bytes: a `Done`, or a text if the piece could not be read there."""
    try:
        given = pickle.loads(items)
    except Exception as error:
        return pickle.dumps(f"the item cannot be read in the worker: {type(error).__name__}: {error}")
    done = run(given)
    try:
        return pickle.dumps(done, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return pickle.dumps(_without_the_unsendable(done))


def _without_the_unsendable(done: Done) -> Done:
    results: list[Any] = []
    counts: list[int] = []
    failures, place = list(done.failures), 0
    for result, count in zip(done.results, done.counts or [1] * len(done.results), strict=True):
        try:
            pickle.dumps(result)
            results.append(result)
            counts.append(count)
        except Exception as error:
            what = f"the result cannot be sent from another process: {type(error).__name__}: {error}"
            failures += [(place + row, what, what) for row in range(count)]
            results += [None] * count
            counts += [1] * count
        place += count
    return done._replace(results=results, failures=sorted(failures), counts=done.counts and counts, unsendable=True)


def read_answer(key: Key, answer: bytes, sent: int) -> Outcome:
    """The outcome that `answered` has packed."""
    try:
        done = pickle.loads(answer)
    except Exception as error:
        return Outcome(key, None, f"the result cannot be read here: {type(error).__name__}: {error}", unreadable=True)
    if isinstance(done, str):
        return Outcome(key, None, done, unreadable=True)
    return Outcome(key, done._replace(size=max(sent, len(answer))))


def unready(trace: str) -> GraphError:
    """Workers that cannot begin: no item would ever be done."""
    last = trace.strip().splitlines()[-1] if trace.strip() else "it ended without a word"
    error = GraphError("graph-worker", f"a worker could not be made ready: {last}.", "The worker's traceback is below.")
    error.add_note(trace)
    return error

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


class Outcome(NamedTuple):
    """A piece that is over: done, or lost with the worker that had it."""

    key: Key
    done: Done | None
    lost: str = ""


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
    room: int  # pieces that may be under way or waiting to be asked for: more are not sent
    piece_seconds: float  # how long a piece should take, so that sending it does not count
    deaths: int  # how often a piece of one item may be lost before the item has failed
    blames: bool  # a piece that is lost has most likely itself to blame: the engine has tried it more than once

    def submit(self, key: Key, items: list[Any]) -> None:
        """Take a piece. Returns at once."""
        ...

    def collect(self, wait: bool) -> list[Outcome]:
        """What is over since the last time; with `wait`, at least one if there is one to come."""
        ...

    def close(self) -> None:
        """Let go of everything. Pieces that are not over are given up."""
        ...


class Unsent:
    """Stands for an item that could not be sent."""

    def __init__(self, error: str) -> None:
        self.error = error


def packed_items(items: list[Any], dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """A piece as bytes. What cannot be pickled is left out, and said so in its place."""
    try:
        return dumps(items)
    except Exception:
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
    results, failures = list(done.results), list(done.failures)
    for place, result in enumerate(done.results):
        try:
            pickle.dumps(result)
        except Exception as error:
            results[place] = None
            what = f"the result cannot be sent from another process: {type(error).__name__}: {error}"
            failures.append((place, what, what))
    return Done(results, sorted(failures), done.seconds)


def read_answer(key: Key, answer: bytes, sent: int) -> Outcome:
    """The outcome that `answered` has packed."""
    try:
        done = pickle.loads(answer)
    except Exception as error:
        return Outcome(key, None, f"the result cannot be read here: {type(error).__name__}: {error}")
    if isinstance(done, str):
        return Outcome(key, None, done)
    return Outcome(key, done._replace(size=max(sent, len(answer))))


def unready(trace: str) -> GraphError:
    """Workers that cannot begin: no item would ever be done."""
    last = trace.strip().splitlines()[-1] if trace.strip() else "it ended without a word"
    error = GraphError("graph-worker", f"a worker could not be made ready: {last}.", "The worker's traceback is below.")
    error.add_note(trace)
    return error

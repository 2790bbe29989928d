"""`graph.map`: a graph over many items. Here: how many are under way, in which order, and what became of them."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
import weakref
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import length_hint
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.engines.base import Done, Engine, Key, Outcome
from clew.errors import GraphError, MissingLibraryError

from .sources import Source, source_of
from .working import Binding, BundleWork, How, Runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graph import Graph
    from .outputs import Output

MOST_ITEMS = 20_000  # of a piece
MOST_BYTES = 8 << 20
PARTS = 16  # of a piece that brings workers down: each step on the way to the one item costs workers
_OPAQUE = '{"$":"opaque"'  # in what was captured: an object that is only known by where it is
GROWTH = 8  # a piece has at most so many times the items of the one before


@dataclass(frozen=True)
class Failure:
    """An item that failed. It stands where its result would."""

    index: int
    input: Any
    error: str
    traceback: str = field(default="", repr=False)


@dataclass(frozen=True)
class Options:
    """What `graph.map` was asked for."""

    engine: Any = "local"
    address: str | None = None
    batch: int | None = None
    ordered: bool = True
    workers: int | None = None
    processes: bool = False
    retries: int = 0
    on_error: str = "collect"
    progress: bool = True

    def __post_init__(self) -> None:
        named = self.engine in ("local", "dask") if isinstance(self.engine, str) else callable(self.engine)
        if not named and not hasattr(self.engine, "scheduler_info"):  # which a client of Dask's has
            ways = (
                'There is "local", "dask", a client of Dask\'s, and a class that implements clew.engines.base.Engine.'
            )
            raise GraphError("bad-option", f"engine={self.engine!r} is not known.", ways)
        if self.on_error not in ("collect", "raise"):
            raise GraphError(
                "bad-option", f"on_error={self.on_error!r} is not known.", 'There is "collect" and "raise".'
            )
        for name, least in (("batch", 1), ("workers", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise GraphError("bad-option", f"{name}={value!r} makes no sense.", f"It is a number from {least} on.")


class _Piece:
    """Some items that travel together."""

    def __init__(self, indices: Sequence[int], items: list[Any]) -> None:
        self.indices = indices
        self.items = items
        self.results: list[Any] = [None] * len(items)
        self.failures: dict[int, tuple[str, str]] = {}
        self.missing = len(items)
        self.deaths: dict[int, int] = {}

    def take(self, begin: int, end: int, done: Done) -> None:
        self.results[begin:end] = done.results
        self.failures.update({begin + place: (error, trace) for place, error, trace in done.failures})
        self.missing -= end - begin

    def fail(self, place: int, why: str) -> None:
        self.failures[place] = (why, why)
        self.missing -= 1


class _Pace:
    """How many items make a piece: so many that sending it does not count, and no more."""

    def __init__(self, seconds: float, workers: int, count: int | None, batch: int | None) -> None:
        self._seconds = seconds
        self._most = MOST_ITEMS if count is None else max(1, min(MOST_ITEMS, count // (4 * workers)))
        self._batch = batch or 1
        self._size = 1.0
        self._source_pace = 0.0  # seconds the collection takes for an item

    @property
    def items(self) -> int:
        """In whole batches."""
        slow = self._seconds / self._source_pace if self._source_pace else MOST_ITEMS
        return max(1, int(min(self._size, self._most, slow)) // self._batch) * self._batch

    def taken(self, count: int, seconds: float) -> None:
        self._source_pace = seconds / count

    def done(self, count: int, done: Done) -> None:
        by_time = self._seconds * count / max(done.seconds, 1e-9)
        by_bytes = MOST_BYTES * count / done.size if done.size else MOST_ITEMS
        self._size = max(1.0, min(by_time, by_bytes, max(self._size, count) * GROWTH))


class _Job:
    """Items on their way to the engine and back."""

    def __init__(self, source: Source, names: list[str], options: Options, start: Callable[[], Engine]) -> None:
        self.failures: list[Failure] = []
        self.done = self.kept = 0
        self.source = source
        self._names = names
        self._options = options
        self._start = start
        self._open: dict[int, _Piece] = {}  # by number, in their order
        self._under_way: set[Key] = set()
        self._suspects: deque[Key] = deque()  # they were on a worker that died, and are run again, one at a time
        self._alone: Key | None = None
        self.pieces = self._run()

    def close(self) -> None:
        self.pieces.close()

    def _run(self) -> Generator[_Piece, None, None]:
        """Pieces that are over."""
        with ExitStack() as stack:
            engine = self._start()
            stack.callback(engine.close)
            tick = stack.enter_context(_bar(self.source.count, self.kept, self._options.progress))
            pace = _Pace(engine.piece_seconds, engine.workers, self.source.count, self._options.batch)
            number = 0
            while self._open or not self.source.over:
                took = self._take(engine, pace, number)
                number += took
                for outcome in engine.collect(wait=not took):
                    self._settle(engine, pace, outcome)
                for piece in self._deliverable():
                    self.done += len(piece.items)
                    for place, (error, trace) in sorted(piece.failures.items()):
                        self.fail(piece, place, error, trace)
                    tick(len(piece.items))
                    yield piece
        if self.source.error is not None:
            raise self._broken_off()

    def _take(self, engine: Engine, pace: _Pace, number: int) -> bool:
        """Send the next items, if there are any and there is room."""
        if self._suspects:
            if not self._under_way:
                self._alone = self._suspects.popleft()
                self._send(engine, self._alone)
            return False
        if self.source.over or len(self._open) >= engine.room:
            return False
        begin = perf_counter()
        indices, items = self.source.take(pace.items, self._options.batch or 1, engine.piece_seconds)
        if not items:
            return False
        pace.taken(len(items), perf_counter() - begin)
        self._open[number] = _Piece(indices, items)
        self._send(engine, (number, 0, len(items)))
        return True

    def _send(self, engine: Engine, key: Key) -> None:
        number, begin, end = key
        self._under_way.add(key)
        engine.submit(key, self._open[number].items[begin:end])

    def _settle(self, engine: Engine, pace: _Pace, outcome: Outcome) -> None:
        self._under_way.discard(outcome.key)
        number, begin, end = outcome.key
        piece = self._open[number]
        if outcome.done is not None:
            piece.take(begin, end, outcome.done)
            pace.done(end - begin, outcome.done)
        elif outcome.key != self._alone and (not engine.blames or end - begin == 1):  # perhaps another's fault
            self._suspects.append(outcome.key)
        elif end - begin > 1:  # in parts, until the one item is found and the others are done
            part = -(-(end - begin) // PARTS)
            places = range(begin, end, part)
            self._suspects.extendleft([(number, at, min(at + part, end)) for at in reversed(places)])
        else:
            piece.deaths[begin] = piece.deaths.get(begin, 0) + 1
            if piece.deaths[begin] < engine.deaths:
                self._suspects.appendleft(outcome.key)
            else:
                piece.fail(begin, outcome.lost)

    def _deliverable(self) -> Iterator[_Piece]:
        for number, piece in list(self._open.items()):
            if piece.missing and self._options.ordered:
                return
            if not piece.missing:
                del self._open[number]
                yield piece

    def fail(self, piece: _Piece, place: int, error: str, trace: str) -> None:
        """Put a failure in the place of a result; or raise it, if that was asked for."""
        index, item = piece.indices[place], piece.items[place]
        given = dict(zip(self._names, item, strict=False)) if self.source.rows else item
        failure = piece.results[place] = Failure(index, given, error, trace)
        self.failures.append(failure)
        if self._options.on_error == "raise":
            raised = GraphError("graph-item", f"item {index} failed: {error}", 'on_error="collect" goes on.')
            raised.add_note(failure.traceback)
            raise raised

    def _broken_off(self) -> GraphError:
        error = self.source.error
        what = f"the collection raised {type(error).__name__}: {error} (after {self.done + self.kept:,} items)."
        made = GraphError("graph-items", what, "What came before it is done.")
        made.__cause__ = error
        return made


class Mapped:
    """The results, as they are asked for. A failed item has a `Failure` in its place.

    Nothing of the job refers to it, so that a loop that is left early lets go of the workers at once."""

    def __init__(self, job: _Job, output: Path | None = None) -> None:
        self.output = output
        self._job = job
        self._indices: Sequence[int] = ()  # of the piece that is being given
        self._left: Iterator[Any] = iter([])  # what is left of it
        self._read: Iterator[tuple[int, Any]] | None = None if output is None else _read(output, job.failures)
        weakref.finalize(self, job.close)

    @property
    def failures(self) -> list[Failure]:
        return self._job.failures

    @property
    def done(self) -> int:
        """Items that are over, the failed ones too."""
        return self._job.done

    @property
    def kept(self) -> int:
        """Items that an earlier job had done."""
        return self._job.kept

    def __iter__(self) -> Iterator[Any]:
        if self._read is not None:
            return (value for _, value in self._read)
        return self._give_values()

    def __next__(self) -> Any:
        return next(iter(self))

    def indexed(self) -> Iterator[tuple[int, Any]]:
        """The results with the numbers of their items."""
        return self._give_indexed() if self._read is None else self._read

    def _give_values(self) -> Iterator[Any]:
        while True:
            left = self._left
            yield from left
            if self._left is left and not self._advance():
                return

    def _give_indexed(self) -> Iterator[tuple[int, Any]]:
        while True:
            left = self._left
            for value in left:
                yield self._indices[-length_hint(left) - 1], value
            if self._left is left and not self._advance():
                return

    def _advance(self) -> bool:
        """On to the next piece, if there is one; whoever asks, by value or with numbers."""
        for piece in self._job.pieces:
            self._indices, self._left = piece.indices, iter(piece.results)
            return True
        return False

    def close(self) -> None:
        """Let go of the workers. What is under way is given up."""
        self._job.close()

    def __enter__(self) -> Mapped:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        of = "" if self._job.source.count is None else f" of {self._job.source.count:,}"
        kept = f", {self.kept:,} from before" if self.kept else ""
        where = f" in {self.output}" if self.output is not None else ""
        return f"<clew map: {self.done:,}{of} items done{kept}, {len(self.failures):,} failed{where}>"


def _read(path: Path, failures: list[Failure]) -> Iterator[tuple[int, Any]]:
    """What an output holds, with the failures of the job that wrote it."""
    from .outputs import rows_in

    known = {failure.index: failure for failure in failures}
    for index, value, error in rows_in(path):
        yield index, value if error is None else known.get(index) or Failure(index, None, error)


# ---- putting it together ---------------------------------------------------------------------------------------------


def mapped(graph: Graph, items: Any, options: Options, output: str | os.PathLike[str] | None = None) -> Mapped:
    """What `Graph.map` gives."""
    inputs = graph._inputs
    required = [one.name for one in inputs if not one.has_default]
    source = source_of(items, graph.input_names, required)
    how = How(options.batch, options.retries, source.rows)
    first = source.first()
    if first:
        Binding(inputs, source.rows).named(first[0])  # a wrong name would be wrong a million times
    job = _Job(source, graph.input_names, options, lambda: _engine(graph, how, options))
    if output is None:
        return Mapped(job)
    _written(job, Path(output), {"graph": _fingerprint(graph), "first": _digest(first)})
    return Mapped(job, Path(output))


def _fingerprint(graph: Graph) -> str:
    """The same for the same steps; what the operators do may be mended between two jobs."""
    steps = [step.target.name if step.kind == "operator" else str(step.target) for step in graph.steps]
    return hashlib.sha256(repr((graph.source, steps)).encode("utf-8", "backslashreplace")).hexdigest()


def _digest(first: list[Any]) -> str | None:
    """What tells the first item from others; None if there is none, or nothing tells in another process."""
    from clew.values import capture

    found = capture(first)
    return found.digest.hex() if first and _OPAQUE not in (found.value.body or "") else None


def _written(job: _Job, path: Path, identity: dict[str, Any]) -> None:
    """Run a job to its end, into a file; or as far as it comes, beside it."""
    from .outputs import Output

    output = Output(path, identity)
    job.kept = output.kept
    if output.kept:
        of = "" if job.source.count is None else f" of {job.source.count:,}"
        trouble.report(
            f"map:{path}:{output.kept}", f"{output.kept:,}{of} items are in {path} already; the others follow"
        )
    job.source.skip(output.done)
    try:
        _write(job, output)
        output.finish()
    except BaseException:
        output.stop()
        if output.stored:
            what = f"{output.stored:,} items are kept for {path}"
            trouble.report(f"map stopped:{path}:{output.stored}", what, "The same call goes on from there.")
        raise


def _write(job: _Job, output: Output) -> None:
    for piece in job.pieces:
        errors = {place: error for place, (error, _) in piece.failures.items()}
        for place, why in output.add(piece.indices, piece.results, errors):
            job.fail(piece, place, why, why)


def _engine(graph: Graph, how: How, options: Options) -> Engine:
    from clew.engines import local

    if options.engine == "local" and not options.processes:
        workers = options.workers or os.cpu_count() or 1
        run = Runner(graph, how)
        return local.Inline(run) if workers == 1 else local.Threads(run, workers)
    stack = ExitStack()
    with stack:
        here = options.engine == "local"
        work = BundleWork.of(stack.enter_context(_bundle(graph, here)), how)
        workers = options.workers or os.cpu_count() or 1
        engine: Any
        if here:
            engine = local.Processes(work, workers)
        elif callable(options.engine):
            engine = options.engine(work, workers)
        else:
            engine = _dask(work, options)
        return _Closing(engine, stack.pop_all())
    raise AssertionError("unreachable")


def _dask(work: BundleWork, options: Options) -> Engine:
    try:
        from clew.engines.dask import Dask
    except ImportError as error:
        what = f'engine="dask" needs the package `distributed` ({error}).'
        raise MissingLibraryError("missing-library", what, "pip install 'clew[dask]'") from error
    return Dask(work, None if options.engine == "dask" else options.engine, options.address)


class _Closing:
    """An engine, with what must stay as long as it is used."""

    def __init__(self, engine: Engine, stack: ExitStack) -> None:
        self.workers, self.room = engine.workers, engine.room
        self.piece_seconds, self.deaths, self.blames = engine.piece_seconds, engine.deaths, engine.blames
        self.submit, self.collect = engine.submit, engine.collect
        self._engine, self._stack = engine, stack

    def close(self) -> None:
        with self._stack:
            self._engine.close()


@contextmanager
def _bundle(graph: Graph, here: bool) -> Iterator[str]:
    """Where the graph is as a bundle: where it was loaded from, or a folder for the time of the job."""
    known = getattr(graph, "bundle", None)
    if known is not None and os.path.exists(known):
        yield os.fspath(known)
        return
    with tempfile.TemporaryDirectory(prefix="clew-map-") as folder:
        path = os.path.join(folder, "graph")
        if here:  # nothing leaves the machine: files may be taken from wherever they are
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                graph.save(path, assets="anywhere")
        else:
            graph.save(path)
        yield path


@contextmanager
def _bar(count: int | None, kept: int, wanted: bool) -> Iterator[Callable[[int], object]]:
    """A bar on stderr, if someone is looking."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("clew map", total=count, completed=kept)
        yield lambda done: bar.advance(task, done)

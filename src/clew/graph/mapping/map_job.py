"""`graph.map`: a graph over many items. Here: how many are under way, in which order, and what became of them."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from clew import trouble
from clew.engines import local
from clew.engines.adaptive import Choice, Measured
from clew.engines.engine import Done, Engine, Key, Outcome
from clew.errors import GraphError, MissingLibraryError
from clew.graph.recorded import recorded_inputs

from .batches import Block
from .failures import Failure
from .item_sources import Shape, Source, source_of
from .progress import progress_bar
from .results import Mapped, Piece
from .worker import Binding, BundleWork, How, Runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.graph.graph import Graph

    from .output_parts import Output

MOST_ITEMS = 20_000  # of a piece
MOST_BYTES = 8 << 20
PARTS = 16  # of a piece that brings workers down: each step on the way to the one item costs workers
_OPAQUE = '{"$":"opaque"'  # in what was captured: an object that is only known by where it is
_numbers = count(1)  # of jobs
GROWTH = 8  # a piece has at most so many times the items of the one before


@dataclass(frozen=True)
class Options:
    """What `graph.map` was asked for."""

    engine: Any = "local"
    address: str | None = None
    batch: int | None = None
    ordered: bool = True
    workers: int | None = None
    processes: bool | None = None  # None: whatever is fastest, by measuring
    retries: int = 0
    on_error: str = "collect"
    progress: bool = True
    keep: str | Sequence[str] = ()

    @property
    def kept_columns(self) -> list[str]:
        return [self.keep] if isinstance(self.keep, str) else list(self.keep)

    def __post_init__(self) -> None:
        named = self.engine in ("local", "dask") if isinstance(self.engine, str) else callable(self.engine)
        if not named and not hasattr(self.engine, "scheduler_info"):  # which a client of Dask's has
            ways = (
                'There is "local", "dask", a client of Dask\'s, and a class that implements clew.engines.engine.Engine.'
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


class _Pace:
    """How many items make a piece: so many that sending it does not count, and no more."""

    def __init__(self, engine: Engine, count: int | None, batch: int | None) -> None:
        self._engine = engine
        self._most = MOST_ITEMS if count is None else max(1, min(MOST_ITEMS, count // (4 * engine.workers)))
        self._batch = batch or 1
        self._size = 1.0
        self._source_pace = 0.0  # seconds the collection takes for an item

    @property
    def items(self) -> int:
        """In whole batches."""
        slow = self._engine.piece_seconds / self._source_pace if self._source_pace else MOST_ITEMS
        return max(1, int(min(self._size, self._most, slow)) // self._batch) * self._batch

    def taken(self, count: int, seconds: float) -> None:
        self._source_pace = seconds / count

    def done(self, count: int, done: Done) -> None:
        by_time = self._engine.piece_seconds * count / max(done.seconds, 1e-9)
        by_bytes = MOST_BYTES * count / done.size if done.size else MOST_ITEMS
        self._size = max(1.0, min(by_time, by_bytes, max(self._size, count) * GROWTH))


class _Job:
    """Items on their way to the engine and back."""

    def __init__(self, source: Source, names: list[str], options: Options, start: Callable[[], Engine]) -> None:
        self.failures: list[Failure] = []
        self.done = self.kept = self.batches_split = 0
        self.source = source
        self._names = names
        self._options = options
        self._start = start
        self._open: dict[int, Piece] = {}  # by number, in their order
        self._number = next(_numbers)
        self._under_way: set[Key] = set()
        self._suspects: deque[Key] = deque()  # they were on a worker that died, and are run again, one at a time
        self._alone: Key | None = None
        self.engine: Engine | None = None  # once it has begun
        self.pieces = self._run()

    @property
    def count(self) -> int | None:
        return self.source.count

    @property
    def chosen(self) -> Choice | None:
        engine = self.engine
        if engine is None or isinstance(engine, Measured):
            return None if engine is None else engine.choice
        kind = type(engine).__name__.lower()
        return Choice("serial" if kind == "inline" else kind, engine.workers, "as asked for")

    @property
    def is_batched(self) -> bool:
        return self._options.batch is not None

    def close(self) -> None:
        self.pieces.close()

    def _run(self) -> Generator[Piece, None, None]:
        """Pieces that are over."""
        with ExitStack() as stack:
            engine = self._start()
            stack.callback(engine.close)
            tick = stack.enter_context(progress_bar(self.source.count, self.kept, self._options.progress))
            self.engine = engine
            pace = _Pace(engine, self.source.count, self._options.batch)
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
                    tick(len(piece.items), len(self.failures))
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
        indices, items, carried = self.source.take(pace.items, self._options.batch or 1, engine.piece_seconds)
        if not len(items):
            return False
        pace.taken(len(items), perf_counter() - begin)
        self._open[number] = Piece(indices, items, carried)
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
            self._note_batches(outcome.done, is_first=number == begin == 0)
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

    def _note_batches(self, done: Done, is_first: bool) -> None:
        """A batch that was not run as a whole is said; if the first cannot be run at all, no other will."""
        if is_first and 0 in done.refused:
            what = f"batch={self._options.batch}: the graph cannot take so many rows at once. {done.refused[0]}"
            ways = "Record it with batches of several lengths, or leave out batch=, and the graph is called row by row."
            raise GraphError("graph-batch", what, ways)
        for why in (*done.split, *done.refused.values()):
            self.batches_split += 1
            words = f"a batch could not be run as a whole, and was run in parts or failed ({why})"
            trouble.report(f"map batch:{self._number}", words, "results.batches_split counts such batches.")

    def _deliverable(self) -> Iterator[Piece]:
        for number, piece in list(self._open.items()):
            if piece.missing and self._options.ordered:
                return
            if not piece.missing:
                del self._open[number]
                yield piece

    def fail(self, piece: Piece, place: int, error: str, trace: str) -> None:
        """Put a failure in the place of a result; or raise it, if that was asked for."""
        index, item = piece.indices[place], piece.item(place)
        given = dict(zip(self._names, item, strict=False)) if self.source.rows and type(item) is tuple else item
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


# ---- putting it together ---------------------------------------------------------------------------------------------


def mapped(graph: Graph, items: Any, options: Options, output: str | os.PathLike[str] | None = None) -> Mapped:
    """What `Graph.map` gives."""
    recorded = tuple(recorded_inputs(graph).values())
    shape = Shape(graph._inputs, recorded, options.batch, options.kept_columns)
    if options.kept_columns and output is None:
        raise GraphError("bad-option", "keep= is for columns of an output.", "Give output= as well.")
    source = source_of(items, shape)
    how = How(options.batch, options.retries, source.rows, recorded)
    first = source.first()
    if first and source.is_checked:
        _check_first(Binding(graph._inputs, how), first[0], options.batch)
    job = _Job(source, graph.input_names, options, lambda: _engine(graph, how, options, source.count))
    if output is None:
        return Mapped(job)
    _written(job, Path(output), {"graph": _fingerprint(graph), "first": _digest(first), "keep": options.kept_columns})
    return Mapped(job, Path(output))


def _check_first(binding: Binding, item: Any, batch: int | None) -> None:
    """A wrong name would be wrong a million times, and a batch of what was never recorded as one, too."""
    if batch is None:
        binding.named(item)
        return
    try:
        binding.batch_values(item if isinstance(item, Block) else [item])
    except Exception as error:
        if isinstance(error, GraphError) and error.slug != "graph-item":
            raise
        # Otherwise it is what is in this row, which fails when it is run.


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
    from .output_parts import Output

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
        for place, why in output.add(piece.indices, piece.results, errors, piece.carried):
            job.fail(piece, place, why, why)


def _engine(graph: Graph, how: How, options: Options, items: int | None) -> Engine:
    workers = options.workers or available_processors()
    if options.engine == "local" and not options.processes:
        run = Runner(graph, how)
        if workers == 1:
            return local.Inline(run)
        if options.processes is None:
            return Measured(run, workers, items, _processes_or_why_not(graph, how, workers))
        return local.Threads(run, workers)
    if options.engine == "local":
        return Processes(graph, how, workers)
    stack = ExitStack()
    with stack:
        work = _bundled(graph, how, stack, here=False)
        engine = options.engine(work, workers) if callable(options.engine) else _dask(work, options)
        return _Closing(engine, stack.pop_all())
    raise AssertionError("unreachable")


def available_processors() -> int:
    """The processors that this process may use: in a container they are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _bundled(graph: Graph, how: How, stack: ExitStack, *, here: bool) -> BundleWork:
    path = stack.enter_context(_bundle(graph, here))
    return BundleWork.of(path, how, vars(graph).get("trusted", True), vars(graph).get("device"))


class Processes(local.Processes):
    """Processes of this machine, and the bundle they load."""

    def __init__(self, graph: Graph, how: How, workers: int, *, whole: bool = False) -> None:
        with ExitStack() as stack:
            super().__init__(_bundled(graph, how, stack, here=True), workers, in_full=whole)
            self._stack = stack.pop_all()

    def close(self) -> None:
        super().close()
        if hasattr(self, "_stack"):
            self._stack.close()


def _processes_or_why_not(graph: Graph, how: How, workers: int) -> Callable[[], Processes] | str:
    """Processes give what threads give, unless something happens besides the results."""
    if any(step.effect and not step.changes for step in graph.steps):
        return "the graph has side effects"
    device = vars(graph).get("device")
    if device is not None and str(device) != "cpu":
        return f"its models are on {device}"
    return lambda: Processes(graph, how, workers, whole=True)


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
                graph.save(path, assets="anywhere", test=False)
        else:
            graph.save(path, test=False)
        yield path

"""What a worker of `graph.map` does: run the graph for item after item, and tell of those that failed."""

from __future__ import annotations

import hashlib
import os
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from clew.engines.engine import Done, Run, Unsent
from clew.errors import GraphError, GuardError, nearest
from clew.graph.nodes import Input
from clew.graph.recorded import UNKNOWN, RecordedInput
from clew.recorder.how_calls_end import traceback_of

from .batches import Block, block_values, check_parts, stacked

if TYPE_CHECKING:
    from clew.graph.graph import Graph

_NAMED = {dict, Unsent}  # items of these kinds are not simply the one input that a graph has
_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds before an item is tried again, doubled each time


@dataclass(frozen=True)
class How:
    """How items are run, for workers here and elsewhere."""

    batch: int | None = None
    retries: int = 0
    rows: bool = False  # items are tuples of the inputs
    recorded: tuple[RecordedInput, ...] = ()  # what the inputs were recorded with, in their order


class Binding:
    """What an item gives to which input."""

    def __init__(self, inputs: list[Input], how: How) -> None:
        self._inputs = inputs
        self._names = [given.name for given in inputs]
        self._rows = how.rows
        self._recorded = how.recorded or tuple(RecordedInput(name) for name in self._names)
        self._is_named = bool(self._recorded) and _is_no_dictionary(self._recorded[0], how.batch is not None)
        self._takes_dictionaries = len(inputs) == 1 and not how.rows and not self._is_named
        required = [at for at, given in enumerate(inputs) if not given.has_default]
        is_row = len(required) == 1 and len(inputs) > 1 and self._recorded[required[0]].kind == "mapping"
        self._row = self._names[required[0]] if is_row else None  # the one input that takes a whole dictionary
        self._several = sum(not given.has_default for given in inputs) > 1  # one value alone would not do

    def named(self, item: Any) -> dict[str, Any]:
        """The inputs that an item gives. With one input: itself, or a dictionary of just that name (a dictionary of
        another is itself, unless the input was recorded with something else). With several: a
        dictionary of them by name, a tuple of them in order, or the first alone; if that cannot be, a list as well (a
        DataLoader gives those), and what is like a tuple or a dictionary."""
        names = self._names
        if type(item) is Unsent:
            raise GraphError("graph-item", item.error, item.remedy)
        in_order = isinstance(item, list | tuple) if self._several else type(item) is tuple and len(names) > 1
        if self._rows or in_order:
            if len(item) > len(names):
                what = f"the item is a {type(item).__name__} of {len(item)}, and the graph takes {len(names)} inputs."
                raise GraphError("graph-inputs", what, f"It takes: {', '.join(names)}.")
            return self._whole(dict(zip(names, item, strict=False)))
        if self._row is not None and type(item) is dict and self._row not in item:
            return {self._row: item}
        if type(item) is dict and (len(names) > 1 or list(item) == names or self._is_named):
            return self._whole(item)
        if self._several and isinstance(item, Mapping):
            return self._whole(dict(item))
        return self._whole({names[0]: item} if names else {})

    def _whole(self, given: dict[str, Any]) -> dict[str, Any]:
        takes = f"It takes: {', '.join(self._names) or 'nothing'}."
        unknown = [name for name in given if name not in self._names]
        if unknown:
            what = f"the item has a `{unknown[0]}`, which is no input of the graph;"
            raise GraphError("graph-inputs", what, f"{nearest(str(unknown[0]), self._names)} {takes}")
        missing = [one.name for one in self._inputs if one.name not in given and not one.has_default]
        if missing:
            raise GraphError("graph-inputs", f"the item does not give the input `{missing[0]}`.", takes)
        return given

    def values(self, item: Any) -> list[Any]:
        """What the graph's function is called with."""
        if self._takes_dictionaries and type(item) is dict and self._names[0] not in item:
            return [item]  # as `named` would find out, in a tenth of the time
        given = self.named(item)
        return [given.get(one.name, one.default) for one in self._inputs]

    def batch_values(self, items: list[Any] | Block) -> list[Any]:
        """The same for a batch: for each input, what it was recorded with, made of its values. One that no item gives
        has its default."""
        if isinstance(items, Block):
            return block_values(items, self._inputs, self._recorded)
        if items and all(type(item) is Block for item in items):
            return block_values(Block.of(items), self._inputs, self._recorded)
        given = [self.named(item) for item in items]
        return [
            stacked([one.get(wanted.name, wanted.default) for one in given], recorded)
            if any(wanted.name in one for one in given)
            else wanted.default
            for wanted, recorded in zip(self._inputs, self._recorded, strict=True)
        ]


def _is_no_dictionary(recorded: RecordedInput, in_batches: bool) -> bool:
    """True if a dictionary cannot be the value of an input, or a row of it, and so must give it by name."""
    if in_batches:
        kinds = recorded.elements if recorded.kind == "list" else {recorded.kind}
        return bool(kinds) and kinds <= {"number", "text", "bytes", "list", "array", "tensor", "series"}
    return recorded.kind not in ("mapping", "other", UNKNOWN)


class Runner:
    """Runs a graph for a piece of items."""

    def __init__(self, graph: Graph, how: How) -> None:
        # A batch is made of what the inputs were recorded with; if it fails, its rows are asked one by one.
        self._call = graph._entry_of_items if how.batch is None else graph._function
        self._binding = Binding(graph._inputs, how)
        self._plain = len(graph._inputs) == 1 and not how.rows  # an item is the input, unless it is a dictionary
        self._how = how

    def __call__(self, items: Any) -> Done:
        begin = perf_counter()
        if self._how.batch is not None:
            done = BatchRunner(self._call, self._binding, self._how).run(items)
            return done._replace(seconds=perf_counter() - begin)
        failures: list[tuple[int, str, str]] = []
        results: list[Any] = []
        self._each(items, results, failures)
        return Done(results, failures, perf_counter() - begin)

    def _each(self, items: list[Any], results: list[Any], failures: list[tuple[int, str, str]]) -> None:
        rest = iter(items)
        each = self._plainly if self._plain and not _NAMED & set(map(type, items)) else self._bound
        while len(results) < len(items):
            try:
                each(rest, results.append)
            except (Exception, SystemExit) as error:
                place = len(results)
                results.append(self._again(place, items[place], error, failures))

    def _plainly(self, items: Iterator[Any], give: Callable[[Any], None]) -> None:
        """A loop with nothing in it: with small items, whatever is done for each of them counts."""
        call = self._call
        for item in items:
            give(call(item))

    def _bound(self, items: Iterator[Any], give: Callable[[Any], None]) -> None:
        call, values = self._call, self._binding.values
        for item in items:
            give(call(*values(item)))

    def _again(self, place: int, item: Any, error: BaseException, failures: list[tuple[int, str, str]]) -> Any:
        """The result of an item that has failed once; or its failure is noted."""
        try:
            return tried_again(error, self._how.retries, lambda: self._call(*self._binding.values(item)))
        except (Exception, SystemExit) as last:
            failures.append((place, *told(last)))
            return None


def tried_again(error: BaseException, retries: int, do: Callable[[], Any]) -> Any:
    """What came of another try of what has failed; or its last error."""
    for attempt in range(0 if isinstance(error, GraphError) else retries):
        sleep(min(_LONGEST_PAUSE, _PAUSE * 2**attempt) if attempt else 0)
        try:
            return do()
        except (Exception, SystemExit) as another:
            error = another
    raise error


class BatchRunner:
    """Runs a graph for batches of rows. A batch that fails is halved until the rows are found that are to blame."""

    def __init__(self, call: Callable[..., Any], binding: Binding, how: How) -> None:
        self._call = call
        self._binding = binding
        self._how = how
        self._outputs: list[tuple[int, Any]] = []  # rows, and what the graph gave for them
        self._failures: list[tuple[int, str, str]] = []
        self._split: list[str] = []  # of batches that could not be run as a whole: why
        self._refused: dict[int, str] = {}  # of batches that cannot be run at all, by their first row: why
        self._depends_on_batch = False  # rows failed together, and not alone, by a decision of the graph

    def run(self, items: Any) -> Done:
        assert self._how.batch is not None
        for first in range(0, len(items), self._how.batch):
            self._batch(first, items[first : first + self._how.batch])
        outputs = [output for _, output in self._outputs]
        counts = [count for count, _ in self._outputs]
        return Done(outputs, self._failures, 0.0, counts=counts, split=self._split, refused=self._refused)

    def _batch(self, first: int, items: Any) -> None:
        outputs, failures = len(self._outputs), len(self._failures)
        self._depends_on_batch = False
        error = self._halved(first, items)
        if error is None or len(items) == 1:
            return
        text, trace = told(error)
        is_refused = self._is_refused(error, len(items), len(self._failures) - failures)
        if is_refused or self._depends_on_batch:
            # What the graph gives for parts of a batch need not be what it would give for all of it.
            text = f"{text} (in a batch of {len(items)} rows)"
            del self._outputs[outputs:], self._failures[failures:]
            self._fail(first, len(items), text, trace)
        if is_refused:
            self._refused[first] = text
        else:
            self._split.append(text)

    def _is_refused(self, error: BaseException, count: int, failed: int) -> bool:
        """True if the graph takes no batches of this length, whatever is in them."""
        if isinstance(error, GuardError):
            seen = error.seen[0] if isinstance(error.seen, tuple) and error.seen else error.seen  # of a shape, too
            return type(seen) is int and seen == count and (failed == count or self._depends_on_batch)
        return isinstance(error, GraphError) and error.slug == "graph-batch"

    def _halved(self, first: int, items: Any) -> BaseException | None:
        """Run rows together, or else in halves; why they could not be run together."""
        try:
            self._outputs.append((len(items), self._run(items)))
            return None
        except (Exception, SystemExit) as error:
            if len(items) == 1:
                self._again(first, items, error)
            elif isinstance(error, GraphError) and error.slug == "graph-batch":
                self._fail(first, len(items), *told(error))
            else:
                before, half = len(self._failures), len(items) // 2
                self._halved(first, items[:half])
                self._halved(first + half, items[half:])
                if isinstance(error, GuardError) and len(self._failures) == before:
                    self._depends_on_batch = True
            return error

    def _fail(self, first: int, count: int, error: str, trace: str) -> None:
        self._outputs += [(1, None)] * count
        self._failures += [(first + place, error, trace) for place in range(count)]

    def _run(self, items: Any) -> Any:
        output = self._call(*self._binding.batch_values(items))
        if isinstance(output, Iterator):
            output = list(output)
        check_parts(output, len(items))
        return output

    def _again(self, first: int, items: Any, error: BaseException) -> None:
        try:
            self._outputs.append((1, tried_again(error, self._how.retries, lambda: self._run(items))))
        except (Exception, SystemExit) as last:
            self._fail(first, 1, *told(last))


def told(error: BaseException) -> tuple[str, str]:
    """An error as texts: it may not be fit to travel."""
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    trace = traceback_of(error)
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    if isinstance(error, GuardError):
        trace = None  # the message has the line; the frames are the graph's own
    lines = traceback.TracebackException(type(error), error, trace).format()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__, "".join(lines)


# ---- a graph that travels --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BundleWork:
    """A graph in a bundle, run by workers that load it."""

    path: str
    digest: str
    how: How
    trusted: bool | frozenset[str] = True  # as the caller has trusted it: True of a graph of the caller's own
    content: bytes | None = None
    device: Any = None  # as the caller has loaded it

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], how: How, trusted: bool | frozenset[str] = True, device: Any = None
    ) -> BundleWork:
        return cls(os.path.abspath(path), _digest(os.fspath(path)), how, trusted, device=device)

    def is_here(self) -> bool:
        return _digest(self.path) == self.digest

    def with_content(self) -> BundleWork:
        path = Path(self.path)
        if path.is_file():
            return replace(self, content=path.read_bytes())
        held = BytesIO()
        with zipfile.ZipFile(held, "w") as archive:  # as it is: arrays do not shrink, and time counts
            for file in sorted(each for each in path.rglob("*") if each.is_file()):
                archive.write(file, file.relative_to(path).as_posix())
        return replace(self, content=held.getvalue())

    def prepare(self) -> Run:
        from clew.graph.bundle import load

        if self.content is None or self.is_here():
            return Runner(load(self.path, trusted=self.trusted, device=self.device), self.how)
        # Files of a bundle may be read at any time: they stay as long as the worker does.
        file = Path(tempfile.mkdtemp(prefix="clew-bundle-")) / "bundle.zip"
        file.write_bytes(self.content)
        return Runner(load(file, trusted=self.trusted, device=self.device), self.how)


def _digest(path: str) -> str:
    """Of a bundle's zip, or of the index of its folder (which has the digest of everything else)."""
    file = Path(path) / "graph.json" if os.path.isdir(path) else Path(path)
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""

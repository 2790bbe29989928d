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

from clew.engines.base import Done, Run, Unsent
from clew.errors import GraphError, GuardError, nearest

from .nodes import Input

if TYPE_CHECKING:
    from .graph import Graph

_NAMED = {dict, Unsent}  # items of these kinds are not simply the one input that a graph has
_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds before an item is tried again, doubled each time


@dataclass(frozen=True)
class How:
    """How items are run, for workers here and elsewhere."""

    batch: int | None = None
    retries: int = 0
    rows: bool = False  # items are tuples of the inputs


class Binding:
    """What an item gives to which input."""

    def __init__(self, inputs: list[Input], rows: bool) -> None:
        self._inputs = inputs
        self._names = [given.name for given in inputs]
        self._rows = rows
        self._several = sum(not given.has_default for given in inputs) > 1  # one value alone would not do

    def named(self, item: Any) -> dict[str, Any]:
        """The inputs that an item gives. With one input: itself, or a dictionary of just that name. With several: a
        dictionary of them by name, a tuple of them in order, or the first alone; if that cannot be, a list as well (a
        DataLoader gives those), and what is like a tuple or a dictionary."""
        names = self._names
        if type(item) is Unsent:
            raise GraphError("graph-item", item.error, "Give items that can be pickled.")
        in_order = isinstance(item, list | tuple) if self._several else type(item) is tuple and len(names) > 1
        if self._rows or in_order:
            if len(item) > len(names):
                what = f"the item is a {type(item).__name__} of {len(item)}, and the graph takes {len(names)} inputs."
                raise GraphError("graph-inputs", what, f"It takes: {', '.join(names)}.")
            return self._whole(dict(zip(names, item, strict=False)))
        if type(item) is dict and (len(names) > 1 or list(item) == names):
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
        given = self.named(item)
        return [given.get(one.name, one.default) for one in self._inputs]

    def lists(self, items: list[Any]) -> list[Any]:
        """The same for a batch: a list for each input. One that no item gives has its default."""
        given = [self.named(item) for item in items]
        return [
            [one.get(wanted.name, wanted.default) for one in given]
            if any(wanted.name in one for one in given)
            else wanted.default
            for wanted in self._inputs
        ]


class Runner:
    """Runs a graph for a piece of items."""

    def __init__(self, graph: Graph, how: How) -> None:
        self._call = graph._function
        self._binding = Binding(graph._inputs, how.rows)
        self._plain = len(graph._inputs) == 1 and not how.rows  # an item is the input, unless it is a dictionary
        self._how = how

    def __call__(self, items: list[Any]) -> Done:
        begin = perf_counter()
        failures: list[tuple[int, str, str]] = []
        results: list[Any] = []
        if self._how.batch is not None:
            for first in range(0, len(items), self._how.batch):
                results += self._batch(first, items[first : first + self._how.batch], failures)
        else:
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
        for attempt in range(0 if isinstance(error, GraphError) else self._how.retries):
            sleep(min(_LONGEST_PAUSE, _PAUSE * 2**attempt) if attempt else 0)
            try:
                return self._one(item)
            except (Exception, SystemExit) as another:
                error = another
        failures.append((place, *told(error)))
        return None

    def _one(self, item: Any) -> Any:
        if self._how.batch is None:
            return self._call(*self._binding.values(item))
        return parted(self._call(*self._binding.lists([item])), 1)[0]

    def _batch(self, first: int, items: list[Any], failures: list[tuple[int, str, str]]) -> list[Any]:
        try:
            return parted(self._call(*self._binding.lists(items)), len(items))
        except (Exception, SystemExit) as error:
            if len(items) == 1 or (isinstance(error, GraphError) and error.slug == "graph-batch"):
                return [self._again(first + place, item, error, failures) for place, item in enumerate(items)]
        results = []
        for place, item in enumerate(items):  # one by one: the others need not fail with it
            try:
                results.append(self._one(item))
            except (Exception, SystemExit) as error:
                results.append(self._again(first + place, item, error, failures))
        return results


def parted(result: Any, count: int) -> list[Any]:
    """What a batch gave, item by item: a sequence of as many; or a tuple or dictionary of such sequences."""
    if type(result) is dict:
        columns = [_sequence(value, count) for value in result.values()]
        return [dict(zip(result, row, strict=True)) for row in zip(*columns, strict=True)]
    if type(result) is tuple:
        return list(zip(*(_sequence(value, count) for value in result), strict=True))
    return _sequence(result, count)


def _sequence(value: Any, count: int) -> list[Any]:
    try:
        found = None if isinstance(value, str | bytes | dict) else list(value)
    except TypeError:
        found = None
    if found is None or len(found) != count:
        length = "" if found is None else f" of {len(found)}"
        what = f"for a batch of {count} items the graph gave a {type(value).__name__}{length}."
        raise GraphError("graph-batch", what, "It must give a sequence of as many, or a tuple or dictionary of those.")
    return found


def told(error: BaseException) -> tuple[str, str]:
    """An error as texts: it may not be fit to travel."""
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    trace = error.__traceback__
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
    content: bytes | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str], how: How) -> BundleWork:
        return cls(os.path.abspath(path), _digest(os.fspath(path)), how)

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
        from .bundle import load

        if self.content is None or self.is_here():
            return Runner(load(self.path, trusted=True), self.how)  # it is the caller's own graph
        # Files of a bundle may be read at any time: they stay as long as the worker does.
        file = Path(tempfile.mkdtemp(prefix="clew-bundle-")) / "bundle.zip"
        file.write_bytes(self.content)
        return Runner(load(file, trusted=True), self.how)


def _digest(path: str) -> str:
    """Of a bundle's zip, or of the index of its folder (which has the digest of everything else)."""
    file = Path(path) / "graph.json" if os.path.isdir(path) else Path(path)
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""

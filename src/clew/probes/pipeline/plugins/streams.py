"""Hugging Face `IterableDataset`: what `map` and `filter` do to the first examples of a stream."""

from __future__ import annotations

import copy
import functools
import inspect
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from clew import trouble
from clew.instrument.call_guard import Around, attempt
from clew.probes.pipeline.flow import Who
from clew.probes.pipeline.stage_functions import Spot, fixed
from clew.probes.pipeline.stages import Passer
from clew.probes.pipeline.trace_recording import Source, Tracing, current

from .examples import Examples, Given, seen

_SOURCE = "stream"  # of each process its own: which part of a dataset it reads is the library's secret


#: The ids of what came out of the step before while one example was asked for.
_pulled: ContextVar[list[Any] | None] = ContextVar("clew_pulled", default=None)
_ahead: ContextVar[bool] = ContextVar("clew_ahead", default=False)  # whoever asks may take several, or leave some out


class Streaming(Passer):
    """At the loop of a step of a stream. A copy of the step is looped over, so the dataset itself stays as it is."""

    def __init__(self) -> None:
        super().__init__(Spot("map", "IterableDataset.map", names=fixed()))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        tracing, step = current(), args[0]
        if tracing is None or tracing.wanted is None:
            return twin(*args, **kwargs)  # type: ignore[no-any-return]
        function = getattr(step, "mask_function", step.function)
        if inspect.iscoroutinefunction(function) or _is_of_datasets(function):
            if inspect.iscoroutinefunction(function):
                tracing.note("datasets: asynchronous functions of an IterableDataset are not seen")
            return twin(*args, **kwargs)  # type: ignore[no-any-return]
        return _passing(_Step(tracing, step, function), twin)


def _is_of_datasets(function: Any) -> bool:
    function = getattr(function, "func", function)
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "datasets"


class _Step:
    """A step of a stream that is looped over, and the copy of it that is looped over instead."""

    def __init__(self, tracing: Tracing, step: Any, function: Any) -> None:
        self._tracing = tracing
        self._first = first = _First(tracing, step.ex_iterable)
        is_filter = hasattr(step, "mask_function")
        self.takes_ahead = is_filter or step.batched
        self._given = Given(first.examples, is_filter=is_filter, batched=step.batched, with_indices=step.with_indices)
        self._coming: deque[Any] = deque()  # the ids of what it will give next
        method = "filter" if is_filter else "map"
        watched = seen(tracing, function, self._given, method, self._begin, self._done)
        self.stand_in = stand_in = copy.copy(step)
        stand_in.ex_iterable = first
        stand_in.with_indices = True
        if is_filter:
            masking = step.function  # a partial of the library's, around the user's function
            stand_in.function = functools.partial(masking.func, watched, *masking.args[1:], **masking.keywords)
        else:
            stand_in.function = watched

    def _begin(self) -> None:
        """The function is called."""
        self._given.examples = self._first.examples
        scope = self._tracing.flow.scope  # the item a loader draws just now
        is_direct = scope is not None and scope.single and not _ahead.get()
        self._given.about = scope if is_direct else None

    def _done(self, index: Any, result: Any) -> None:
        self._coming.clear()
        self._coming.extend(_ids_after(self._given, index, result))

    @trouble.entry_point()
    def give(self) -> None:
        """Tell whoever asked which example it is given: the next step, or the loop."""
        id = self._coming.popleft() if self._coming else None
        pulled, flow = _pulled.get(), self._tracing.flow
        if pulled is not None:
            pulled.append(id)
        elif flow.scope is None and id is not None and id is not _END:
            flow.arrived(Who((id,), self._first.examples.source))


def _passing(step: _Step, twin: FunctionType) -> Iterator[Any]:
    inner = twin(step.stand_in)
    while True:
        with Around(lambda: _asking(step.takes_ahead)):
            item = next(inner, _END)
        if item is _END:
            return
        step.give()
        yield item


@contextmanager
def _asking(ahead: bool) -> Iterator[None]:
    """What a step takes meanwhile is not what whoever asks it takes."""
    pulled, further = _pulled.set(None), _ahead.set(_ahead.get() or ahead)
    try:
        yield
    finally:
        _ahead.reset(further)
        _pulled.reset(pulled)


_END = object()


def _ids_after(given: Given, index: Any, result: Any) -> list[Any]:
    """The ids of what comes out of a call, one for each example; None of one that is not known."""
    indices = index if isinstance(index, list) else [index]
    ids = [given.examples.ids[i] for i in indices] if not given.examples.lost else [None] * len(indices)
    if given.is_filter:
        kept = given.kept  # what it drops comes out of this loop too, and is dropped by the next
        return ids if kept is None else [id if kept.get(i) else _END for i, id in zip(indices, ids, strict=True)]
    if not given.batched:
        return ids
    columns = list(result.values()) if isinstance(result, dict) else []
    return ids if all(len(column) == len(ids) for column in columns if type(column) is list) else []


class _First:
    """The first examples of a stream, and which they are: those of the step before, else by their number."""

    def __init__(self, tracing: Tracing, inner: Any) -> None:
        self._tracing = tracing
        self._inner = inner
        self.examples = Examples((), f"{_SOURCE}, {tracing.where}" if tracing.where else _SOURCE)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # whatever else the library wants to know of it

    @property
    def iter_arrow(self) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        wanted = self._tracing.wanted
        iterator = iter(self._inner)
        for number in range(wanted if wanted is not None else 0):
            pulled: list[Any] = []
            token = _pulled.set(pulled)
            try:
                item = next(iterator, _END)
            finally:
                _pulled.reset(token)
            if item is _END:
                break
            self._add(number, pulled)
            yield item
        else:
            attempt(lambda: self._tracing.altered(f"datasets: a stream ends after {wanted:,} examples"))

    @trouble.entry_point()
    def _add(self, number: int, pulled: list[Any]) -> None:
        before = self.examples
        came = [id for id in pulled if id is not _END]
        if pulled:
            id = came[0] if len(came) == 1 else None
        else:
            id = number
            known = self._tracing.sources.setdefault(before.source, Source(before.source))
            known.made = max(known.made, number + 1)
        lost = before.lost or ("" if id is not None else "a step before gave other examples than it was given")
        self.examples = Examples((*before.ids, id), before.source, lost)

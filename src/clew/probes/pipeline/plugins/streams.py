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

from clew.probes.pipeline.flow import Who
from clew.probes.pipeline.spots import Spot, fixed
from clew.probes.pipeline.stages import Passer
from clew.probes.pipeline.tracing import Source, Tracing, current

from .examples import Examples, Given, seen

_SOURCE = "stream"  # of each process its own: which part of a dataset it reads is the library's secret


class _Pulled:
    """What came out of the step before while one example was asked for."""

    def __init__(self) -> None:
        self.ids: list[Any] = []


_pulled: ContextVar[_Pulled | None] = ContextVar("clew_pulled", default=None)
_ahead: ContextVar[bool] = ContextVar("clew_ahead", default=False)  # whoever asks may take several, or leave some out


class Streaming(Passer):
    """At the loop of a step of a stream. A copy of the step is looped over, so the dataset itself stays as it is."""

    def __init__(self) -> None:
        super().__init__(Spot("map", "IterableDataset.map", names=fixed()))

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        tracing, step = current(), args[0]
        if tracing is None or tracing.wanted is None:
            yield from twin(*args, **kwargs)
            return
        function = getattr(step, "mask_function", step.function)
        if inspect.iscoroutinefunction(function) or _is_of_datasets(function):
            if inspect.iscoroutinefunction(function):
                tracing.note("datasets: asynchronous functions of an IterableDataset are not seen")
            yield from twin(*args, **kwargs)
            return
        yield from _passing(tracing, twin, step, function)


def _is_of_datasets(function: Any) -> bool:
    function = getattr(function, "func", function)
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "datasets"


def _passing(tracing: Tracing, twin: FunctionType, step: Any, function: Any) -> Iterator[Any]:
    is_filter = hasattr(step, "mask_function")
    method = "filter" if is_filter else "map"
    first = _First(tracing, step.ex_iterable)
    given = Given(first.examples, is_filter=is_filter, batched=step.batched, with_indices=step.with_indices)
    coming: deque[Any] = deque()  # the ids of what it will give next

    def done(index: Any, result: Any) -> None:
        coming.clear()
        coming.extend(_ids_after(given, index, result))

    def looked_at(*args: Any, **kwargs: Any) -> Any:
        given.examples = first.examples
        scope = tracing.flow.scope  # the item a loader draws just now
        is_direct = scope is not None and scope.single and not _ahead.get()
        given.about = scope if is_direct else None
        return watched(*args, **kwargs)

    watched = seen(tracing, function, given, method, done)
    stand_in = copy.copy(step)
    stand_in.ex_iterable = first
    stand_in.with_indices = True
    if is_filter:
        masking = step.function  # a partial of the library's, around the user's function
        stand_in.function = functools.partial(masking.func, looked_at, *masking.args[1:], **masking.keywords)
    else:
        stand_in.function = looked_at
    inner = twin(stand_in)
    while True:
        with _asking(ahead=is_filter or step.batched):
            item = next(inner, _END)
        if item is _END:
            return
        _given(tracing, first.examples.source, coming.popleft() if coming else None)
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


def _given(tracing: Tracing, source: str, id: Any) -> None:
    """Tell whoever asked which example it is given: the next step, or the loop."""
    pulled, flow = _pulled.get(), tracing.flow
    if pulled is not None:
        pulled.ids.append(id)
    elif flow.scope is None and id is not None and id is not _END:
        flow.arrived(Who((id,), source))


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
            pulled = _Pulled()
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
            self._tracing.altered(f"datasets: a stream ends after {wanted:,} examples")

    def _add(self, number: int, pulled: _Pulled) -> None:
        before = self.examples
        came = [id for id in pulled.ids if id is not _END]
        if pulled.ids:
            id = came[0] if len(came) == 1 else None
        else:
            id = number
            known = self._tracing.sources.setdefault(before.source, Source(before.source))
            known.made = max(known.made, number + 1)
        lost = before.lost or ("" if id is not None else "a step before gave other examples than it was given")
        self.examples = Examples((*before.ids, id), before.source, lost)

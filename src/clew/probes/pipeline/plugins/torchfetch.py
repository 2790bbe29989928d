"""Where torch makes items and batches: in a worker, or in the process that trains if there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import isgeneratorfunction
from time import time_ns
from types import FunctionType
from typing import Any

from torch.utils.data import Subset
from torch.utils.data._utils import fetch as fetching

from clew.probes.pipeline.carried import Carried, packed
from clew.probes.pipeline.flow import Who
from clew.probes.pipeline.matching import matched
from clew.probes.pipeline.spots import Spot, fixed, named_spot
from clew.probes.pipeline.staged import StagedCall
from clew.probes.pipeline.stages import is_stage
from clew.probes.pipeline.tracing import Tracing, current
from clew.probes.pipeline.worker import Drawn, DrawnOne


def fetching_of(original: Any) -> Any:
    def passing(fetcher: Any, index: Any) -> Any:
        tracing = current()
        who = index.who if isinstance(index, (Drawn, DrawnOne)) else None
        plain = list(index) if isinstance(index, Drawn) else index.index if isinstance(index, DrawnOne) else index
        if tracing is None or (isinstance(index, (Drawn, DrawnOne)) and index.trace != tracing.key):
            return original(fetcher, plain)
        if who is None:
            who = _undrawn(tracing, fetcher, plain)
        tracing.outbox = [] if tracing.carries else None
        try:
            data = _fetched(tracing, original, fetcher, plain, who)
        finally:
            tracing.flush()
        return Carried(data, [packed(call) for call in tracing.outbox]) if tracing.outbox is not None else data

    return passing


def _undrawn(tracing: Tracing, fetcher: Any, index: Any) -> Who:
    """The indices of a loader that was going before the trace began."""
    batched = bool(fetcher.auto_collation)
    ids = tuple(index) if batched else (index,)
    number = tracing.flow.next_batch() if batched else None
    return Who(ids, type(fetcher.dataset).__name__, number, batched=batched)


def _fetched(tracing: Tracing, original: Any, fetcher: Any, index: Any, who: Who) -> Any:
    collate, dataset = fetcher.collate_fn, fetcher.dataset
    if not is_stage(collate):
        fetcher.collate_fn = _collating(tracing, collate, who)
    if isinstance(fetcher, fetching._IterableDatasetFetcher):
        if not isinstance(fetcher.dataset_iter, _Counted):
            fetcher.dataset_iter = _Counted(fetcher.dataset_iter, dataset)
        fetcher.dataset_iter.begin(tracing, who)
    else:
        fetcher.dataset = _seen(tracing, dataset)
    try:
        with tracing.flow.within(who):
            return original(fetcher, index)
    finally:
        fetcher.collate_fn, fetcher.dataset = collate, dataset


def _seen(tracing: Tracing, dataset: Any) -> Any:
    """The dataset itself if its class could be instrumented; else something that looks at what it gives."""
    if type(dataset) is Subset:
        return _OneByOne(dataset)  # as its __getitems__ does, but so that each item is known
    if getattr(type(dataset), "__getitems__", None) is not None:
        return dataset
    getter = getattr(type(dataset), "__getitem__", None)
    if isinstance(getter, FunctionType):
        return dataset
    return _Looking(tracing, dataset)


class _OneByOne:
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index]


class _Looking:
    """A list, an array, or another dataset that is no Python class."""

    def __init__(self, tracing: Tracing, dataset: Any) -> None:
        self._tracing = tracing
        self._dataset = dataset
        name = f"{type(dataset).__name__}.__getitem__"
        self._spot = named_spot("dataset", name, "index", result="item", kind="dataset")

    def __getitem__(self, index: Any) -> Any:
        return self._tracing.run(self._spot, self._dataset.__getitem__, (index,), {})


class _Counted:
    """What an iterable dataset gives, one after the other: each is one of the items that were drawn."""

    def __init__(self, inner: Any, dataset: Any) -> None:
        self._inner = inner
        name = f"{type(dataset).__name__}.__iter__"
        iter_ = getattr(type(dataset), "__iter__", None)
        self._spot: Spot | None = None
        if not isgeneratorfunction(iter_):  # else it is a stage by itself
            self._spot = named_spot("dataset", name, result="item", kind="dataset")

    def begin(self, tracing: Tracing, who: Who) -> None:
        self._tracing = tracing
        self._who = who
        self._next = 0

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        who, number = self._who, self._next
        self._next += 1
        id = who.ids[number] if number < len(who.ids) else number
        single = Who((id,), who.source, who.batch)
        with self._tracing.flow.within(single):
            if self._spot is None:
                return next(self._inner)
            begun = time_ns()
            item = next(self._inner)
            call = self._tracing.begin(self._spot, {}, single, late=True)
            if call is not None:
                call.meta["took"] = time_ns() - begun
                self._tracing.end(call, single, item)
            return item


def _collating(tracing: Tracing, collate: Callable[[Any], Any], who: Who) -> Callable[[Any], Any]:
    code = getattr(collate, "__code__", None)
    named = getattr(collate, "__qualname__", None) or type(collate).__qualname__
    if code is None and callable(getattr(collate, "func", None)):  # functools.partial
        named = getattr(collate.func, "__qualname__", named)  # type: ignore[attr-defined]
    known = _collates.get(named)
    if known is None:
        known = _collates[named] = Spot(
            "collate",
            named.rpartition("<locals>.")[2],
            module=getattr(collate, "__module__", "") or "",
            file=code.co_filename if code is not None else "",
            line=code.co_firstlineno if code is not None else 0,
            names=fixed("samples" if who.batched else "sample"),
            result="batch",
            kind="collate",
            ours=True,
        )

    def collating(samples: Any) -> Any:
        return tracing.run(known, collate, (samples,), {}, who=who, after=_in_order(samples))

    return collating


_collates: dict[str, Spot] = {}


def _in_order(samples: Any) -> Callable[[StagedCall, Who, Any], Who]:
    """The rows of a batch need not be in the order of its samples: collate functions sort, and leave out."""

    def after(call: StagedCall, who: Who, batch: Any) -> Who:
        if not who.batched or type(samples) is not list:
            return who
        found = matched(samples, batch)
        if found.lost:
            call.meta["lost"] = found.lost
            return replace(who, lost=found.lost)
        if found.order is not None:
            who = replace(who, ids=tuple(who.ids[number] for number in found.order))
            call.meta["ids"] = list(who.ids)
        return who

    return after

"""Where torch makes items and batches: in a worker, or in the process that trains if there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import isgeneratorfunction
from time import time_ns
from types import FunctionType, TracebackType
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data import Subset
from torch.utils.data._utils import fetch as fetching

from clew import trouble
from clew.instrument.call_guard import Around, Once, attempt, call_once, is_own, leave_no_frames, without_own_frames
from clew.probes.pipeline.carried_passages import Carried, packed
from clew.probes.pipeline.flow import Who, id_of
from clew.probes.pipeline.loader_workers import Drawn, DrawnOne
from clew.probes.pipeline.passage import StagedCall
from clew.probes.pipeline.row_matching import matched
from clew.probes.pipeline.stage_functions import Spot, fixed, named_spot
from clew.probes.pipeline.stages import spot_at
from clew.probes.pipeline.trace_recording import Tracing, current
from clew.recorder.fingerprints import original_code
from clew.recorder.how_calls_end import traceback_of


def fetching_of(original: Any) -> Any:
    def fetch(fetcher: Any, index: Any) -> Any:
        drawn = index if isinstance(index, (Drawn, DrawnOne)) else None
        plain = list(index) if isinstance(index, Drawn) else index.index if isinstance(index, DrawnOne) else index
        try:
            return call_once(lambda once, *_: passing(once, fetcher, plain, drawn), original, (fetcher, plain), {})
        except BaseException:
            leave_no_frames()
            raise

    def passing(original: Once, fetcher: Any, plain: Any, drawn: Drawn | DrawnOne | None) -> Any:
        tracing = current()
        if tracing is None or (drawn is not None and drawn.trace != tracing.key):
            return original(fetcher, plain)
        making = _Making(drawn.who if drawn is not None else _undrawn(tracing, fetcher, plain))
        tracing.outbox = [] if tracing.carries else None
        try:
            data = _fetched(tracing, original, fetcher, plain, making)
        except Exception as error:
            if tracing.outbox is None or isinstance(error, StopIteration) or not original.raised(error):
                raise
            where = "in DataLoader " + tracing.where.replace("worker", "worker process")
            seen = (type(error), error, _from_the_worker(error))
            data = ExceptionWrapper(seen, where)  # type: ignore[no-untyped-call]  # so that it does not come alone
        finally:
            tracing.flush()
        return _sent(tracing, data, making.who) if tracing.where else data

    return fetch


def _from_the_worker(error: Exception) -> TracebackType:
    """The traceback that the worker would have seen, from its own frame on."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_own(frame):
        frame = frame.f_back
    return TracebackType(without_own_frames(traceback_of(error)), frame, frame.f_lasti, frame.f_lineno)


class _Making:
    """A batch that is being made; whose its rows are is known when it is there."""

    def __init__(self, who: Who) -> None:
        self.who = who


def _sent(tracing: Tracing, data: Any, who: Who) -> Carried:
    """What a worker gives back. Of what it has given nothing comes in again: nothing of it need be known."""
    outbox, tracing.outbox = tracing.outbox or [], None
    tracing.flow.forget()
    tracing._repeats.clear()
    return Carried(data, who, [packed(call) for call in outbox])


def _undrawn(tracing: Tracing, fetcher: Any, index: Any) -> Who:
    """The indices of a loader that was going before the trace began."""
    batched = bool(fetcher.auto_collation) or type(index) is list
    ids = tuple(map(id_of, index)) if batched else (id_of(index),)
    number = tracing.flow.next_batch() if batched else None
    return Who(ids, type(fetcher.dataset).__name__, number, batched=batched)


def _fetched(tracing: Tracing, original: Any, fetcher: Any, index: Any, making: _Making) -> Any:
    collate, dataset, who = fetcher.collate_fn, fetcher.dataset, making.who
    try:
        fetcher.collate_fn = _collating(tracing, collate, making)
        if isinstance(fetcher, fetching._IterableDatasetFetcher):
            if not isinstance(fetcher.dataset_iter, _Counted):
                fetcher.dataset_iter = _Counted(fetcher.dataset_iter, dataset)
            fetcher.dataset_iter.begin(tracing, making)
        else:
            fetcher.dataset = _seen(tracing, dataset)
        with tracing.flow.within(who):
            data = original(fetcher, index)
    finally:
        fetcher.collate_fn, fetcher.dataset = collate, dataset
    known = tracing.flow.known([data])
    if known is not None and known.batch == who.batch:
        making.who = known
    return data


def _seen(tracing: Tracing, dataset: Any) -> Any:
    """The dataset itself if its class could be instrumented; else something that looks at what it gives."""
    if type(dataset) is Subset and not callable(getattr(dataset.dataset, "__getitems__", None)):
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
        try:
            return call_once(partial(self._tracing.run, self._spot), self._dataset.__getitem__, (index,), {})
        except BaseException:
            leave_no_frames()
            raise


class _Counted:
    """What an iterable dataset gives, one after the other: each is one of the items that were drawn."""

    def __init__(self, inner: Any, dataset: Any) -> None:
        self._inner = inner
        name = f"{type(dataset).__name__}.__iter__"
        iter_ = getattr(type(dataset), "__iter__", None)
        self._spot: Spot | None = None
        self._tracing: Tracing | None = None
        if not isgeneratorfunction(iter_):  # else it is a stage by itself
            self._spot = named_spot("dataset", name, result="item", kind="dataset")

    def begin(self, tracing: Tracing, making: _Making) -> None:
        self._tracing = tracing
        self._drawn = making.who
        self._making = making
        self._next = 0

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        single, begun = self._single(), time_ns()
        if single is None or self._tracing is None:
            return next(self._inner)
        tracing = self._tracing
        with Around(lambda: tracing.flow.within(single)):
            try:
                item = next(self._inner)
            except StopIteration:
                self._ended()
                raise
            except BaseException as error:
                self._failed(single, error)
                raise
            self._given(single, item, begun)
        return item

    @trouble.entry_point()
    def _single(self) -> Who | None:
        """Whose the next item is; None: nobody asks."""
        if self._tracing is None or not self._tracing.open:
            return None
        drawn, number = self._drawn, self._next
        id = drawn.ids[number] if number < len(drawn.ids) else number
        return Who((id,), drawn.source, drawn.batch)

    @trouble.entry_point()
    def _ended(self) -> None:
        """In the middle of a batch."""
        self._making.who = replace(self._drawn, ids=self._drawn.ids[: self._next])

    @trouble.entry_point()
    def _given(self, single: Who, item: Any, begun: int) -> None:
        self._next += 1
        call = self._begun(single)
        if call is not None and self._tracing is not None:
            call.meta["took"] = time_ns() - begun
            self._tracing.end(call, single, item)

    @trouble.entry_point()
    def _failed(self, single: Who, error: BaseException) -> None:
        call = self._begun(single)
        if call is not None and self._tracing is not None:
            self._tracing.fail(call, error)

    def _begun(self, single: Who) -> StagedCall | None:
        if self._spot is None or self._tracing is None:
            return None
        return self._tracing.begin(self._spot, {}, single, late=True)


def _collating(tracing: Tracing, collate: Callable[[Any], Any], making: _Making) -> Callable[[Any], Any]:
    users = spot_at(collate)
    spot = users or _collate_spot(collate, making.who.batched)

    def collating(samples: Any) -> Any:
        if users is not None:  # it is looked at by itself; only the order of its rows is to be found
            attempt(lambda: tracing.afters.update({users: _in_order(samples, making)}))
            return collate(samples)
        try:
            return call_once(passing, collate, (samples,), {})
        except BaseException:
            leave_no_frames()
            raise

    def passing(once: Once, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tracing.run(spot, once, args, kwargs, who=making.who, after=_in_order(args[0], making))

    return collating


def _collate_spot(collate: Any, batched: bool) -> Spot:
    function = getattr(collate, "func", collate) if not hasattr(collate, "__code__") else collate  # of a partial
    code = original_code(function)
    named = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", "") or ""
    spot = _collates.get((module, named, batched))
    if spot is None:
        spot = _collates[module, named, batched] = Spot(
            "collate",
            named.rpartition("<locals>.")[2],
            module=module,
            code=code,
            names=fixed("samples" if batched else "sample"),
            result="batch",
            kind="collate",
            ours=True,
        )
    return spot


_collates: dict[tuple[str, str, bool], Spot] = {}


def _in_order(samples: Any, making: _Making) -> Callable[[StagedCall, Who, Any], Who]:
    """The rows of a batch need not be in the order of its samples: collate functions sort, and leave out."""
    given = list(samples) if type(samples) is list else None  # a collate function may sort them where they are

    def after(call: StagedCall, who: Who, batch: Any) -> Who:
        if not who.batched or given is None or len(given) != len(who.ids):
            return who
        found = matched(given, batch, who.ids)
        if found.lost:
            call.meta["lost"] = found.lost
            call.meta.pop("by_row", None)
            who = replace(who, lost=found.lost)
        elif found.order is not None:
            call.meta["given"] = list(who.ids)  # the order of the samples, which is not that of the rows
            who = replace(who, ids=tuple(who.ids[number] for number in found.order))
            call.meta["ids"] = list(who.ids)
        making.who = who
        return who

    return after

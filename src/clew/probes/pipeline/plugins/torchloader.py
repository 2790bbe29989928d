"""torch's loaders, in the process that trains: which items are drawn, and which batches arrive."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import isgeneratorfunction
from itertools import count
from time import time_ns
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader, IterableDataset

from clew import trouble
from clew.probes.pipeline.carried import Carried, unpacked
from clew.probes.pipeline.flow import Who, id_of, rows_in
from clew.probes.pipeline.plugins.rounds import Place, length_of, place_in_program, tell_length
from clew.probes.pipeline.ring import Ring
from clew.probes.pipeline.spots import Spot, fixed, named_spot
from clew.probes.pipeline.staged import StagedCall
from clew.probes.pipeline.stages import Passer
from clew.probes.pipeline.tracing import PASSES, RanDry, Source, TraceOver, Tracing, current
from clew.probes.pipeline.worker import Drawn, DrawnOne, Ticket, WorkerStart

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_LOADER = Spot("loader", "DataLoader.__next__", names=fixed(), result="batch", kind="loader", ours=True)

_feeding: ContextVar[Feed | None] = ContextVar("clew_feed", default=None)  # while a loader's iterator is being made
_feeds: weakref.WeakKeyDictionary[Any, Feed] = weakref.WeakKeyDictionary()  # by iterator
_PEEKS = 4  # passes over a loader of which none went to its end: looks at its first batch


@dataclass(eq=False)
class Feed:
    """One pass over a loader: which items were drawn, and which batches have not come back yet."""

    tracing: Tracing
    source: str
    batched: bool
    wanted: int | None = None
    drawn: int = 0
    arrived: int = 0
    underway: deque[Who] = field(default_factory=deque)
    held: dict[Who, list[StagedCall]] = field(default_factory=dict)  # drawn for a ring, in which only what has come is
    counted: int | None = None  # the items of the batch that came last, as they were drawn
    came: Carried | None = None  # what a worker has sent, if it was sent by one
    over: bool = False  # nothing more came when it was asked
    adopted: bool = False  # it was going before the trace began
    place: Place = ()  # where the program stood when it began
    indexed: bool = True  # its items are drawn by a sampler, and so counted before a collate leaves some out

    def draw(self, sampler: Any, indexed: bool) -> Iterator[Any]:
        """The indices of the sampler, no more than were asked for, each batch with its number."""
        self.indexed = indexed
        for index in self._groups(sampler):
            if not self.tracing.open:
                yield index
                continue
            batched = (
                self.batched or type(index) is list
            )  # a sampler may give whole batches to a loader that makes none
            indices = index if batched else [index]
            first, self.drawn = self.drawn, self.drawn + len(indices)
            ids = tuple(map(id_of, indices)) if indexed else tuple(range(first, self.drawn))
            who = Who(ids, self.source, self.tracing.flow.next_batch() if batched else None, batched=batched)
            if indexed:
                self._record(sampler, index, who)
            self.underway.append(who)
            key = self.tracing.key
            yield Drawn.of(indices, who, key) if self.batched else DrawnOne(index, who, key)

    def _groups(self, sampler: Any) -> Iterator[Any]:
        """What the sampler gives, until there are enough, and in batches of another size if that was asked for."""
        indices = iter(sampler)
        left = self.wanted
        waiting: list[Any] = []
        size = self.tracing.batch_size if self.batched else None
        while left is None or left > 0 or not self.tracing.open:
            group: Any = next(indices, _NOTHING)
            if group is _NOTHING:
                break
            if self.batched or type(group) is list:
                whole = list(group)
                group = whole if left is None or not self.tracing.open else whole[:left]
                left = None if left is None else left - len(group)
                if len(group) < len(whole) and size is None and getattr(sampler, "batch_size", None) is None:
                    cut = f"the last batch of {len(group)} instead of {len(whole)}"
                    self.tracing.altered(f"the loader of {self.source} gives {cut}")
            else:
                left = None if left is None else left - 1
            if size is None:
                yield group
                continue
            waiting += group
            while len(waiting) >= size:
                yield waiting[:size]
                waiting = waiting[size:]
        if waiting:
            yield waiting

    def _record(self, sampler: Any, indices: Any, who: Who) -> None:
        name = type(getattr(sampler, "sampler", sampler)).__name__
        spot = named_spot("sampler", f"{name}.__iter__", result="indices", kind="sampler")
        tracing = self.tracing
        call = tracing.begin(spot, {}, who, late=True)
        if call is None:
            return
        tracing.outbox = self.held.setdefault(who, []) if tracing.ring is not None else None
        try:
            tracing.end(call, who, indices)
        finally:
            tracing.outbox = None

    def _let_in(self, who: Who) -> None:
        for call in self.held.pop(who, ()):
            self.tracing._write_end(call)

    def unwrapped(self, sent: Carried) -> Any:
        """What a worker sent, without what came along."""
        if self.tracing.open:
            self.came = sent
            for told in sent.calls:
                call = unpacked(told, self.tracing.recorder)
                self.tracing.failed = self.tracing.failed or (call if call.error is not None else None)
                self.tracing._write_end(call)
        if isinstance(sent.data, ExceptionWrapper):
            sent.data.reraise()  # type: ignore[no-untyped-call]
        return sent.data

    def landed(self) -> Who | None:
        """Whose the batch is that has just come: as the worker says, else the next of those that were drawn."""
        came, self.came = self.came, None
        drawn = [who for who in self.underway if came is None or _is_same(who, came.who)][:1]
        for who in drawn:
            self.underway.remove(who)
            self._let_in(who)
            self.counted = len(who.ids) if self.indexed else None
        return came.who if came is not None else next(iter(drawn), None)

    def failed(self) -> str:
        """An error came instead of a batch: what was being loaded."""
        came = self.came
        lost = [who for who in self.underway if came is None or _is_same(who, came.who)]
        for who in lost:
            self._let_in(who)
        return "; ".join(map(_said, lost[:8]))


def _is_same(drawn: Who, came: Who) -> bool:
    return drawn.batch == came.batch and (drawn.batch is not None or drawn.ids == came.ids)


_NOTHING = object()


class Drawing:
    """A sampler of which a trace takes only so many."""

    def __init__(self, sampler: Any, loader: DataLoader[Any]) -> None:
        self.sampler = sampler
        self._indexed = not isinstance(loader.dataset, IterableDataset)
        self._batched = loader._auto_collation
        self._size = getattr(sampler, "batch_size", None) if self._batched else 1

    def __iter__(self) -> Iterator[Any]:
        feed = _feeding.get()
        if feed is None or not feed.tracing.open:
            return iter(self.sampler)
        return feed.draw(self.sampler, self._indexed)

    def __len__(self) -> int:
        count, tracing = len(self.sampler), current()
        if tracing is None or tracing.wanted is None:
            return count
        size = (tracing.batch_size if self._batched else None) or self._size or 1
        return min(count, -(-tracing.wanted // size))


def index_sampler(original: Any) -> Any:
    def sampler(loader: DataLoader[Any]) -> Any:
        whole = original.fget(loader)
        return whole if current() is None else Drawing(whole, loader)

    return property(sampler)


def length(original: Any) -> Any:
    def counted(loader: DataLoader[Any]) -> int:
        whole, tracing = original(loader), current()
        if tracing is None or tracing.wanted is None:
            return int(whole)
        size = (tracing.batch_size or loader.batch_size or 1) if loader._auto_collation else 1
        return min(int(whole), -(-tracing.wanted // size))

    return counted


def iterating(original: Any, site: Site, prepare: Callable[[Site, Any], None]) -> Any:
    def passing(loader: DataLoader[Any]) -> Any:
        tracing = current()
        if tracing is None:
            return original(loader)
        feed = _new_feed(tracing, loader)
        if feed is None:
            return iter(())
        prepare(site, loader.dataset)
        instrument_loader_class(site, type(loader))
        with _traced_workers(loader, tracing, site):
            token = _feeding.set(feed)
            try:
                iterator = original(loader)
            finally:
                _feeding.reset(token)
        with contextlib.suppress(TypeError):  # a subclass may give a generator
            _feeds[iterator] = feed
            if loader.num_workers:
                _unwrap(iterator)
        return iterator

    return passing


_AHEAD = {  # what takes batches from a loader ahead of those it gives: module → class and method
    "accelerate.data_loader": (("DataLoaderShard", "__iter__"), ("DataLoaderDispatcher", "__iter__")),
    "lightning.pytorch.loops.fetchers": (("_PrefetchDataFetcher", "__next__"),),
    "pytorch_lightning.loops.fetchers": (("_PrefetchDataFetcher", "__next__"),),
}


class Handing(Passer):
    """At a function that hands on batches: the one it gives is the one that is worked on next."""

    def __init__(self) -> None:
        super().__init__(_LOADER)

    def __call__(self, twin: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracing = current()
        given = twin(*args, **kwargs)
        if tracing is None:
            return given
        return _handed(tracing, given) if isgeneratorfunction(twin) else _hand(tracing, given)


def _handed(tracing: Tracing, given: Iterator[Any]) -> Iterator[Any]:
    for data in given:
        yield _hand(tracing, data)


def _hand(tracing: Tracing, data: Any) -> Any:
    who = tracing.flow.known([data]) if tracing.open else None
    if who is not None:
        tracing.flow.arrived(who)
    return data


_HANDING = Handing()


def instrument_those_ahead(site: Site) -> None:
    for module, methods in _AHEAD.items():
        for cls, name in methods:
            own = vars(getattr(sys.modules.get(module), cls, object)).get(name)
            if isinstance(own, FunctionType):
                site.swap(own, _HANDING)


def instrument_loader_class(site: Site, cls: type) -> None:
    own = vars(cls).get("__iter__")
    if cls is not DataLoader and isinstance(own, FunctionType) and isgeneratorfunction(own):
        site.swap(own, _HANDING)


def _unwrap(iterator: Any) -> None:
    """What workers send along is taken off here, also by an iterator that outlives the trace its workers know of."""
    known = weakref.ref(iterator)  # which must not hold itself: its workers end when it is let go of
    take = type(iterator)._next_data

    def next_data() -> Any:
        own = known()
        data = take(own)
        return _feeds[own].unwrapped(data) if isinstance(data, Carried) else data

    iterator._next_data = next_data


def _new_feed(tracing: Tracing, loader: DataLoader[Any]) -> Feed | None:
    """A pass over a loader may begin; None, or the end of the block, if its items are through."""
    known, place = _known_as(tracing, loader), place_in_program()
    source = tracing.sources[known.key]
    if known.feed is not None and tracing.wanted is not None:
        if _is_gone(tracing, known.feed, source.passes, place):
            tracing.stop()
            return None
        source.passes += 1
    feed = known.feed = Feed(tracing, source.name, loader._auto_collation, tracing.wanted, place=place)
    tell_length(tracing, loader, source.name)
    return feed


def _is_gone(tracing: Tracing, before: Feed, passes: int, place: Place) -> bool:
    """Whether the pass before was it: the items have been where they go, or the same loop begins its next round. A
    look at the first batch is not, nor is a pass of another loop that comes before, as one over means and deviations.
    """
    if before.over:
        return bool(tracing.moved_on) or place == before.place or passes >= PASSES
    if (
        before.wanted is not None and before.arrived >= before.wanted
    ):  # a model may be called once, to see what it gives
        return bool(tracing.moved_on - {"model"}) or passes >= _PEEKS
    return passes >= _PEEKS


@dataclass(eq=False)
class _Known:
    """A loader in a trace; or several, if each pass is made over a new one of the same kind."""

    tracing: str
    loader: weakref.ref[Any]
    kind: tuple[Any, ...]
    key: Any = None
    feed: Feed | None = None


_all_known: list[_Known] = []


def _known_as(tracing: Tracing, loader: DataLoader[Any]) -> _Known:
    _all_known[:] = [known for known in _all_known if known.feed is None or known.feed.tracing.open]
    kind = (type(loader.dataset), length_of(loader.dataset), loader.batch_size, type(loader.sampler))
    for known in _all_known:
        before = known.loader()
        if known.tracing == tracing.key and (before is loader or (before is None and known.kind == kind)):
            known.loader = weakref.ref(loader)
            return known
    made = _Known(tracing.key, weakref.ref(loader), kind, key=object())
    tracing.sources[made.key] = Source(_source_name(tracing, loader))
    _all_known.append(made)
    return made


def _source_name(tracing: Tracing, loader: DataLoader[Any]) -> str:
    name = type(loader.dataset).__name__
    taken = {source.name for source in tracing.sources.values()}
    return next(said for number in count(1) if (said := name if number == 1 else f"{name}#{number}") not in taken)


@contextlib.contextmanager
def _traced_workers(loader: DataLoader[Any], tracing: Tracing, site: Site) -> Iterator[None]:
    """Workers started in here trace what they load."""
    if not loader.num_workers:
        yield
        return
    held = loader._iterator
    feed = _feeds.get(held) if held is not None else None
    if held is not None and (feed is None or feed.tracing is not tracing):
        loader._iterator = None
        if feed is None:
            tracing.altered("workers that had been started before (persistent_workers) were set aside for new ones")
    if loader.persistent_workers and loader._iterator is None:
        before = held if feed is None else None
        site.on_leaving(lambda: setattr(loader, "_iterator", before))
    own = loader.worker_init_fn
    loader.worker_init_fn = WorkerStart(own, Ticket.of(tracing, spawned=_spawns(loader)))
    try:
        yield
    finally:
        loader.worker_init_fn = own


def _spawns(loader: DataLoader[Any]) -> bool:
    context: Any = loader.multiprocessing_context or torch.multiprocessing
    return bool(context.get_start_method() != "fork")


def giving(original: Any) -> Any:
    def passing(iterator: Any) -> Any:
        feed = _feeds.get(iterator)
        tracing = feed.tracing if feed is not None else current()
        if tracing is None or not tracing.open:
            return original(iterator)
        feed = _feeds[iterator] = feed or _adopted(tracing, iterator)
        if feed.adopted and feed.wanted is not None and feed.arrived >= feed.wanted:
            _over(feed)
            raise RanDry(tracing)
        begun = time_ns()
        try:
            data = original(iterator)
        except StopIteration:
            _over(feed)
            if feed.wanted is not None and feed.drawn >= feed.wanted:
                raise RanDry(tracing) from None
            raise
        except TraceOver:
            raise
        except BaseException:
            if loading := feed.failed():
                tracing.note(f"when the loader of {feed.source} failed, this was being loaded: {loading}")
            raise
        _arrived(tracing, feed, data, begun)
        return data

    return passing


def _adopted(tracing: Tracing, iterator: Any) -> Feed:
    """A loader that was going before the trace began: what its workers do is not seen."""
    dataset = getattr(iterator, "_dataset", None)
    feed = Feed(tracing, type(dataset).__name__, bool(getattr(iterator, "_auto_collation", True)), tracing.wanted)
    feed.adopted = True
    tracing.note(
        f"the loader of {feed.source} was going before the trace began: what it had drawn by then is not known"
    )
    return feed


def _over(feed: Feed) -> None:
    feed.over = True
    tracing = feed.tracing
    for source in tracing.sources.values():
        if source.name == feed.source:
            source.made = max(source.made, feed.arrived) or -1
    if not feed.arrived:
        tracing.note(f"the loader of {feed.source} gave nothing: it is empty, or drop_last= leaves out its only batch")


def _said(who: Who) -> str:
    names = ", ".join(map(repr, who.ids[:20])) + (", ..." if len(who.ids) > 20 else "")
    return f"batch {who.batch} ({names})" if who.batch is not None else f"item {names}"


def _arrived(tracing: Tracing, feed: Feed, data: Any, begun: int) -> None:
    try:
        took = time_ns() - begun
        who = _who(tracing, feed, data)
        feed.arrived += max(1, len(who.ids), feed.counted or 0)
        call = tracing.begin(_LOADER, {}, who, late=True)
        if call is not None:
            call.meta["took"] = took
            tracing.end(call, who, data)
        tracing.flow.carry(data, who)
        tracing.flow.arrived(who)
        if tracing.ring is not None:
            _let_go(tracing.ring, tracing, who)
    except Exception as error:
        trouble.report("loader", "a batch of a DataLoader was not recorded", "", error, internal=True)


def _who(tracing: Tracing, feed: Feed, data: Any) -> Who:
    drawn = feed.landed()
    carried = tracing.flow.known([data])
    if carried is not None and (drawn is None or drawn.batch == carried.batch):
        return carried
    if drawn is not None:
        return drawn
    rows = rows_in(data) or 1
    return Who((), "", tracing.flow.next_batch(), batched=rows > 1, lost="the loader was already going")


def _let_go(ring: Ring, tracing: Tracing, who: Who) -> None:
    """A trace without end holds on to nothing but the last batches, or items."""
    tracing._repeats.clear()
    tracing.flow.keep(lambda known: known == who or ring.holds(known))

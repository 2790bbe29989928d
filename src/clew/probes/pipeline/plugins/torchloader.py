"""torch's loaders, in the process that trains: which items are drawn, and which batches arrive."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import CO_GENERATOR, isgeneratorfunction
from itertools import count
from time import time_ns
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader

from clew import trouble
from clew.instrument.call_guard import attempt, call_once, leave_no_frames
from clew.probes.pipeline.carried_passages import Carried
from clew.probes.pipeline.flow import Who, rows_in
from clew.probes.pipeline.last_batches import Ring
from clew.probes.pipeline.loader_workers import Ticket, WorkerStart
from clew.probes.pipeline.plugins.rounds import Place, length_of, place_in_program, tell_length
from clew.probes.pipeline.plugins.torchfeed import Drawing, Feed, feeding
from clew.probes.pipeline.stage_functions import Spot, fixed
from clew.probes.pipeline.stages import Passer
from clew.probes.pipeline.trace_recording import PASSES, RanDry, Source, TraceOver, Tracing, current

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_LOADER = Spot("loader", "DataLoader.__next__", names=fixed(), result="batch", kind="loader", ours=True)

_feeds: weakref.WeakKeyDictionary[Any, Feed] = weakref.WeakKeyDictionary()  # by iterator
_PEEKS = 4  # passes over a loader of which none went to its end: looks at its first batch


def index_sampler(original: Any) -> Any:
    def sampler(get: Any, loader: DataLoader[Any]) -> Any:
        whole = get(loader)
        return whole if current() is None else Drawing(whole, loader)

    return property(_guarded(original.fget, sampler))


def _guarded(original: Any, shim: Callable[..., Any]) -> Callable[..., Any]:
    """A method in the place of torch's: the shim gets torch's to call; if it fails itself, torch's is called."""

    def method(*args: Any, **kwargs: Any) -> Any:
        try:
            return call_once(lambda once, args, kwargs: shim(once, *args, **kwargs), original, args, kwargs)
        except BaseException:
            leave_no_frames()
            raise

    return method


def length(original: Any) -> Any:
    def counted(original: Any, loader: DataLoader[Any]) -> int:
        whole, tracing = original(loader), current()
        if tracing is None or tracing.wanted is None:
            return int(whole)
        size = (tracing.batch_size or loader.batch_size or 1) if loader._auto_collation else 1
        return min(int(whole), -(-tracing.wanted // size))

    return _guarded(original, counted)


def iterating(original: Any, site: Site, prepare: Callable[[Site, Any], None]) -> Any:
    def passing(original: Any, loader: DataLoader[Any]) -> Any:
        tracing = current()
        if tracing is None:
            return original(loader)
        feed = _new_feed(tracing, loader)
        if feed is None:
            return iter(())
        prepare(site, loader.dataset)
        instrument_loader_class(site, type(loader))
        with _traced_workers(loader, tracing, site):
            token = feeding.set(feed)
            try:
                iterator = original(loader)
            finally:
                feeding.reset(token)
        with contextlib.suppress(TypeError):  # a subclass may give a generator
            _feeds[iterator] = feed
            if loader.num_workers:
                _unwrap(iterator)
        return iterator

    return _guarded(original, passing)


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
        if twin.__code__.co_flags & CO_GENERATOR:
            return _handed(tracing, given)
        _hand(tracing, given)
        return given


def _handed(tracing: Tracing, given: Iterator[Any]) -> Iterator[Any]:
    for data in given:
        _hand(tracing, data)
        yield data


@trouble.entry_point()
def _hand(tracing: Tracing, data: Any) -> None:
    who = tracing.flow.known([data]) if tracing.open else None
    if who is not None:
        tracing.flow.arrived(who)


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
        sent = take(own)
        if not isinstance(sent, Carried):
            return sent
        attempt(lambda: _feeds[own].note(sent))
        return _taken_out(sent)

    iterator._next_data = next_data


def _taken_out(sent: Carried) -> Any:
    if isinstance(sent.data, ExceptionWrapper):
        sent.data.reraise()  # type: ignore[no-untyped-call]
    return sent.data


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
    workers = loader.num_workers, type(loader.multiprocessing_context)
    kind = (type(loader.dataset), length_of(loader.dataset), loader.batch_size, type(loader.sampler), *workers)
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
    def passing(original: Any, iterator: Any) -> Any:
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

    guarded = _guarded(original, passing)

    def giving_plain(iterator: Any) -> Any:
        try:
            data = guarded(iterator)
        except BaseException:
            leave_no_frames()
            raise
        return _taken_out(data) if type(data) is Carried else data  # if it could not be done on the way: `_unwrap`

    return giving_plain


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

"""torch's loaders, in the process that trains: which items are drawn, and which batches arrive."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, IterableDataset

from clew import trouble
from clew.probes.pipeline.carried import Carried, unpacked
from clew.probes.pipeline.flow import Who, rows_in
from clew.probes.pipeline.spots import Spot, fixed, named_spot
from clew.probes.pipeline.tracing import PASSES, Source, Tracing, current
from clew.probes.pipeline.worker import Drawn, DrawnOne, Ticket, WorkerStart

if TYPE_CHECKING:
    from clew.probes.pipeline.plugins import Site

_LOADER = Spot("loader", "DataLoader.__next__", names=fixed(), result="batch", kind="loader", ours=True)

_feeding: ContextVar[Feed | None] = ContextVar("clew_feed", default=None)  # while a loader's iterator is being made
_feeds: weakref.WeakKeyDictionary[Any, Feed] = weakref.WeakKeyDictionary()  # by iterator
_loaders: weakref.WeakKeyDictionary[Any, dict[str, Feed]] = weakref.WeakKeyDictionary()  # by loader and trace


@dataclass(eq=False)
class Feed:
    """One pass over a loader: which items were drawn, and which batches have not come back yet."""

    tracing: Tracing
    source: str
    batched: bool
    in_order: bool = True
    wanted: int | None = None
    drawn: int = 0
    underway: deque[Who] = field(default_factory=deque)
    over: bool = False

    def draw(self, sampler: Any, indexed: bool) -> Iterator[Any]:
        """The indices of the sampler, no more than were asked for, each batch with its number."""
        groups = self._groups(iter(sampler))
        for indices in groups:
            number = self.tracing.flow.next_batch() if self.batched else None
            first, self.drawn = self.drawn, self.drawn + len(indices)
            ids = tuple(indices) if indexed else tuple(range(first, self.drawn))
            who = Who(ids, self.source, number, batched=self.batched)
            self._record(sampler, indices, who)
            self.underway.append(who)
            key = self.tracing.key
            yield Drawn.of(indices, who, key) if self.batched else DrawnOne(indices[0], who, key)

    def _groups(self, indices: Iterator[Any]) -> Iterator[list[Any]]:
        left = self.wanted
        size = self.tracing.batch_size if self.batched else None
        waiting: list[Any] = []
        while left is None or left > 0:
            group = next(indices, None)
            if group is None:
                break
            given = list(group) if self.batched else [group]
            given = given if left is None else given[:left]
            left = None if left is None else left - len(given)
            if size is None:
                yield given
                continue
            waiting += given
            while len(waiting) >= size:
                yield waiting[:size]
                waiting = waiting[size:]
        if waiting:
            yield waiting

    def _record(self, sampler: Any, indices: list[Any], who: Who) -> None:
        name = type(getattr(sampler, "sampler", sampler)).__name__
        spot = named_spot("sampler", f"{name}.__iter__", result="indices", kind="sampler")
        call = self.tracing.begin(spot, {}, who, late=True)
        if call is not None:
            self.tracing.end(call, who, indices if self.batched else indices[0])


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
        with _traced_workers(loader, tracing, site):
            token = _feeding.set(feed)
            try:
                iterator = original(loader)
            finally:
                _feeding.reset(token)
        with contextlib.suppress(TypeError):  # a subclass may give a generator
            _feeds[iterator] = feed
        return iterator

    return passing


def _new_feed(tracing: Tracing, loader: DataLoader[Any]) -> Feed | None:
    """A pass over a loader may begin; None, or the end of the block, if its items are through."""
    known = _loaders.setdefault(loader, {})
    before = known.get(tracing.key)
    source = before.source if before is not None else _source_name(tracing, loader)
    passes = tracing.sources[loader].passes if before is not None else 0
    if before is not None and before.over and (tracing.moved_on or passes >= PASSES) and tracing.wanted is not None:
        tracing.stop()
        return None
    tracing.sources[loader].passes = passes + 1
    feed = Feed(tracing, source, loader._auto_collation, getattr(loader, "in_order", True), tracing.wanted)
    known[tracing.key] = feed
    _tell_length(tracing, loader, source)
    return feed


def _source_name(tracing: Tracing, loader: DataLoader[Any]) -> str:
    name = type(loader.dataset).__name__
    taken = {source.name for source in tracing.sources.values()}
    number = 2
    while (source := name if number == 2 and name not in taken else f"{name}#{number}") in taken:
        number += 1
    tracing.sources[loader] = Source(source)
    return source


def _tell_length(tracing: Tracing, loader: DataLoader[Any], source: str) -> None:
    if tracing.wanted is None:
        return
    try:
        total: int | None = len(loader.dataset)  # type: ignore[arg-type]
    except Exception:  # no length, or a user's that fails
        total = None
    if total is not None and total <= tracing.wanted and tracing.batch_size is None:
        return
    of = f" of {total:,}" if total is not None else ""
    size = loader.batch_size if loader._auto_collation else None
    told = f"the loader of {source} gives {tracing.wanted:,}{of} items"
    if size is not None and tracing.batch_size not in (None, size):
        told += f", in batches of {tracing.batch_size} instead of {size}"
    elif size is not None and tracing.wanted % size:
        told += f", the last batch of {tracing.wanted % size} instead of {size}"
    tracing.altered(told)


@contextlib.contextmanager
def _traced_workers(loader: DataLoader[Any], tracing: Tracing, site: Site) -> Iterator[None]:
    """Workers started in here trace what they load."""
    if not loader.num_workers:
        yield
        return
    held = loader._iterator
    if held is not None and held not in _feeds:
        tracing.altered("workers that had been started before (persistent_workers) were set aside for new ones")
        loader._iterator = None
    if loader.persistent_workers:
        before = held if held is not None and held not in _feeds else None
        site.on_leaving(lambda: setattr(loader, "_iterator", before))
    own = loader.worker_init_fn
    loader.worker_init_fn = WorkerStart(own, Ticket.of(tracing))
    try:
        yield
    finally:
        loader.worker_init_fn = own


def giving(original: Any) -> Any:
    def passing(iterator: Any) -> Any:
        feed = _feeds.get(iterator)
        tracing = feed.tracing if feed is not None else current()
        if tracing is None or not tracing.open:
            return _uncarried(original(iterator), None)
        begun = time_ns()
        try:
            data = original(iterator)
        except StopIteration:
            _over(feed)
            raise
        except BaseException:
            _tell_underway(tracing, feed)
            raise
        data = _uncarried(data, tracing)
        _arrived(tracing, feed, iterator, data, begun)
        return data

    return passing


def _over(feed: Feed | None) -> None:
    if feed is not None:
        feed.over = True
        source = next((known for known in feed.tracing.sources.values() if known.name == feed.source), None)
        if source is not None:
            source.made = max(source.made, feed.drawn) or -1


def _tell_underway(tracing: Tracing, feed: Feed | None) -> None:
    """An error came instead of a batch: say what was being loaded."""
    if feed is not None and feed.underway:
        said = "; ".join(
            f"{'batch ' + str(who.batch) if who.batch is not None else 'item'} ({', '.join(map(repr, who.ids[:20]))})"
            for who in list(feed.underway)[:8]
        )
        tracing.note(f"when the loader of {feed.source} failed, these were being loaded: {said}")


def _uncarried(data: Any, tracing: Tracing | None) -> Any:
    """What a worker sent, without the passages that came along."""
    if not isinstance(data, Carried):
        return data
    if tracing is not None:
        for told in data.calls:
            tracing._write_end(unpacked(told, tracing.recorder))
    return data.data


def _arrived(tracing: Tracing, feed: Feed | None, iterator: Any, data: Any, begun: int) -> None:
    try:
        who = feed.underway.popleft() if feed is not None and feed.underway else None
        carried = tracing.flow.known([data])
        if carried is not None and (who is None or who.batch == carried.batch):
            who = carried
        if who is None:
            rows = rows_in(data) or 1
            who = Who((), "", tracing.flow.next_batch(), batched=rows > 1, lost="the loader was already going")
        elif feed is not None and not feed.in_order and iterator._num_workers > 1:
            who = replace(who, lost="with in_order=False it is not known which batch comes from which indices")
        who = _shortened(who, data)
        if feed is not None and feed.wanted is not None and feed.drawn >= feed.wanted and not feed.underway:
            feed.over = True
        took = time_ns() - begun
        call = tracing.begin(_LOADER, {}, who, late=True)
        if call is not None:
            call.meta["took"] = took
            tracing.end(call, who, data)
        tracing.flow.carry(data, who)
        tracing.flow.arrived(who)
        if tracing.ring is not None:
            tracing.flow.keep_batches({*tracing.ring.batches, who.batch})
    except Exception as error:
        trouble.report("loader", "a batch of a DataLoader was not recorded", "", error, internal=True)


def _shortened(who: Who, data: Any) -> Who:
    """An iterable dataset may have ended in the middle of a batch."""
    rows = rows_in(data) if who.batched else None
    if rows is not None and rows < len(who.ids) and all(type(id) is int for id in who.ids):
        return replace(who, ids=who.ids[:rows]) if who.ids == tuple(range(who.ids[0], who.ids[-1] + 1)) else who
    return who

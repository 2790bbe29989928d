"""One pass over a torch loader: which items are drawn from its sampler, and which batches have not come back yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from clew import trouble
from clew.probes.pipeline.carried_passages import Carried, unpacked
from clew.probes.pipeline.flow import Who, id_of
from clew.probes.pipeline.loader_workers import Drawn, DrawnOne
from clew.probes.pipeline.passage import StagedCall
from clew.probes.pipeline.plugins.rounds import Place
from clew.probes.pipeline.stage_functions import named_spot
from clew.probes.pipeline.trace_recording import Tracing, current

feeding: ContextVar[Feed | None] = ContextVar("clew_feed", default=None)  # while a loader's iterator is being made


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
    pending: list[Any] = field(default_factory=list)  # what the sampler gave and the loader has not got yet
    sampler_error: Exception | None = None

    def draw(self, sampler: Any, indexed: bool) -> Iterator[Any]:
        """The indices of the sampler, no more than were asked for, each batch with its number."""
        indices = iter(sampler)
        try:
            self.indexed = indexed
            for index in self._groups(sampler, indices):
                yield self._drawn(sampler, index) if self.tracing.open else index
            return
        except Exception as error:
            if error is self.sampler_error:
                raise
            trouble.failed(error, "the drawing of items")
        yield from self.pending
        yield from indices

    @trouble.entry_point(otherwise=lambda feed, sampler, index: index)
    def _drawn(self, sampler: Any, index: Any) -> Any:
        batched = self.batched or type(index) is list  # a sampler may give whole batches to a loader that makes none
        indices = index if batched else [index]
        first, self.drawn = self.drawn, self.drawn + len(indices)
        ids = tuple(map(id_of, indices)) if self.indexed else tuple(range(first, self.drawn))
        who = Who(ids, self.source, self.tracing.flow.next_batch() if batched else None, batched=batched)
        if self.indexed:
            self._record(sampler, index, who)
        self.underway.append(who)
        key = self.tracing.key
        return Drawn.of(indices, who, key) if self.batched else DrawnOne(index, who, key)

    def _groups(self, sampler: Any, indices: Iterator[Any]) -> Iterator[Any]:
        """What the sampler gives, until there are enough, and in batches of another size if that was asked for."""
        left = self.wanted
        waiting: list[Any] = []
        size = self.tracing.batch_size if self.batched else None
        while left is None or left > 0 or not self.tracing.open:
            try:
                group: Any = next(indices, _NOTHING)
            except Exception as error:
                self.sampler_error = error
                raise
            if group is _NOTHING:
                break
            self.pending.append(group)
            if self.batched or type(group) is list:
                whole = list(group)
                group = whole if left is None or not self.tracing.open else whole[:left]
                left = None if left is None else left - len(group)
                if len(group) < len(whole) and size is None:
                    self.tracing.cut_batch = (len(group), len(whole))
                if len(group) < len(whole) and size is None and getattr(sampler, "batch_size", None) is None:
                    cut = f"the last batch of {len(group)} instead of {len(whole)}"
                    self.tracing.altered(f"the loader of {self.source} gives {cut}")
            else:
                left = None if left is None else left - 1
            if size is None:
                self.pending.clear()
                yield group
                continue
            waiting += group
            while len(waiting) >= size:
                group, waiting = waiting[:size], waiting[size:]
                self.pending = [waiting] if waiting else []
                yield group
        if waiting:
            self.pending.clear()
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

    def note(self, sent: Carried) -> None:
        """What came along with a batch from a worker."""
        if not self.tracing.open:
            return
        self.came = sent
        for told in sent.calls:
            call = unpacked(told, self.tracing.recorder)
            self.tracing.failed = self.tracing.failed or (call if call.error is not None else None)
            self.tracing._write_end(call)

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
        try:
            feed = feeding.get()
            if feed is not None and feed.tracing.open:
                return feed.draw(self.sampler, self._indexed)
        except Exception as error:
            trouble.failed(error, "the drawing of items")
        return iter(self.sampler)

    def __len__(self) -> int:
        return self._shortened(len(self.sampler))

    @trouble.entry_point(otherwise=lambda drawing, count: count)
    def _shortened(self, count: int) -> int:
        tracing = current()
        if tracing is None or tracing.wanted is None:
            return count
        size = (tracing.batch_size if self._batched else None) or self._size or 1
        return min(count, -(-tracing.wanted // size))


def _said(who: Who) -> str:
    names = ", ".join(map(repr, who.ids[:20])) + (", ..." if len(who.ids) > 20 else "")
    return f"batch {who.batch} ({names})" if who.batch is not None else f"item {names}"

"""Tables on their way through steps: which of their rows are the items, and where those are after each step.

A table passes as a whole, as it must: a scaler fitted on three rows would say nothing true. Only the rows of the items
are captured. They are followed by the labels of an index where there is one, by their places where the number of rows
stays the same; where neither leads on, that is said, and nothing is guessed.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from time import time_ns
from typing import Any
from weakref import WeakKeyDictionary, ref

from clew import trouble
from clew.probes.pipeline.flow import Who
from clew.probes.pipeline.passage import StagedCall
from clew.probes.pipeline.stage_functions import Spot
from clew.probes.pipeline.trace_recording import Source, Tracing
from clew.recorder.quiet_threads import QUIET

from .cutting import alike, count_of, cut, index_of, is_moved

ORIGINS = 10  # tables that bring items of their own: a search over parameters cuts its table in ever new ways
_ENDLESS = 100  # rows shown where no number was asked for: keep="last batch"
_SEEN = 20  # tables of an origin that another one is compared with
_SAMPLE = 64  # rows by which a table without labels is known again
_PLAIN = (str, bytes, int, float, date, timedelta)  # labels that are known by their looks


@dataclass(frozen=True, slots=True)
class Rows:
    """Where in a table the items are."""

    who: Who
    places: tuple[int, ...]  # of the rows that are shown; those of `who.ids`, unless they are lost
    count: int  # of all rows
    labels: tuple[Hashable, ...] | None = None  # of the rows, in this table; None if it has none to go by

    @property
    def lost(self) -> bool:
        return not self.who.ids and bool(self.who.lost)


@dataclass(slots=True)
class _Origin:
    """A table that brought items, and what was seen of them."""

    rows: Rows
    sample: Any  # rows from all over the table
    seen: deque[tuple[tuple[Hashable, ...] | None, Any]] = field(default_factory=lambda: deque(maxlen=_SEEN))


class Tables:
    """The tables of one trace."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Callable[[], Any], Rows]] = {}
        self._origins: list[_Origin] = []
        self._of_one: set[str] = set()  # what was called for one item: without one, it is called for an item beyond

    def known(self, table: Any) -> Rows | None:
        """The rows of a table that has been met, as the very object."""
        entry = self._known.get(id(table))
        return entry[1] if entry is not None and entry[0]() is table else None

    def remember(self, table: Any, rows: Rows) -> None:
        """From now on it is known. It is not kept alive for that: a trace must not fill the memory."""
        try:
            held: Callable[[], Any] = ref(table)
        except TypeError:
            if type(table) not in (list, tuple):
                return
            held = lambda: table  # noqa: E731  (a list; there is no weak reference to one)
        self._known[id(table)] = held, rows
        for origin in self._origins:
            if origin.rows.who.source == rows.who.source and not rows.lost:
                origin.seen.append((rows.labels, cut(table, rows.places)))

    def arrive(self, tracing: Tracing, table: Any, name: str) -> Rows | None:
        """The items in a table that comes from outside; None if there were too many such tables."""
        count = count_of(table)
        if count is None:
            lost = f"what {name} was given is no table whose rows are known"
            return Rows(Who((), name, lost=lost), (), 0)
        found = self.known(table) or _of_scope(tracing, table, count)
        if found is None:
            found = next(filter(None, (_again(origin, table, count) for origin in self._origins)), None)
        if found is None:
            found = self._new(tracing, table, count, name)
        if found is not None:
            self.remember(table, found)
            if found.who.single:
                self._of_one.add(name)
        return found

    def _new(self, tracing: Tracing, table: Any, count: int, name: str) -> Rows | None:
        if tracing.went_beyond and name in self._of_one:
            return None
        if tracing.ring is not None:
            del self._origins[:-1]  # the last ones are wanted, however many there were
        elif len(self._origins) >= ORIGINS:
            tracing.note(f"more than {ORIGINS} tables came into {name} and the like; the first are here")
            return None
        places = tuple(range(min(asked(tracing), count)))
        labels = _labels(table, places)
        ids = _ids(tracing, table, places, labels)
        name = self._named(name) if tracing.ring is None else name
        who = Who(ids, name, tracing.flow.next_batch(), batched=True)
        rows = Rows(who, places, count, labels)
        self._origins.append(_Origin(rows, _sample(table, count)))
        if tracing.ring is None:
            tracing.sources[Tables, name] = Source(name, made=len(places))
        return rows

    def _named(self, name: str) -> str:
        taken_names = {origin.rows.who.source for origin in self._origins}
        numbered = (f"{name}#{number}" for number in range(2, ORIGINS + 2))
        return name if name not in taken_names else next(other for other in numbered if other not in taken_names)


_tables: WeakKeyDictionary[Tracing, Tables] = WeakKeyDictionary()
_here: ContextVar[Rows | None] = ContextVar("clew_rows", default=None)


def tables(tracing: Tracing) -> Tables:
    return _tables.setdefault(tracing, Tables())


def asked(tracing: Tracing) -> int:
    return tracing.wanted if tracing.wanted is not None else _ENDLESS


def _of_scope(tracing: Tracing, table: Any, count: int) -> Rows | None:
    """A table that is made of one item, or of a batch, by whoever works on that just now."""
    scope, here = tracing.flow.scope, _here.get()
    if scope is None or not scope.ids or (here is not None and here.who is scope):
        return None
    if scope.single:
        return Rows(scope, tuple(range(min(asked(tracing), count))), count)
    if len(scope.ids) == count:
        places = tuple(range(count))
        return Rows(scope, places, count, _labels(table, places))
    return None


def _labels(table: Any, places: tuple[int, ...]) -> tuple[Hashable, ...] | None:
    """The labels of these rows, if each of them is the label of one row only."""
    index = index_of(table)
    if index is None:
        return None
    labels = tuple(index[list(places)].tolist())
    if not all(_is_plain(label) for label in labels) or int(index.isin(list(labels)).sum()) != len(labels):
        return None
    return labels


def _is_plain(label: Any) -> bool:
    if type(label) is tuple:
        return all(_is_plain(part) for part in label)
    return isinstance(label, _PLAIN) and label == label  # NaN labels nothing


def _ids(
    tracing: Tracing, table: Any, places: tuple[int, ...], labels: tuple[Hashable, ...] | None
) -> tuple[Hashable, ...]:
    """What the items are called: as `id=` says, else the labels, else the numbers of the rows."""
    usual = labels if labels is not None else places
    if tracing.id is None:
        return usual
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or not isinstance(table, pandas.DataFrame):
        return usual
    try:
        if isinstance(tracing.id, str):
            return tuple(table[tracing.id].iloc[list(places)].tolist())
        with QUIET:
            return tuple(tracing.id(table.iloc[place]) for place in places)
    except Exception as error:
        tracing.note(f"id= does not fit the rows of a table ({type(error).__name__}); they go by the index")
        return usual


def _again(origin: _Origin, table: Any, count: int) -> Rows | None:
    """The items of an origin in another table, if it holds them: the same labels (or places), and the same content."""
    rows = origin.rows
    labels = rows.labels if index_of(table) is not None else None
    if labels is None:
        if rows.labels is not None or index_of(table) is not None or rows.count != count:
            return None
        return rows if alike(_sample(table, count), origin.sample) else None
    found = _at(table, labels)
    if found is None or any(len(places) > 1 for places in found.values()):
        return None
    there = [(number, label) for number, label in enumerate(labels) if label in found]
    places = tuple(found[label][0] for _, label in there)
    shown, wanted = cut(table, places), [label for _, label in there]
    for known, seen in origin.seen:
        if known is not None and set(wanted) <= set(known):
            same = cut(seen, [known.index(label) for label in wanted])
            if alike(shown, same):
                ids = tuple(rows.who.ids[number] for number, _ in there)
                return Rows(replace(rows.who, ids=ids), places, count, tuple(wanted))
    return None


def _sample(table: Any, count: int) -> Any:
    """The first rows and others from all over the table: what tells two tables without labels apart."""
    return cut(table, [*range(min(_SAMPLE, count)), *range(0, count, max(1, count // _SAMPLE))])


def _at(table: Any, labels: tuple[Hashable, ...]) -> dict[Hashable, list[int]] | None:
    """By label: the places of its rows. None if there are none at all."""
    index = index_of(table)
    places = index.isin(list(labels)).nonzero()[0].tolist()
    found: dict[Hashable, list[int]] = {}
    for place, label in zip(places, index[places].tolist(), strict=True):
        if label in labels:
            found.setdefault(label, []).append(place)
    return found or None


# ---- after a step


def follow(rows: Rows, given: Any, made: Any) -> Rows:
    """Where the items are in what a step made of a table."""
    count = count_of(made)
    if count is None:
        return rows
    if rows.lost:
        return replace(rows, count=count, places=tuple(range(min(len(rows.places), count))), labels=None)
    index, before = index_of(made), index_of(given)
    is_new = before is not None and index is not None and _is_new(index, before, rows, given, made)
    if rows.labels is not None and index is not None and not is_new:
        found = _at(made, rows.labels)
        if found is not None or count != rows.count:
            return _by_label(rows, found or {}, count)
    if count != rows.count:
        return _lost(rows, count, f"{rows.count:,} rows went in, {count:,} came out, and nothing says which are which")
    if before is not None and index is not None:
        if rows.labels is None and not is_new and not index.equals(before):
            return _lost(rows, count, "several rows have the same label, and the labels are in another order")
        if is_moved(given, made, rows.places):
            return _lost(rows, count, "the rows are in another order, and counted anew")
    return replace(rows, labels=None if index is None else _labels(made, rows.places))


def _lost(rows: Rows, count: int, why: str) -> Rows:
    places = tuple(range(min(len(rows.places), count)))
    return Rows(replace(rows.who, ids=(), lost=why), places, count)


def _by_label(rows: Rows, found: dict[Hashable, list[int]], count: int) -> Rows:
    assert rows.labels is not None
    kept = [
        (id, label, place)
        for id, label in zip(rows.who.ids, rows.labels, strict=True)
        for place in found.get(label, ())
    ]
    ids = tuple(id for id, _, _ in kept)
    before = rows.who.ids
    several = [f"{id!r} has {ids.count(id)} rows" for id in dict.fromkeys(ids) if ids.count(id) > before.count(id)]
    lost = f"item {', '.join(several)} in what came out" if several else ""
    if not ids:
        lost = "none of the items has a row in what came out"
    who = replace(rows.who, ids=ids, lost=lost)
    labels = None if several else tuple(label for _, label, _ in kept)  # a label of several rows leads to none of them
    return Rows(who, tuple(place for _, _, place in kept), count, labels)


def _is_new(index: Any, before: Any, rows: Rows, given: Any, made: Any) -> bool:
    """Whether an index does not say where rows come from: counted anew, or made of a column."""
    if _is_counted(index) and _is_counted(before) and len(index) == len(before):
        return True  # it would look the same if it were; by their places the rows are found as well
    if index is before or index.equals(before):
        return False
    if list(index.names) != list(before.names):
        return True
    if not _is_counted(index):
        return False
    if not _is_counted(before):
        return True
    # The first rows of it, or others counted from 0: what is in them tells.
    if rows.labels is None:
        return True
    found = _at(made, rows.labels) or {}
    there = [number for number, label in enumerate(rows.labels) if label in found]
    places = [found[rows.labels[number]][0] for number in there]
    return not alike(cut(given, [rows.places[number] for number in there]), cut(made, places))


def _is_counted(index: Any) -> bool:
    pandas: Any = sys.modules["pandas"]
    return isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1


# ---- recording


def settled(rows: Rows) -> Rows:
    """As the next step gets them: which items have gone was said where they went; of the others all is known."""
    return replace(rows, who=replace(rows.who, lost="")) if rows.who.ids and rows.who.lost else rows


def shown(table: Any, rows: Rows) -> Any:
    """What is captured of a table, or of whatever goes along with it row by row."""
    return cut(table, rows.places) if count_of(table) == rows.count else table


def passing(
    tracing: Tracing,
    spot: Spot,
    named: dict[str, Any],
    rows: Rows,
    original: Callable[[], Any],
    given: Callable[[Any], tuple[Rows, dict[str, Any]]],
) -> Any:
    """Make a call that a table passes in. `given`: of the result, where the items are in it, and what is captured."""
    call = tracing.begin(spot, named, rows.who)
    if call is None:
        return original()
    if rows.count > len(rows.places):
        call.meta["rows"] = rows.count
    call.stand_here()
    try:
        with tracing.flow.within(rows.who), _within(rows):
            result = original()
    except BaseException as error:
        call.step_aside()
        tracing.fail(call, error)
        raise
    call.step_aside()
    call.ended = time_ns()
    who, outputs = rows.who, dict[str, Any]()
    try:
        after, outputs = given(result)
        who = _said(tracing, call, rows, after)
    except Exception as error:
        name = spot.function
        trouble.report(f"stage-end:{name}", f"what {name} gave was not recorded", "", error, internal=True)
    tracing.end(call, who, None, outputs)
    return result


def _said(tracing: Tracing, call: StagedCall, rows: Rows, after: Rows) -> Who:
    """Write down what has become of the items; whose the result is."""
    if after.who.lost and not rows.who.lost:
        call.meta["lost"] = after.who.lost
    gone = [repr(id) for id in rows.who.ids if id not in after.who.ids]
    if gone and after.who.ids:
        tracing.note(f"{call.stage}: {', '.join(gone)} {'has' if len(gone) == 1 else 'have'} no row in what came out")
    if after.lost or (after.who.ids != rows.who.ids and len(after.places) == len(rows.places)):
        # As many rows as items, but not theirs: a reader must not take the one for the other.
        call.meta.pop("by_row", None)
        return replace(after.who, ids=())
    return after.who


@contextmanager
def _within(rows: Rows) -> Iterator[None]:
    token = _here.set(rows)
    try:
        yield
    finally:
        _here.reset(token)


__all__ = ["Rows", "Tables", "asked", "follow", "passing", "settled", "shown", "tables"]

"""All shards of a run as one table of changes.

A row's number is its place in the shards laid end to end. Every query is a numpy mask over one column, so ten million
changes cost tens of milliseconds a question and no Python object each.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.history.lazy import Rows
from clew.history.naming import Naming
from clew.records import DELETED, Function, Kept, Kind, NotKept, Site, Summary, Value
from clew.store.columns import FEW
from clew.store.format import NO_STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from clew.store.shard import ShardReader

Column = npt.NDArray[Any]

UNKNOWN = -1  # the name of a row whose site has an id no writer gives out
_FEW_SITES = 16  # so many searches are faster than writing down where every row is
ASKED_OFTEN = 4  # names asked for one by one before sorting all rows by name pays
STEP = -2  # the name of a row that carries a step and is no change people see
INPUT, OUTPUT = -3, -4  # likewise: an argument, a result
ITEM = -5  # likewise: which items of a pipeline the call was about
_HIDDEN = {"step": STEP, "input": INPUT, "output": OUTPUT, "item": ITEM}


class Table:
    """The changes of a run, as they stood when it was opened or last refreshed."""

    def __init__(self, shards: Sequence[ShardReader], start_ns: int) -> None:
        self.shards = list(shards)
        self.start_ns = start_ns
        # Taken once: a live shard grows by making new columns, and rows must keep their numbers.
        self.changes = [shard.changes for shard in self.shards]
        self.lengths = [len(changes) for changes in self.changes]
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)]).astype(np.int64)
        self._rows: dict[str, Rows] = {}

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def column(self, shard: int, name: str) -> Column:
        """One column of one shard, as it was when the table was made."""
        return self.changes[shard].column(name)

    def gather(self, name: str, rows: Rows) -> Column:
        """A column's cells at these rows, wherever their shards are."""
        if len(self.shards) == 1:
            return self.changes[0].gather(name, rows)
        where = self.shard_of(rows)
        parts = [(where == shard, shard) for shard in np.unique(where).tolist()]
        out: Column | None = None
        for mask, shard in parts:
            cells = self.changes[shard].gather(name, rows[mask] - self.offsets[shard])
            if out is None:
                out = np.empty(len(rows), dtype=cells.dtype)
            out[mask] = cells
        return np.empty(0, dtype=np.int64) if out is None else out

    def shard_of(self, rows: Rows) -> Rows:
        """Which shard each row is in."""
        return np.searchsorted(self.offsets, rows, side="right").astype(np.int64) - 1

    def by_shard(self, rows: Rows) -> Iterator[tuple[int, Rows | slice]]:
        """Each shard these rows are in, and where they stand among them."""
        if len(self.shards) == 1:
            yield 0, slice(None)
            return
        where = self.shard_of(rows)
        for shard in np.unique(where).tolist():
            yield shard, np.flatnonzero(where == shard)

    # ---- names

    @cached_property
    def naming(self) -> Naming:
        """What the series are called: `loss`, or `train.loss` and `valid.loss`."""
        return Naming(self.shards)

    @cached_property
    def _known(self) -> dict[str, int]:
        """Every series, numbered; also of sites that never saw a change."""
        return {name: number for number, name in enumerate(self.naming.origins)}

    @cached_property
    def _name_of_site(self) -> list[npt.NDArray[np.int32]]:
        """By shard: site id → number of its series. The last cell is for ids out of range."""
        return [self._site_table(number, shard) for number, shard in enumerate(self.shards)]

    def _site_table(self, number: int, shard: ShardReader) -> npt.NDArray[np.int32]:
        sites = {id: site for id, site in shard.sites.items() if id >= 0}
        table = np.full(max(sites, default=-1) + 2, UNKNOWN, dtype=np.int32)
        for id, site in sites.items():
            seen = site.role == "value"
            table[id] = self._known[self.naming.label(number, id)] if seen else _HIDDEN.get(site.role, UNKNOWN)
        return table

    def names_in(self, shard: int) -> npt.NDArray[np.int32]:
        """The number of the series of every row of a shard."""
        return look_up(self._name_of_site[shard], self.column(shard, "site"))

    def rows_that_are(self, shard: int, code: int) -> Rows:
        """Rows (within the shard) that carry something people do not see as a change: `STEP`, `INPUT`, `ITEM`."""
        return self._rows_at(shard, self._name_of_site[shard] == code)

    def _rows_at(self, shard: int, wanted: npt.NDArray[np.bool_]) -> Rows:
        """Rows (within the shard) whose sites are wanted: the question is put to the sites, which are few."""
        sites = np.flatnonzero(wanted[:-1])
        if len(sites) <= FEW:
            return self.changes[shard].rows_of(sites.tolist())
        return np.flatnonzero(look_up(wanted, self.column(shard, "site"))).astype(np.int64, copy=False)

    def names_at(self, rows: Rows) -> Column:
        """The number of the series of each of these rows."""
        if len(self.shards) == 1:
            return look_up(self._name_of_site[0], self.column(0, "site")[rows])
        names = np.full(len(rows), UNKNOWN, dtype=np.int32)
        where = self.shard_of(rows)
        for shard in np.unique(where).tolist():
            mask = where == shard
            sites = self.column(shard, "site")[rows[mask] - self.offsets[shard]]
            names[mask] = look_up(self._name_of_site[shard], sites)
        return names

    def is_named(self, rows: Rows, name: str) -> npt.NDArray[np.bool_]:
        """Which of these rows are of series of this name, bare or not."""
        return np.isin(self.names_at(rows), [self._known[label] for label in self.naming.matching(name)])

    @cached_property
    def first_seen(self) -> dict[str, int]:
        """series → time (ns) of its first change, in that order: the names of the run."""
        never = np.iinfo(np.int64).max
        first = np.full(len(self._known), never, dtype=np.int64)
        for shard, names in enumerate(self._name_of_site):
            rows = self._scanned[shard].first
            there = np.flatnonzero((rows >= 0) & (names[:-1] >= 0))
            there = there[np.argsort(rows[there])]
            times = self.changes[shard].take(rows[there]).time
            np.minimum.at(first, names[there], times)
        known = list(self._known)
        order = np.argsort(first, kind="stable")
        order = order[first[order] != never]
        return {known[number]: time for number, time in zip(order.tolist(), first[order].tolist(), strict=True)}

    @cached_property
    def _scanned(self) -> list[Scan]:
        return [scan(self.column(shard, "site"), len(table) - 1) for shard, table in enumerate(self._name_of_site)]

    @property
    def names(self) -> list[str]:
        return list(self.first_seen)

    @cached_property
    def counts(self) -> dict[str, int]:
        """series → how often it changed, in the order of `names`."""
        totals = np.zeros(len(self._known), dtype=np.int64)
        for names, scanned in zip(self._name_of_site, self._scanned, strict=True):
            seen = names[:-1] >= 0
            np.add.at(totals, names[:-1][seen], scanned.total[seen])
        return {name: int(totals[self._known[name]]) for name in self.first_seen}

    # ---- rows

    def rows_of(self, name: str) -> Rows:
        """The rows of a series, in order of time."""
        if name not in self._known:
            return np.empty(0, dtype=np.int64)
        if name not in self._rows and len(self._rows) >= ASKED_OFTEN:
            self._group()
        if name not in self._rows:
            wanted = self._known[name]
            self._rows[name] = self._in_time(self._select(lambda names: names == wanted))
        return self._rows[name]

    def rows_of_all(self, names: Iterable[str]) -> Rows:
        """The rows of several series, in order of time."""
        none = np.empty(0, dtype=np.int64)
        return self._in_time(np.sort(np.concatenate([none, *(self.rows_of(name) for name in names)])))

    def _group(self) -> None:
        """The rows of every name at once: one sort costs what a few names cost one by one."""
        rows = self.all_rows
        names = self.names_at(rows)
        if len(self._known) < 1 << 16:
            names = names.astype(np.uint16)  # NumPy sorts short integers by radix, in a tenth of the time
        ordered = rows[np.argsort(names, kind="stable")]
        ends = np.cumsum(np.bincount(names, minlength=len(self._known))).tolist()
        for begin, end, name in zip([0, *ends], ends, self._known, strict=False):
            self._rows.setdefault(name, ordered[begin:end])

    @cached_property
    def all_rows(self) -> Rows:
        """Every row that is a change people see, in order of time."""
        return self._in_time(self._select(lambda names: names >= 0))

    def _select(self, wanted: Any) -> Rows:
        parts = [self._rows_at(shard, wanted(names)) for shard, names in enumerate(self._name_of_site)]
        if len(parts) == 1:
            return parts[0]
        shifted = [rows + offset for rows, offset in zip(parts, self.offsets.tolist(), strict=False)]
        return np.concatenate([np.empty(0, dtype=np.int64), *shifted])

    def seen(self, shard: int, rows: Rows | slice) -> npt.NDArray[np.bool_]:
        """Which of these rows of a shard are changes people see."""
        names = look_up(self._name_of_site[shard], self.column(shard, "site")[rows])
        return np.asarray(names >= 0, dtype=np.bool_)

    @cached_property
    def _is_in_time(self) -> bool:
        """Whether all rows are in order of time as they are: a single process writes them so."""
        return len(self.shards) == 1 and self.changes[0].is_sorted("time")

    def _in_time(self, rows: Rows) -> Rows:
        if self._is_in_time:
            return rows
        times = self.gather("time", rows)
        if is_sorted(times):
            return rows
        return rows[np.argsort(times, kind="stable")]

    def names_of(self, rows: Rows) -> list[str]:
        """The name of each row."""
        return self._per_site(rows, lambda shard, site: site.name, "?", object)

    def series_of(self, rows: Rows) -> list[str]:
        """The series each row belongs to."""
        known = list(self._known)
        return [known[number] for number in self.names_at(rows).tolist()]

    def by_name(self, rows: Rows) -> dict[str, list[Any]]:
        """name → its values among these rows of one call; names in the order they come, values too."""
        numbers = self.names_at(rows)
        bare = [origin.name for origin in self.naming.origins.values()]
        found, first = np.unique(numbers, return_index=True)
        ordered = found[np.argsort(first)].tolist()
        return {bare[number]: self.values(rows[numbers == number]) for number in ordered}

    def place(self, row: int) -> tuple[int, int]:
        """(shard, row within it)."""
        shard = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return shard, row - int(self.offsets[shard])

    def lines(self, rows: Rows) -> list[int]:
        """The source line of each row."""
        return self._per_site(rows, lambda shard, site: site.line, 0, np.int64)

    def functions(self, rows: Rows) -> list[str]:
        """The qualified name of the function each row happened in."""
        return self._per_site(rows, self._function_name, "?", object)

    def happened_in(self, rows: Rows, functions: set[tuple[str, str]]) -> list[bool]:
        """Whether each row happened in one of these functions, which are given by module and name."""

        def inside(shard: int, site: Site) -> bool:
            function = self.shards[shard].functions[site.function]
            return (function.module, function.name) in functions

        return self._per_site(rows, inside, False, np.bool_)

    def ranks(self, rows: Rows) -> list[int]:
        """The rank of the process each row was written by."""
        by_shard = np.array([shard.rank for shard in self.shards], dtype=np.int64)
        ranks: list[int] = by_shard[self.shard_of(rows)].tolist()
        return ranks

    def _function_name(self, shard: int, site: Site) -> str:
        return self.shards[shard].functions[site.function].name

    def _per_site(self, rows: Rows, ask: Callable[[int, Site], Any], unknown: Any, dtype: Any) -> list[Any]:
        """What is asked of each row's site; asked once a site."""
        out = np.full(len(rows), unknown, dtype=dtype)
        where = self.shard_of(rows)
        for shard in np.unique(where).tolist():
            mask = where == shard
            sites = self.shards[shard].sites
            ids, back = distinct(self.column(shard, "site")[rows[mask] - self.offsets[shard]])
            answers = np.full(len(ids), unknown, dtype=dtype)
            for place, id in enumerate(ids.tolist()):
                answers[place] = ask(shard, sites[id]) if id in sites else unknown
            out[mask] = answers[back]
        result: list[Any] = out.tolist()
        return result

    def places(self, rows: Rows) -> list[tuple[str, str, int]]:
        """(function, file, line) of every place these rows come from, the busiest first."""
        found: Counter[tuple[str, str, int]] = Counter()
        for site, function, count in self._sites_of(rows):
            found[function.name, function.file, site.line] += count
        return [place for place, _ in found.most_common()]

    def functions_of(self, name: str) -> list[Function]:
        """The functions in which this bare name changed."""
        rows = [self.rows_of(label) for label in self.naming.named(name)]
        return list({(f.module, f.name): f for one in rows for _, f, _ in self._sites_of(one)}.values())

    def _sites_of(self, rows: Rows) -> Iterator[tuple[Site, Function, int]]:
        """Every site these rows come from, its function, and how many of them."""
        where = self.shard_of(rows)
        for shard in np.unique(where).tolist():
            reader = self.shards[shard]
            ids, back = distinct(self.column(shard, "site")[rows[where == shard] - self.offsets[shard]])
            for id, count in zip(ids.tolist(), np.bincount(back, minlength=len(ids)).tolist(), strict=True):
                site = reader.sites[id]
                yield site, reader.functions[site.function], count

    def times(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Seconds since the run began."""
        return (self.gather("time", rows) - self.start_ns) / 1e9

    def times_error(self, rows: Rows) -> npt.NDArray[np.float64]:
        """By how many seconds each time may be wrong; NaN where a file of the first format does not tell."""
        errors = self.gather("time_error", rows)
        return np.where(errors == NO_STEP, np.nan, errors / 1e9)

    def ordinals(self, rows: Rows) -> Rows:
        """For each row, how many changes of its series came before it in the run."""
        out = np.zeros(len(rows), dtype=np.int64)
        names = self.names_at(rows)
        by_number = list(self._known)
        for number in np.unique(names).tolist():
            if number >= 0:
                mask = names == number
                out[mask] = places(self.rows_of(by_number[number]), rows[mask])
        return out

    # ---- values

    def values(self, rows: Rows, unread: Any = None) -> list[Any]:
        """What the names held, read back; those of the value table left as `unread` if that is given."""
        kinds = self.gather("kind", rows)
        numbers = self.gather("number", rows)
        if len(rows) and bool(np.all(kinds == Kind.FLOAT)):
            floats: list[Any] = numbers.tolist()
            return floats
        out = np.empty(len(rows), dtype=object)
        for kind, dtype in ((Kind.FLOAT, np.float64), (Kind.INT, np.int64), (Kind.BOOL, np.bool_)):
            mask = kinds == kind
            if dtype is np.int64:
                mask &= np.isfinite(numbers)
            out[mask] = numbers[mask].astype(dtype)
        out[kinds == Kind.DELETED] = DELETED
        result: list[Any] = out.tolist()
        for place in np.flatnonzero((kinds > max(Kind)) | ((kinds == Kind.INT) & ~np.isfinite(numbers))).tolist():
            result[place] = NotKept("unknown", Kept.OPAQUE, "damaged: its row makes no sense", Summary())
        pointing = np.flatnonzero(kinds == Kind.VALUE)
        back = self._read_back(rows[pointing]) if unread is None else [unread] * len(pointing)
        for place, value in zip(pointing.tolist(), back, strict=True):
            result[place] = value
        return result

    def value(self, row: int) -> Any:
        return self.values(np.array([row], dtype=np.int64))[0]

    def _read_back(self, rows: Rows) -> list[Any]:
        from clew.values import decode

        return [decode(value) for value in self.stored(rows)]

    def stored(self, rows: Rows) -> list[Value]:
        """The written form of the values these rows point to."""
        ids = self.gather("value", rows)
        where = self.shard_of(rows)
        found: dict[int, Value] = {}
        for shard in np.unique(where).tolist():
            places = np.flatnonzero(where == shard)
            found.update(zip(places.tolist(), self.shards[shard].values(ids[places].tolist()), strict=True))
        return [found[place] for place in range(len(rows))]

    def stored_bytes(self, rows: Rows) -> npt.NDArray[np.int64]:
        """How many bytes reading each row's value takes; 0 for a plain number."""
        sizes = np.zeros(len(rows), dtype=np.int64)
        pointing = np.flatnonzero(self.gather("kind", rows) == Kind.VALUE)
        if len(pointing):
            ids, where = self.gather("value", rows[pointing]), self.shard_of(rows[pointing])
            for shard in np.unique(where).tolist():
                mine = where == shard
                sizes[pointing[mine]] = self.shards[shard].stored_bytes(ids[mine])
        return sizes

    def decoded(self, shard: int, id: int) -> Any:
        """A value by its id: an argument or a result."""
        from clew.values import decode

        return decode(self.shards[shard].value(id))

    def numbers(self, rows: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The rows' plain numbers, and which rows have one (the others read NaN)."""
        kinds = self.gather("kind", rows)
        plain = (kinds == Kind.FLOAT) | (kinds == Kind.INT) | (kinds == Kind.BOOL)
        found = self.gather("number", rows)
        return found if bool(plain.all()) else np.where(plain, found, np.nan), plain

    def single_numbers(self, rows: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The numbers in the rows' arrays and scalars of one element, and which rows have such."""
        found, there = np.full(len(rows), np.nan), np.zeros(len(rows), np.bool_)
        pointing = np.flatnonzero(self.gather("kind", rows) == Kind.VALUE)
        ids, where = self.gather("value", rows[pointing]), self.shard_of(rows[pointing])
        for shard in np.unique(where).tolist():
            mine = pointing[where == shard]
            found[mine], there[mine] = self.shards[shard].single_numbers(ids[where == shard].tolist())
        return found, there


def is_sorted(column: Column) -> bool:
    return len(column) < 2 or bool(np.all(column[1:] >= column[:-1]))


def look_up(table: Column, ids: Column) -> Column:
    """`table[ids]`, where an id out of range reads the table's last cell (also a negative one, seen as unsigned)."""
    if len(table) == 0:
        return np.zeros(len(ids), dtype=table.dtype)
    unsigned = ids.view(np.uint32) if ids.dtype == np.int32 else ids.astype(np.uint64)
    if len(ids) and int(unsigned.max()) >= len(table):
        unsigned = np.minimum(unsigned, len(table) - 1)
    return table[unsigned]


def distinct(ids: Column) -> tuple[Column, Column]:
    """The different ids, and for each id its place among them: `np.unique`, but quick for many small numbers."""
    top = int(ids.max(initial=0))
    if len(ids) == 0 or int(ids.min()) < 0 or top > 4 * len(ids) + 1000:
        found, back = np.unique(ids, return_inverse=True)
        return found, back
    there = np.zeros(top + 1, dtype=np.bool_)
    there[ids] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[ids]


class Scan(NamedTuple):
    """By site: its first row (-1: none), and how many rows it has."""

    first: Rows
    total: Rows


def scan(sites: Column, limit: int) -> Scan:
    """One pass over millions of rows, for every site below `limit`, without sorting them."""
    first, count = np.full(limit, -1, dtype=np.int64), np.zeros(limit, dtype=np.int64)
    block = 1 << 20
    every = np.arange(limit + 1)
    for begin in range(0, len(sites), block):
        part = sites[begin : begin + block]
        inside = part if _within(part, limit) else look_up(every, part)
        here = np.bincount(inside, minlength=limit + 1)[:limit]
        new = np.flatnonzero((here > 0) & (first < 0))
        if len(new) > _FEW_SITES:
            place = np.empty(limit + 1, dtype=np.int64)
            place[inside[::-1]] = np.arange(begin + len(part) - 1, begin - 1, -1)  # the last write wins: the first row
            first[new] = place[new]
        else:
            first[new] = [begin + int(np.argmax(inside == id)) for id in new.tolist()]
        count += here
    return Scan(first, count)


def _within(ids: Column, limit: int) -> bool:
    return bool(len(ids) == 0 or (int(ids.min()) >= 0 and int(ids.max()) < limit))


def places(haystack: Rows, needles: Rows) -> Rows:
    """Where each of `needles` stands in `haystack` (all are there)."""
    if haystack is needles or (len(haystack) == len(needles) and bool(np.array_equal(haystack, needles))):
        return np.arange(len(haystack), dtype=np.int64)
    if is_sorted(haystack):
        return np.searchsorted(haystack, needles).astype(np.int64)
    order = np.argsort(haystack, kind="stable")
    return order[np.searchsorted(haystack, needles, sorter=order)].astype(np.int64)

"""Joins all shards of a run into one table of changes.

A row's number is its index when all shards are laid end to end. Every query is a NumPy mask over one column, so on ten
million changes it takes tens of milliseconds and creates no Python object per change.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.reading.lazy import Rows
from clew.reading.naming import Naming
from clew.records import DELETED, Function, Kept, Kind, NotKept, Site, Summary, Value
from clew.store.format import NO_STEP
from clew.store.shard_columns import FEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from clew.store.shard import ShardReader

Column = npt.NDArray[Any]

UNKNOWN = -1  # the name of a row whose site id no writer assigns
_FEW_SITES = 16  # up to this many sites, separate searches are faster than recording every row
_QUERIES_BEFORE_SORTING = 4  # single queries for a name's rows before sorting all rows pays off
STEP = -2  # the name of a hidden row that carries a step
INPUT, OUTPUT = -3, -4  # likewise an argument, a result
ITEM = -5  # likewise the items of a pipeline that a call handled
_HIDDEN = {"step": STEP, "input": INPUT, "output": OUTPUT, "item": ITEM}


class Table:
    """The changes of a run, as they stood when it was opened or last refreshed."""

    def __init__(self, shards: Sequence[ShardReader], start_ns: int) -> None:
        self.shards = list(shards)
        self.start_ns = start_ns
        # Taken once: a live shard grows by new columns, and rows must keep their numbers.
        self.changes = [shard.changes for shard in self.shards]
        self.lengths = [len(changes) for changes in self.changes]
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)]).astype(np.int64)
        self._rows: dict[str, Rows] = {}

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def column(self, shard: int, name: str) -> Column:
        """One column of one shard, as of the creation of the table."""
        return self.changes[shard].column(name)

    def gather(self, name: str, rows: Rows) -> Column:
        """A column's cells at these rows, from all shards."""
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
        """Each shard that holds some of these rows, and their indices in `rows`."""
        if len(self.shards) == 1:
            yield 0, slice(None)
            return
        where = self.shard_of(rows)
        for shard in np.unique(where).tolist():
            yield shard, np.flatnonzero(where == shard)

    # ---- names

    @cached_property
    def naming(self) -> Naming:
        """The labels of the series: `loss`, or `train.loss` and `valid.loss`."""
        return Naming(self.shards)

    @cached_property
    def _series_numbers(self) -> dict[str, int]:
        """Series → number, including series without a change."""
        return {name: number for number, name in enumerate(self.naming.origins)}

    @cached_property
    def _name_of_site(self) -> list[npt.NDArray[np.int32]]:
        """For each shard, site id → number of its series. The last cell is for ids out of range."""
        return [self._site_table(number, shard) for number, shard in enumerate(self.shards)]

    def _site_table(self, shard_number: int, shard: ShardReader) -> npt.NDArray[np.int32]:
        sites = {id: site for id, site in shard.sites.items() if id >= 0}
        table = np.full(max(sites, default=-1) + 2, UNKNOWN, dtype=np.int32)
        for id, site in sites.items():
            is_series = site.role == "value"
            table[id] = (
                self._series_numbers[self.naming.label(shard_number, id)]
                if is_series
                else _HIDDEN.get(site.role, UNKNOWN)
            )
        return table

    def names_in(self, shard: int) -> npt.NDArray[np.int32]:
        """The series number of every row of a shard."""
        return look_up(self._name_of_site[shard], self.column(shard, "site"))

    def hidden_rows(self, shard: int, role: int) -> Rows:
        """Rows (within the shard) that are not visible changes but carry a `STEP`, `INPUT`, `OUTPUT` or `ITEM`."""
        return self._rows_of_sites(shard, self._name_of_site[shard] == role)

    def _rows_of_sites(self, shard: int, is_selected: npt.NDArray[np.bool_]) -> Rows:
        """Rows (within the shard) of the selected sites; selecting sites is cheap, because they are few."""
        sites = np.flatnonzero(is_selected[:-1])
        if len(sites) <= FEW:
            return self.changes[shard].rows_of(sites.tolist())
        return np.flatnonzero(look_up(is_selected, self.column(shard, "site"))).astype(np.int64, copy=False)

    def names_at(self, rows: Rows) -> Column:
        """The series number of each of these rows."""
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
        """Which of these rows belong to a series that the name may mean."""
        return np.isin(self.names_at(rows), [self._series_numbers[label] for label in self.naming.matching(name)])

    @cached_property
    def first_seen(self) -> dict[str, int]:
        """Series → time (ns) of its first change, in order of time: the names of the run."""
        never = np.iinfo(np.int64).max
        first = np.full(len(self._series_numbers), never, dtype=np.int64)
        for shard, names in enumerate(self._name_of_site):
            rows = self._scanned[shard].first
            sites = np.flatnonzero((rows >= 0) & (names[:-1] >= 0))
            sites = sites[np.argsort(rows[sites])]
            times = self.changes[shard].take(rows[sites]).time
            np.minimum.at(first, names[sites], times)
        labels = list(self._series_numbers)
        order = np.argsort(first, kind="stable")
        order = order[first[order] != never]
        return {labels[number]: time for number, time in zip(order.tolist(), first[order].tolist(), strict=True)}

    @cached_property
    def _scanned(self) -> list[Scan]:
        return [scan(self.column(shard, "site"), len(table) - 1) for shard, table in enumerate(self._name_of_site)]

    @property
    def names(self) -> list[str]:
        return list(self.first_seen)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Series → number of changes, in the order of `names`."""
        totals = np.zeros(len(self._series_numbers), dtype=np.int64)
        for names, scanned in zip(self._name_of_site, self._scanned, strict=True):
            is_series = names[:-1] >= 0
            np.add.at(totals, names[:-1][is_series], scanned.total[is_series])
        return {name: int(totals[self._series_numbers[name]]) for name in self.first_seen}

    # ---- rows

    def rows_of(self, name: str) -> Rows:
        """The rows of a series, in order of time."""
        if name not in self._series_numbers:
            return np.empty(0, dtype=np.int64)
        if name not in self._rows and len(self._rows) >= _QUERIES_BEFORE_SORTING:
            self._group_by_name()
        if name not in self._rows:
            number = self._series_numbers[name]
            self._rows[name] = self._in_time(self._select_rows(lambda names: names == number))
        return self._rows[name]

    def rows_of_all(self, names: Iterable[str]) -> Rows:
        """The rows of several series, in order of time."""
        none = np.empty(0, dtype=np.int64)
        return self._in_time(np.sort(np.concatenate([none, *(self.rows_of(name) for name in names)])))

    def _group_by_name(self) -> None:
        """Find the rows of all names with one sort, which costs as much as a few single queries."""
        rows = self.all_rows
        names = self.names_at(rows)
        if len(self._series_numbers) < 1 << 16:
            names = names.astype(np.uint16)  # NumPy sorts short integers by radix, in a tenth of the time
        ordered = rows[np.argsort(names, kind="stable")]
        ends = np.cumsum(np.bincount(names, minlength=len(self._series_numbers))).tolist()
        for begin, end, name in zip([0, *ends], ends, self._series_numbers, strict=False):
            self._rows.setdefault(name, ordered[begin:end])

    @cached_property
    def all_rows(self) -> Rows:
        """The rows of all visible changes, in order of time."""
        return self._in_time(self._select_rows(lambda names: names >= 0))

    def _select_rows(self, is_selected: Any) -> Rows:
        parts = [self._rows_of_sites(shard, is_selected(names)) for shard, names in enumerate(self._name_of_site)]
        if len(parts) == 1:
            return parts[0]
        shifted = [rows + offset for rows, offset in zip(parts, self.offsets.tolist(), strict=False)]
        return np.concatenate([np.empty(0, dtype=np.int64), *shifted])

    def is_visible(self, shard: int, rows: Rows | slice) -> npt.NDArray[np.bool_]:
        """Which of these rows of a shard are visible changes."""
        names = look_up(self._name_of_site[shard], self.column(shard, "site")[rows])
        return np.asarray(names >= 0, dtype=np.bool_)

    @cached_property
    def _is_in_time(self) -> bool:
        """Whether all rows are already in order of time, as a single process writes them."""
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
        labels = list(self._series_numbers)
        return [labels[number] for number in self.names_at(rows).tolist()]

    def by_name(self, rows: Rows) -> dict[str, list[Any]]:
        """Name → its values among these rows of one call, both in order of occurrence."""
        numbers = self.names_at(rows)
        bare = [origin.name for origin in self.naming.origins.values()]
        distinct_numbers, first = np.unique(numbers, return_index=True)
        ordered = distinct_numbers[np.argsort(first)].tolist()
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
        """Whether each row happened in one of these functions, given as module and name."""

        def is_in_functions(shard: int, site: Site) -> bool:
            function = self.shards[shard].functions[site.function]
            return (function.module, function.name) in functions

        return self._per_site(rows, is_in_functions, False, np.bool_)

    def ranks(self, rows: Rows) -> list[int]:
        """The rank of the process each row was written by."""
        by_shard = np.array([shard.rank for shard in self.shards], dtype=np.int64)
        ranks: list[int] = by_shard[self.shard_of(rows)].tolist()
        return ranks

    def _function_name(self, shard: int, site: Site) -> str:
        return self.shards[shard].functions[site.function].name

    def _per_site(self, rows: Rows, compute: Callable[[int, Site], Any], default: Any, dtype: Any) -> list[Any]:
        """A property of each row's site, computed once per site."""
        out = np.full(len(rows), default, dtype=dtype)
        where = self.shard_of(rows)
        for shard in np.unique(where).tolist():
            mask = where == shard
            sites = self.shards[shard].sites
            ids, inverse = distinct(self.column(shard, "site")[rows[mask] - self.offsets[shard]])
            results = np.full(len(ids), default, dtype=dtype)
            for place, id in enumerate(ids.tolist()):
                results[place] = compute(shard, sites[id]) if id in sites else default
            out[mask] = results[inverse]
        result: list[Any] = out.tolist()
        return result

    def places(self, rows: Rows) -> list[tuple[str, str, int]]:
        """(function, file, line) of every place that recorded these rows, the busiest first."""
        counts: Counter[tuple[str, str, int]] = Counter()
        for site, function, count in self._sites_of(rows):
            counts[function.name, function.file, site.line] += count
        return [place for place, _ in counts.most_common()]

    def functions_of(self, name: str) -> list[Function]:
        """The functions in which this bare name changed."""
        labels = self.naming.named(name)
        return list(
            {(f.module, f.name): f for label in labels for _, f, _ in self._sites_of(self.rows_of(label))}.values()
        )

    def _sites_of(self, rows: Rows) -> Iterator[tuple[Site, Function, int]]:
        """Each site of these rows with its function and its number of rows."""
        where = self.shard_of(rows)
        for shard in np.unique(where).tolist():
            reader = self.shards[shard]
            ids, inverse = distinct(self.column(shard, "site")[rows[where == shard] - self.offsets[shard]])
            for id, count in zip(ids.tolist(), np.bincount(inverse, minlength=len(ids)).tolist(), strict=True):
                site = reader.sites[id]
                yield site, reader.functions[site.function], count

    def times(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Seconds since the run began."""
        return (self.gather("time", rows) - self.start_ns) / 1e9

    def times_error(self, rows: Rows) -> npt.NDArray[np.float64]:
        """The maximum error of each time in seconds; NaN in files of the first format, which do not record it."""
        errors = self.gather("time_error", rows)
        return np.where(errors == NO_STEP, np.nan, errors / 1e9)

    def ordinals(self, rows: Rows) -> Rows:
        """For each row, the number of earlier changes of its series in the run."""
        out = np.zeros(len(rows), dtype=np.int64)
        names = self.names_at(rows)
        by_number = list(self._series_numbers)
        for number in np.unique(names).tolist():
            if number >= 0:
                mask = names == number
                out[mask] = places(self.rows_of(by_number[number]), rows[mask])
        return out

    # ---- values

    def values(self, rows: Rows, unread: Any = None) -> list[Any]:
        """The values of these rows, read back; with `unread`, that object replaces the values in the value table."""
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
        in_value_table = np.flatnonzero(kinds == Kind.VALUE)
        decoded = self._read_back(rows[in_value_table]) if unread is None else [unread] * len(in_value_table)
        for place, value in zip(in_value_table.tolist(), decoded, strict=True):
            result[place] = value
        return result

    def value(self, row: int) -> Any:
        return self.values(np.array([row], dtype=np.int64))[0]

    def _read_back(self, rows: Rows) -> list[Any]:
        from clew.values import decode

        return [decode(value) for value in self.stored(rows)]

    def stored(self, rows: Rows) -> list[Value]:
        """The stored form of the values that these rows refer to."""
        ids = self.gather("value", rows)
        where = self.shard_of(rows)
        values_by_index: dict[int, Value] = {}
        for shard in np.unique(where).tolist():
            indices = np.flatnonzero(where == shard)
            values_by_index.update(zip(indices.tolist(), self.shards[shard].values(ids[indices].tolist()), strict=True))
        return [values_by_index[index] for index in range(len(rows))]

    def stored_bytes(self, rows: Rows) -> npt.NDArray[np.int64]:
        """How many bytes must be read for each row's value; 0 for a plain number."""
        sizes = np.zeros(len(rows), dtype=np.int64)
        in_value_table = np.flatnonzero(self.gather("kind", rows) == Kind.VALUE)
        if len(in_value_table):
            ids, where = self.gather("value", rows[in_value_table]), self.shard_of(rows[in_value_table])
            for shard in np.unique(where).tolist():
                in_shard = where == shard
                sizes[in_value_table[in_shard]] = self.shards[shard].stored_bytes(ids[in_shard])
        return sizes

    def decoded(self, shard: int, id: int) -> Any:
        """The value with this id, such as an argument or a result."""
        from clew.values import decode

        return decode(self.shards[shard].value(id))

    def numbers(self, rows: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The plain numbers of these rows (NaN where there is none), and which rows have one."""
        kinds = self.gather("kind", rows)
        is_plain = (kinds == Kind.FLOAT) | (kinds == Kind.INT) | (kinds == Kind.BOOL)
        numbers = self.gather("number", rows)
        return numbers if bool(is_plain.all()) else np.where(is_plain, numbers, np.nan), is_plain

    def single_numbers(self, rows: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The numbers in arrays and scalars of one element, and which rows have one."""
        numbers, has_number = np.full(len(rows), np.nan), np.zeros(len(rows), np.bool_)
        in_value_table = np.flatnonzero(self.gather("kind", rows) == Kind.VALUE)
        ids, where = self.gather("value", rows[in_value_table]), self.shard_of(rows[in_value_table])
        for shard in np.unique(where).tolist():
            shard_rows = in_value_table[where == shard]
            numbers[shard_rows], has_number[shard_rows] = self.shards[shard].single_numbers(
                ids[where == shard].tolist()
            )
        return numbers, has_number


def is_sorted(column: Column) -> bool:
    return len(column) < 2 or bool(np.all(column[1:] >= column[:-1]))


def look_up(table: Column, ids: Column) -> Column:
    """`table[ids]`, where ids out of range, including negative ones, read the table's last cell."""
    if len(table) == 0:
        return np.zeros(len(ids), dtype=table.dtype)
    unsigned = ids.view(np.uint32) if ids.dtype == np.int32 else ids.astype(np.uint64)
    if len(ids) and int(unsigned.max()) >= len(table):
        unsigned = np.minimum(unsigned, len(table) - 1)
    return table[unsigned]


def distinct(ids: Column) -> tuple[Column, Column]:
    """The distinct ids, and for each id its index among them: `np.unique`, but faster for many small numbers."""
    largest = int(ids.max(initial=0))
    if len(ids) == 0 or int(ids.min()) < 0 or largest > 4 * len(ids) + 1000:
        distinct_ids, inverse = np.unique(ids, return_inverse=True)
        return distinct_ids, inverse
    occurs = np.zeros(largest + 1, dtype=np.bool_)
    occurs[ids] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[ids]


class Scan(NamedTuple):
    """For each site its first row (-1: none) and its number of rows."""

    first: Rows
    total: Rows


def scan(sites: Column, limit: int) -> Scan:
    """Scan millions of rows in one pass, for every site below `limit`, without sorting."""
    first, count = np.full(limit, -1, dtype=np.int64), np.zeros(limit, dtype=np.int64)
    block_size = 1 << 20
    cells = np.arange(limit + 1)
    for begin in range(0, len(sites), block_size):
        block_sites = sites[begin : begin + block_size]
        cell = block_sites if _within(block_sites, limit) else look_up(cells, block_sites)
        block_counts = np.bincount(cell, minlength=limit + 1)[:limit]
        new_sites = np.flatnonzero((block_counts > 0) & (first < 0))
        if len(new_sites) > _FEW_SITES:
            first_in_block = np.empty(limit + 1, dtype=np.int64)
            first_in_block[cell[::-1]] = np.arange(
                begin + len(block_sites) - 1, begin - 1, -1
            )  # the last write wins, so this leaves the first row
            first[new_sites] = first_in_block[new_sites]
        else:
            first[new_sites] = [begin + int(np.argmax(cell == id)) for id in new_sites.tolist()]
        count += block_counts
    return Scan(first, count)


def _within(ids: Column, limit: int) -> bool:
    return bool(len(ids) == 0 or (int(ids.min()) >= 0 and int(ids.max()) < limit))


def places(haystack: Rows, needles: Rows) -> Rows:
    """The index of each of `needles` in `haystack`, which contains them all."""
    if haystack is needles or (len(haystack) == len(needles) and bool(np.array_equal(haystack, needles))):
        return np.arange(len(haystack), dtype=np.int64)
    if is_sorted(haystack):
        return np.searchsorted(haystack, needles).astype(np.int64)
    order = np.argsort(haystack, kind="stable")
    return order[np.searchsorted(haystack, needles, sorter=order)].astype(np.int64)

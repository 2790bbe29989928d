"""Judges every pair of values: numbers a million at a time, arrays by their hashes, or by their bytes where those
differ."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.arrays import ulps
from clew.compare.settings import DEFAULTS, Settings, Tolerance
from clew.compare.side import ERROR_KIND, Ints, Side
from clew.compare.small_values import compare_small
from clew.compare.value_heads import digests, heads, hollow
from clew.compare.values import Outcome, Walk, compare_heads
from clew.records import Kind

if TYPE_CHECKING:
    from clew.compare.noise import Noise
    from clew.compare.row_pairs import RowPairs
    from clew.compare.value_heads import Head

Progress = Callable[[int, int], None]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

BLOCK: Final = 1 << 20
_HEADS_AT_ONCE: Final = 512
_LARGE: Final = 1 << 18  # bytes from which an array is worth a thread
_WORKERS: Final = 4
_PLACE_BITS: Final = 32
BY_A, BY_B = 1, 2  # the run that had no change at a difference, and held its value from before


def places_of(functions: npt.NDArray[Any], tokens: npt.NDArray[Any]) -> Ints:
    """The place of each value: one number for its name and its function in the first run."""
    return (functions.astype(np.int64) << _PLACE_BITS) | tokens.astype(np.int64)


def split_place(place: int) -> tuple[int, int]:
    """The function and the token of a place."""
    return place >> _PLACE_BITS, place & ((1 << _PLACE_BITS) - 1)


@dataclass(slots=True)
class Agreement:
    """How far the two runs agree at one place, or at one step."""

    compared: int = 0
    differ: int = 0
    worst: float = 0.0  # the largest absolute difference; Inf where that is not a number


@dataclass
class Verdict:
    """The differing pairs, in no order yet, and counts of all pairs."""

    a: Ints
    b: Ints
    pair: Ints
    token: Ints
    at: Ints
    magnitude: Floats
    held_by: npt.NDArray[np.int8]  # BY_A or BY_B, or 0
    compared: int = 0
    identical: int = 0
    within: int = 0  # not identical, but within the tolerance
    within_worst: float = 0.0
    within_first: tuple[int, int, int, int] | None = None  # row a, row b, pair and `at` of the earliest of them
    by_hash: int = 0
    by_summary: int = 0
    places: dict[int, Agreement] = field(default_factory=dict)
    steps: npt.NDArray[Any] | None = None  # by mark of the first run: compared, differ
    steps_worst: Floats | None = None
    dtypes: Counter[tuple[str, str]] = field(default_factory=Counter)  # of arrays whose dtype is not the same in both
    not_compared: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)  # (place, why) → count, a row


class BlockResult(NamedTuple):
    """By pair of one block: how it was judged."""

    differ: Flags
    size: Floats  # the largest absolute difference
    exact: Flags  # the same, bit for bit
    judged: Flags  # false where too little was kept to compare


class Judge:
    """Judges the paired rows of two sides."""

    def __init__(
        self,
        a: Side,
        b: Side,
        rows: RowPairs,
        functions: Ints,
        settings: Settings,
        noise: Noise | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.a = a
        self.b = b
        self.rows = rows
        self.functions = functions  # by pair of calls
        self.settings = settings
        self.noise = noise
        self._progress = progress
        self._differing: list[tuple[Ints, Floats]] = []  # indices of pairs, and sizes of their differences
        nothing = np.empty(0, np.int64)
        self.verdict = Verdict(nothing, nothing, nothing, nothing, nothing, np.empty(0), np.empty(0, np.int8))
        marks = len(a.marks[0])
        if marks:
            self.verdict.steps = np.zeros((2, marks), np.int64)
            self.verdict.steps_worst = np.zeros(marks)
        self._methods: Counter[str] = Counter()
        self._within_first_time = 2**63

    def judge(self) -> Verdict:
        total = len(self.rows.a)
        for begin in range(0, total, BLOCK):
            self._report_progress(begin)
            self._judge_block(np.arange(begin, min(begin + BLOCK, total)))
        self._report_progress(total)
        if "_pool" in self.__dict__:
            self._pool.shutdown()
        verdict, rows = self.verdict, self.rows
        differing = np.concatenate([np.empty(0, np.int64), *(indices for indices, _ in self._differing)])
        verdict.a, verdict.b, verdict.pair, verdict.token, verdict.at = (
            column[differing].astype(np.int64) for column in (rows.a, rows.b, rows.pair, rows.token, rows.at)
        )
        from_b, from_a = rows.held_from
        verdict.held_by = np.where(differing >= from_a, BY_A, np.where(differing >= from_b, BY_B, 0)).astype(np.int8)
        verdict.magnitude = np.concatenate([np.empty(0), *(sizes for _, sizes in self._differing)])
        verdict.by_hash, verdict.by_summary = self._methods["hash"], self._methods["summary"]
        return verdict

    def _report_progress(self, count: int) -> None:
        if self._progress is not None:
            self._progress(count, len(self.rows.a))

    def _judge_block(self, indices: Ints) -> None:
        rows_a, rows_b = self._rows(self.rows.a, indices), self._rows(self.rows.b, indices)
        kinds = self.a.cells("kind", rows_a), self.b.cells("kind", rows_b)
        places = places_of(self.functions[self.rows.pair[indices]], self.rows.token[indices])
        allowed = None if self.noise is None else self.noise.allowed(places, self._rows(self.rows.at, indices))
        count = len(indices)
        result = BlockResult(
            np.zeros(count, np.bool_), np.zeros(count), np.ones(count, np.bool_), np.ones(count, np.bool_)
        )
        plain = (kinds[0] >= Kind.FLOAT) & (kinds[0] <= Kind.BOOL) & (kinds[1] >= Kind.FLOAT) & (kinds[1] <= Kind.BOOL)
        if plain.any():
            at = slice(None) if plain.all() else np.flatnonzero(plain)
            numbers = self.a.cells("number", rows_a[at]), self.b.cells("number", rows_b[at])
            allowed_at = None if allowed is None else allowed[at]
            result.differ[at], result.size[at], result.exact[at] = self._judge_numbers(
                numbers, (kinds[0][at], kinds[1][at]), allowed_at
            )
        if not plain.all():
            self._judge_others(indices, np.flatnonzero(~plain), kinds, allowed, result)
        self._count(indices, places, result)

    @staticmethod
    def _rows(column: npt.NDArray[Any], indices: Ints) -> Ints:
        return column[indices].astype(np.int64)

    # ---- plain numbers

    def _judge_numbers(self, numbers: tuple[Floats, Floats], kinds: tuple[Any, Any], allowed: Floats | None) -> Any:
        x, y = numbers
        with np.errstate(all="ignore"):
            same = x == y
            if same.all() and bool((kinds[0] == kinds[1]).all()):
                signed = np.signbit(x) == np.signbit(y)
                return np.zeros(len(x), np.bool_), np.zeros(len(x)), signed
            same |= (x != x) & (y != y)
            exact = same & (kinds[0] == kinds[1]) & ((np.signbit(x) == np.signbit(y)) | (x != x))
            size = np.zeros(len(x))
            unequal = np.flatnonzero(~same)
            differ = np.zeros(len(x), np.bool_)
            if len(unequal):
                x, y = x[unequal], y[unequal]
                are_integers = (kinds[0][unequal] != Kind.FLOAT) & (kinds[1][unequal] != Kind.FLOAT)
                distance = np.abs(x - y)
                nonfinite = ~np.isfinite(distance)
                size[unequal] = np.where(nonfinite, np.inf, distance)
                allowed_at = None if allowed is None else allowed[unequal]
                differ[unequal] = nonfinite | self._too_far(x, y, distance, are_integers, allowed_at)
                if allowed_at is not None:
                    differ[unequal] &= ~np.isinf(allowed_at)
        return differ, size, exact

    def _too_far(self, x: Floats, y: Floats, distance: Floats, are_integers: Flags, allowed: Floats | None) -> Flags:
        explicit, ulp_limit = self.settings.explicit_tolerance, 0.0
        if explicit is not None:
            limit, ulp_limit = self._limit(explicit, x), explicit.ulp
        elif allowed is not None:
            unmeasured = np.isnan(allowed) & ~are_integers
            limit = np.where(unmeasured, self._limit(DEFAULTS["float64"], x), 0.0)
        else:
            limit = np.where(are_integers, 0.0, self._limit(DEFAULTS["float64"], x))
        if allowed is not None:
            limit = np.fmax(limit, allowed)
        too_far = distance > limit
        if ulp_limit:
            too_far &= ~(ulps(x, y, "float64", "float64") <= ulp_limit)
        return np.asarray(too_far, np.bool_)

    @staticmethod
    def _limit(tolerance: Tolerance, x: Floats) -> Floats:
        return np.asarray(tolerance.atol + tolerance.rtol * np.abs(x), np.float64)

    # ---- everything else

    def _judge_others(
        self, indices: Ints, offsets: Ints, kinds: Any, allowed: Floats | None, result: BlockResult
    ) -> None:
        """Judge what is not a plain number. `offsets` are positions in the block, `indices` those of all pairs."""
        both_stored = (kinds[0][offsets] == Kind.VALUE) & (kinds[1][offsets] == Kind.VALUE)
        if both_stored.any():
            self._judge_stored(indices, offsets[both_stored], allowed, result)
        rest = offsets[~both_stored]
        equal = (kinds[0][rest] == kinds[1][rest]) & np.isin(kinds[0][rest], (Kind.NONE, Kind.DELETED))
        for offset in rest[~equal].tolist():
            allowed_here = _allowed_at(allowed, offset)
            outcome = self._compare_kinds(int(indices[offset]), kinds[0][offset], kinds[1][offset], allowed_here)
            self._put(offset, indices, outcome, result, allowed_here)

    def _judge_stored(self, indices: Ints, offsets: Ints, allowed: Floats | None, result: BlockResult) -> None:
        rows_a, rows_b = self._rows(self.rows.a, indices[offsets]), self._rows(self.rows.b, indices[offsets])
        low_a, high_a, exists_a = digests(self.a, rows_a)
        low_b, high_b, exists_b = digests(self.b, rows_b)
        same = exists_a & exists_b & (low_a == low_b) & (high_a == high_b)
        undecidable = np.flatnonzero(same & (hollow(self.a, rows_a) | hollow(self.b, rows_b)))
        if len(undecidable):
            self._leave_undecided(indices, offsets[undecidable], rows_a[undecidable], result)
        by_hash = int(np.count_nonzero(same & ~self._in_full(rows_a, rows_b)))
        self._methods["hash"] += by_hash - len(undecidable)
        unequal = np.flatnonzero(~same)
        if len(unequal):
            unequal = unequal[~compare_small(self, indices, offsets, unequal, allowed, result)]
        for begin in range(0, len(unequal), _HEADS_AT_ONCE):
            part = unequal[begin : begin + _HEADS_AT_ONCE]
            limits = [_allowed_at(allowed, offset) for offset in offsets[part].tolist()]
            pairs = list(zip(heads(self.a, rows_a[part]), heads(self.b, rows_b[part]), limits, strict=True))
            for offset, outcome, limit in zip(offsets[part].tolist(), self._compare_heads(pairs), limits, strict=True):
                self._put(offset, indices, outcome, result, limit)
                self._report_progress(int(indices[offset]))

    def _leave_undecided(self, indices: Ints, offsets: Ints, rows_a: Ints, result: BlockResult) -> None:
        """Note pairs with equal hashes that hold something clew did not look into: they may differ in it."""
        result.judged[offsets] = False
        pairs = indices[offsets]
        places = places_of(self.functions[self.rows.pair[pairs]], self.rows.token[pairs])
        for place, first, count in zip(*np.unique(places, return_index=True, return_counts=True), strict=True):
            why = heads(self.a, rows_a[first : first + 1])[0].why
            self._note_not_compared(int(place), why, int(count), int(rows_a[first]))

    def _note_not_compared(self, place: int, why: str, count: int, row: int) -> None:
        before, first = self.verdict.not_compared.get((place, why), (0, row))
        self.verdict.not_compared[place, why] = before + count, first

    def _compare_heads(self, pairs: list[tuple[Head, Head, float | None]]) -> Iterator[Outcome]:
        """The outcomes in order. Large arrays run in threads: reading, hashing and arithmetic release the GIL."""

        def compare(pair: tuple[Head, Head, float | None]) -> Outcome:
            return compare_heads(pair[0], pair[1], self.settings, pair[2])

        large = all(a.summary.dtype and (a.summary.size or 0) >= _LARGE for a, _, _ in pairs)
        return self._pool.map(compare, pairs) if large and len(pairs) > 1 else map(compare, pairs)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(min(_WORKERS, os.cpu_count() or 1), "clew-diff")

    def _in_full(self, rows_a: Ints, rows_b: Ints) -> Flags:
        """By pair: whether both values were kept in full, so that the hash stands for the bytes."""
        full = np.ones(len(rows_a), np.bool_)
        for side, rows in ((self.a, rows_a), (self.b, rows_b)):
            ids, shards = side.cells("value", rows), side.shard_of(rows)
            for shard in np.unique(shards).tolist():
                mask = shards == shard
                full[mask] &= side.values(shard).in_full(ids[mask])
        return full

    def _compare_kinds(self, index: int, kind_a: int, kind_b: int, allowed: float | None) -> Outcome:
        """Compare values of different kinds: a number and an array that holds one, an exception and none."""
        row_a, row_b = int(self.rows.a[index]), int(self.rows.b[index])
        if ERROR_KIND in (kind_a, kind_b):
            texts = self.a.text_of(row_a), self.b.text_of(row_b)
            same = texts[0] == texts[1]
            return Outcome(not same, same, 0.0 if same else math.inf)
        return Walk(self.settings, allowed).compare(self.a.value_of(row_a), self.b.value_of(row_b))

    def _put(self, offset: int, indices: Ints, outcome: Outcome, result: BlockResult, allowed: float | None) -> None:
        result.differ[offset] = outcome.differ and allowed != math.inf
        result.size[offset] = outcome.magnitude
        result.exact[offset] = outcome.identical
        result.judged[offset] = outcome.compared
        self._methods[outcome.how] += 1
        if outcome.dtypes is not None:
            self.verdict.dtypes[outcome.dtypes] += 1
        if not outcome.compared:
            index = int(indices[offset])
            function = int(self.functions[self.rows.pair[index]])
            place = int(places_of(np.array([function]), np.array([self.rows.token[index]]))[0])
            self._note_not_compared(place, outcome.why, 1, int(self.rows.a[index]))

    # ---- counting

    def _count(self, indices: Ints, places: Ints, result: BlockResult) -> None:
        verdict = self.verdict
        differing = np.flatnonzero(result.differ)
        self._differing.append((indices[differing], result.size[differing]))
        within = result.judged & ~result.differ & ~result.exact
        verdict.compared += int(np.count_nonzero(result.judged))
        verdict.identical += int(np.count_nonzero(result.exact & result.judged))
        verdict.within += int(np.count_nonzero(within))
        if within.any():
            self._note_within(indices, np.flatnonzero(within), result.size)
        self._count_places(places, result)
        if verdict.steps is not None:
            self._count_steps(indices, result)

    def _note_within(self, indices: Ints, within: Ints, size: Floats) -> None:
        verdict = self.verdict
        verdict.within_worst = max(verdict.within_worst, float(size[within].max()))
        within = within[size[within] > 0]  # equal numbers of different types are not small differences that grow
        if not len(within):
            return
        at = np.sort(self._rows(self.rows.at, indices[within]))
        times = self.a.cells("time", at)
        first = int(np.argmin(times))
        if int(times[first]) < self._within_first_time:
            self._within_first_time, rows = int(times[first]), self.rows
            index = int(indices[within[np.argmax(rows.at[indices[within]] == at[first])]])
            verdict.within_first = int(rows.a[index]), int(rows.b[index]), int(rows.pair[index]), int(rows.at[index])

    def _count_places(self, places: Ints, result: BlockResult) -> None:
        unique_places, inverse = _unique_places(places)
        compared = np.bincount(inverse, weights=result.judged, minlength=len(unique_places))
        differ = np.bincount(inverse, weights=result.differ, minlength=len(unique_places))
        worst = np.zeros(len(unique_places))
        differing = np.flatnonzero(result.differ)
        np.maximum.at(worst, inverse[differing], result.size[differing])
        columns = zip(unique_places.tolist(), compared.tolist(), differ.tolist(), worst.tolist(), strict=True)
        for place, compared_count, differ_count, largest in columns:
            agreement = self.verdict.places.setdefault(place, Agreement())
            agreement.compared += int(compared_count)
            agreement.differ += int(differ_count)
            agreement.worst = max(agreement.worst, largest)

    def _count_steps(self, indices: Ints, result: BlockResult) -> None:
        marks = self.a.mark_around(self._rows(self.rows.at, indices))
        has_step = marks >= 0
        steps, worst = self.verdict.steps, self.verdict.steps_worst
        assert steps is not None
        assert worst is not None
        differing = has_step & result.differ
        np.add.at(steps[0], marks[has_step & result.judged], 1)
        np.add.at(steps[1], marks[differing], 1)
        np.maximum.at(worst, marks[differing], result.size[differing])


def _allowed_at(allowed: Floats | None, offset: int) -> float | None:
    """How far apart two values may be; None if there is no reference, or it did not measure their place."""
    if allowed is None or math.isnan(allowed[offset]):
        return None
    return float(allowed[offset])


def _unique_places(places: Ints) -> tuple[Ints, Ints]:
    """`np.unique` with its inverse; fast where there are few different places."""
    few = np.unique(places[:4096])
    if len(few) <= 64:
        inverse = np.minimum(np.searchsorted(few, places), len(few) - 1)
        if bool((few[inverse] == places).all()):
            return few, inverse
    unique, inverse = np.unique(places, return_inverse=True)
    return unique, inverse

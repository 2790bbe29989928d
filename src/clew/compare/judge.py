"""Every pair of values is judged: numbers a million at a time, arrays by their hashes, and by their bytes where those
differ."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from clew.compare.arrays import ulps
from clew.compare.settings import DEFAULTS, Settings, Tolerance
from clew.compare.side import ERROR_KIND, Ints, Side
from clew.compare.small import compare_small
from clew.compare.stored import digests, heads, hollow
from clew.compare.values import Outcome, Walk, compare_heads
from clew.records import Kind

if TYPE_CHECKING:
    from clew.compare.noise import Noise
    from clew.compare.rows import RowPairs
    from clew.compare.stored import Head

Progress = Callable[[int, int], None]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

BLOCK: Final = 1 << 20
_TOGETHER: Final = 512
_LARGE: Final = 1 << 18  # bytes of an array that is worth a thread
_WORKERS: Final = 4
_PLACE_BITS: Final = 32
BY_A, BY_B = 1, 2  # which run had no change at a difference, and held its value from before


def places_of(functions: npt.NDArray[Any], tokens: npt.NDArray[Any]) -> Ints:
    """A place is a name in a function of the first run."""
    return (functions.astype(np.int64) << _PLACE_BITS) | tokens.astype(np.int64)


def split_place(place: int) -> tuple[int, int]:
    """Function and token."""
    return place >> _PLACE_BITS, place & ((1 << _PLACE_BITS) - 1)


@dataclass(slots=True)
class Agreement:
    """How a place, or a step, went."""

    compared: int = 0
    differ: int = 0
    worst: float = 0.0  # the largest absolute difference; Inf where that is no number


@dataclass
class Verdict:
    """What judging came to. Rows of the differing pairs are in no order yet."""

    a: Ints
    b: Ints
    pair: Ints
    token: Ints
    at: Ints
    magnitude: Floats
    held: npt.NDArray[np.int8]  # BY_A or BY_B, or 0
    compared: int = 0
    identical: int = 0
    within: int = 0  # not identical, and within the tolerance
    within_worst: float = 0.0
    within_first: tuple[int, int, int, int] | None = None  # rows and pair of the earliest of them
    by_hash: int = 0
    by_summary: int = 0
    places: dict[int, Agreement] = field(default_factory=dict)
    steps: npt.NDArray[Any] | None = None  # by mark of the first run: compared, differ
    steps_worst: Floats | None = None
    dtypes: Counter[tuple[str, str]] = field(default_factory=Counter)  # of arrays that have another in the second run
    not_compared: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)  # (place, why) → count, a row


class Judge:
    """One comparison of two sides, whose rows are paired."""

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
        self._found: list[tuple[Ints, Floats]] = []
        nothing = np.empty(0, np.int64)
        self.verdict = Verdict(nothing, nothing, nothing, nothing, nothing, np.empty(0), np.empty(0, np.int8))
        marks = len(a.marks[0])
        if marks:
            self.verdict.steps = np.zeros((2, marks), np.int64)
            self.verdict.steps_worst = np.zeros(marks)
        self._how: Counter[str] = Counter()
        self._within_at = 2**63

    def judge(self) -> Verdict:
        total = len(self.rows.a)
        for begin in range(0, total, BLOCK):
            self._tell(begin)
            self._block(np.arange(begin, min(begin + BLOCK, total)))
        self._tell(total)
        if "_pool" in self.__dict__:
            self._pool.shutdown()
        out, rows = self.verdict, self.rows
        chosen = np.concatenate([np.empty(0, np.int64), *(places for places, _ in self._found)])
        out.a, out.b, out.pair, out.token, out.at = (
            column[chosen].astype(np.int64) for column in (rows.a, rows.b, rows.pair, rows.token, rows.at)
        )
        by_b, by_a = rows.held
        out.held = np.where(chosen >= by_a, BY_A, np.where(chosen >= by_b, BY_B, 0)).astype(np.int8)
        out.magnitude = np.concatenate([np.empty(0), *(sizes for _, sizes in self._found)])
        out.by_hash, out.by_summary = self._how["hash"], self._how["summary"]
        return out

    def _tell(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done, len(self.rows.a))

    def _block(self, chosen: Ints) -> None:
        rows_a, rows_b = self._rows(self.rows.a, chosen), self._rows(self.rows.b, chosen)
        kinds = self.a.cells("kind", rows_a), self.b.cells("kind", rows_b)
        places = places_of(self.functions[self.rows.pair[chosen]], self.rows.token[chosen])
        allowed = None if self.noise is None else self.noise.allowed(places, self._rows(self.rows.at, chosen))
        differ, known = np.zeros(len(chosen), np.bool_), np.ones(len(chosen), np.bool_)
        size = np.zeros(len(chosen))
        exact = np.ones(len(chosen), np.bool_)
        plain = (kinds[0] >= Kind.FLOAT) & (kinds[0] <= Kind.BOOL) & (kinds[1] >= Kind.FLOAT) & (kinds[1] <= Kind.BOOL)
        if plain.any():
            every = bool(plain.all())
            at = slice(None) if every else np.flatnonzero(plain)
            numbers = self.a.cells("number", rows_a[at]), self.b.cells("number", rows_b[at])
            room = None if allowed is None else allowed[at]
            differ[at], size[at], exact[at] = self._numbers(numbers, (kinds[0][at], kinds[1][at]), room)
        if not plain.all():
            self._others(chosen, np.flatnonzero(~plain), kinds, allowed, (differ, size, exact, known))
        self._count(chosen, places, differ, size, exact, known)

    @staticmethod
    def _rows(column: npt.NDArray[Any], chosen: Ints) -> Ints:
        return column[chosen].astype(np.int64)

    # ---- plain numbers

    def _numbers(self, numbers: tuple[Floats, Floats], kinds: tuple[Any, Any], allowed: Floats | None) -> Any:
        x, y = numbers
        with np.errstate(all="ignore"):
            same = x == y
            if same.all() and bool((kinds[0] == kinds[1]).all()):
                signed = np.signbit(x) == np.signbit(y)
                return np.zeros(len(x), np.bool_), np.zeros(len(x)), signed
            same |= (x != x) & (y != y)
            exact = same & (kinds[0] == kinds[1]) & ((np.signbit(x) == np.signbit(y)) | (x != x))
            size = np.zeros(len(x))
            left = np.flatnonzero(~same)
            differ = np.zeros(len(x), np.bool_)
            if len(left):
                x, y = x[left], y[left]
                whole = (kinds[0][left] != Kind.FLOAT) & (kinds[1][left] != Kind.FLOAT)
                distance = np.abs(x - y)
                odd = ~np.isfinite(distance)
                size[left] = np.where(odd, np.inf, distance)
                room = None if allowed is None else allowed[left]
                differ[left] = odd | self._too_far(x, y, distance, whole, room)
                if room is not None:
                    differ[left] &= ~np.isinf(room)
        return differ, size, exact

    def _too_far(self, x: Floats, y: Floats, distance: Floats, whole: Flags, allowed: Floats | None) -> Flags:
        settings = self.settings
        if settings.given is not None:
            limit, steps = self._limit(settings.given, x), settings.given.ulp
        elif allowed is not None:
            unknown = np.isnan(allowed) & ~whole
            limit, steps = np.where(unknown, self._limit(DEFAULTS["float64"], x), 0.0), 0.0
        else:
            limit, steps = np.where(whole, 0.0, self._limit(DEFAULTS["float64"], x)), 0.0
        if allowed is not None:
            limit = np.fmax(limit, allowed)
        far = distance > limit
        if steps:
            far &= ~(ulps(x, y, "float64", "float64") <= steps)
        return np.asarray(far, np.bool_)

    @staticmethod
    def _limit(tolerance: Tolerance, x: Floats) -> Floats:
        return np.asarray(tolerance.atol + tolerance.rtol * np.abs(x), np.float64)

    # ---- everything else

    def _others(self, chosen: Ints, places: Ints, kinds: Any, allowed: Floats | None, out: Any) -> None:
        both = (kinds[0][places] == Kind.VALUE) & (kinds[1][places] == Kind.VALUE)
        pointing = places[both]
        if len(pointing):
            self._values(chosen, pointing, allowed, out)
        rest = places[~both]
        empty = (kinds[0][rest] == kinds[1][rest]) & np.isin(kinds[0][rest], (Kind.NONE, Kind.DELETED))
        for place in rest[~empty].tolist():
            room = _room(allowed, place)
            found = self._one(int(chosen[place]), kinds[0][place], kinds[1][place], room)
            self._put(place, chosen, found, out, room)

    def _values(self, chosen: Ints, places: Ints, allowed: Floats | None, out: Any) -> None:
        rows_a, rows_b = self._rows(self.rows.a, chosen[places]), self._rows(self.rows.b, chosen[places])
        low_a, high_a, there_a = digests(self.a, rows_a)
        low_b, high_b, there_b = digests(self.b, rows_b)
        same = there_a & there_b & (low_a == low_b) & (high_a == high_b)
        empty = np.flatnonzero(same & (hollow(self.a, rows_a) | hollow(self.b, rows_b)))
        if len(empty):
            self._leave_open(chosen, places[empty], rows_a[empty], out)
        self._how["hash"] += int(np.count_nonzero(same & ~self._in_full(rows_a, rows_b, same))) - len(empty)
        left = np.flatnonzero(~same)
        left = left[~compare_small(self, chosen, places, left, allowed, out)] if len(left) else left
        for begin in range(0, len(left), _TOGETHER):
            some = left[begin : begin + _TOGETHER]
            rooms = [_room(allowed, place) for place in places[some].tolist()]
            pairs = list(zip(heads(self.a, rows_a[some]), heads(self.b, rows_b[some]), rooms, strict=True))
            for place, found, room in zip(places[some].tolist(), self._compared(pairs), rooms, strict=True):
                self._put(place, chosen, found, out, room)
                self._tell(int(chosen[place]))

    def _leave_open(self, chosen: Ints, places: Ints, rows_a: Ints, out: Any) -> None:
        """What is known of these is the same, and something in them was not looked into: nobody can say."""
        known = out[3]
        known[places] = False
        indices = chosen[places]
        kinds = places_of(self.functions[self.rows.pair[indices]], self.rows.token[indices])
        for kind, first, count in zip(*np.unique(kinds, return_index=True, return_counts=True), strict=True):
            why = heads(self.a, rows_a[first : first + 1])[0].why
            self._note_open(int(kind), why, int(count), int(rows_a[first]))

    def _note_open(self, place: int, why: str, count: int, row: int) -> None:
        before, first = self.verdict.not_compared.get((place, why), (0, row))
        self.verdict.not_compared[place, why] = before + count, first

    def _compared(self, pairs: list[tuple[Head, Head, float | None]]) -> Iterator[Outcome]:
        """In their order; large arrays several at a time, since reading, hashing and arithmetic let others go on."""

        def compare(pair: tuple[Head, Head, float | None]) -> Outcome:
            return compare_heads(pair[0], pair[1], self.settings, pair[2])

        large = all(a.summary.dtype and (a.summary.size or 0) >= _LARGE for a, _, _ in pairs)
        return self._pool.map(compare, pairs) if large and len(pairs) > 1 else map(compare, pairs)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(min(_WORKERS, os.cpu_count() or 1), "clew-diff")

    def _in_full(self, rows_a: Ints, rows_b: Ints, same: Flags) -> Flags:
        """Which of these are whole on disk in both runs, so that their hash stands for their bytes."""
        full = np.ones(len(rows_a), np.bool_)
        for side, rows in ((self.a, rows_a), (self.b, rows_b)):
            ids, where = side.cells("value", rows), side.shard_of(rows)
            for shard in np.unique(where).tolist():
                mask = where == shard
                full[mask] &= side.values(shard).in_full(ids[mask])
        return full

    def _one(self, index: int, kind_a: int, kind_b: int, allowed: float | None) -> Outcome:
        """Values of different kinds: a number and an array that holds one, an exception and none."""
        row_a, row_b = int(self.rows.a[index]), int(self.rows.b[index])
        if ERROR_KIND in (kind_a, kind_b):
            texts = self.a.text_of(row_a), self.b.text_of(row_b)
            same = texts[0] == texts[1]
            return Outcome(not same, same, 0.0 if same else math.inf)
        return Walk(self.settings, allowed).compare(self.a.value_of(row_a), self.b.value_of(row_b))

    def _put(self, place: int, chosen: Ints, found: Outcome, out: Any, room: float | None) -> None:
        differ, size, exact, known = out
        differ[place], size[place], exact[place], known[place] = (
            found.differ and room != math.inf,
            found.magnitude,
            found.identical,
            found.compared,
        )
        self._how[found.how] += 1
        if found.dtypes is not None:
            self.verdict.dtypes[found.dtypes] += 1
        if not found.compared:
            index = int(chosen[place])
            function = int(self.functions[self.rows.pair[index]])
            kind = int(places_of(np.array([function]), np.array([self.rows.token[index]]))[0])
            self._note_open(kind, found.why, 1, int(self.rows.a[index]))

    # ---- counting

    def _count(self, chosen: Ints, places: Ints, differ: Flags, size: Floats, exact: Flags, known: Flags) -> None:
        verdict = self.verdict
        far = np.flatnonzero(differ)
        self._found.append((chosen[far], size[far]))
        near = known & ~differ & ~exact
        verdict.compared += int(np.count_nonzero(known))
        verdict.identical += int(np.count_nonzero(exact & known))
        verdict.within += int(np.count_nonzero(near))
        if near.any():
            self._note_within(chosen, np.flatnonzero(near), size)
        self._count_places(places, differ, size, known)
        if verdict.steps is not None:
            self._count_steps(chosen, differ, size, known)

    def _note_within(self, chosen: Ints, near: Ints, size: Floats) -> None:
        verdict = self.verdict
        verdict.within_worst = max(verdict.within_worst, float(size[near].max()))
        near = near[size[near] > 0]  # a number of another type, or half a summary, is no small difference that grows
        if not len(near):
            return
        at = np.sort(self._rows(self.rows.at, chosen[near]))
        times = self.a.cells("time", at)
        first = int(np.argmin(times))
        if int(times[first]) < self._within_at:
            self._within_at, rows = int(times[first]), self.rows
            index = int(chosen[near[np.argmax(rows.at[chosen[near]] == at[first])]])
            verdict.within_first = int(rows.a[index]), int(rows.b[index]), int(rows.pair[index]), int(rows.at[index])

    def _count_places(self, places: Ints, differ: Flags, size: Floats, known: Flags) -> None:
        found, back = _distinct(places)
        compared = np.bincount(back, weights=known, minlength=len(found))
        far = np.bincount(back, weights=differ, minlength=len(found))
        worst = np.zeros(len(found))
        wrong = np.flatnonzero(differ)
        np.maximum.at(worst, back[wrong], size[wrong])
        columns = zip(found.tolist(), compared.tolist(), far.tolist(), worst.tolist(), strict=True)
        for place, count, wrong_count, largest in columns:
            one = self.verdict.places.setdefault(place, Agreement())
            one.compared += int(count)
            one.differ += int(wrong_count)
            one.worst = max(one.worst, largest)

    def _count_steps(self, chosen: Ints, differ: Flags, size: Floats, known: Flags) -> None:
        marks = self.a.mark_around(self._rows(self.rows.at, chosen))
        good = marks >= 0
        steps, worst = self.verdict.steps, self.verdict.steps_worst
        assert steps is not None
        assert worst is not None
        np.add.at(steps[0], marks[good & known], 1)
        np.add.at(steps[1], marks[good & differ], 1)
        np.maximum.at(worst, marks[good & differ], size[good & differ])


def _room(allowed: Floats | None, place: int) -> float | None:
    """The noise of a place; None if there is no reference, or it says nothing of it."""
    if allowed is None or math.isnan(allowed[place]):
        return None
    return float(allowed[place])


def _distinct(places: Ints) -> tuple[Ints, Ints]:
    """`np.unique` with its inverse; quick where neighbours are mostly of a few kinds."""
    few = np.unique(places[:4096])
    if len(few) <= 64:
        back = np.minimum(np.searchsorted(few, places), len(few) - 1)
        if bool((few[back] == places).all()):
            return few, back
    found, back = np.unique(places, return_inverse=True)
    return found, back

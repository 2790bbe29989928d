"""Pairs the values of paired calls.

Values are paired by name and by step; without steps, by order. Lines do not count, because a
refactoring moves them. A probe writes a value when it changes: where one run has a change at a step
and the other has none, the change is compared with the value that the other held from before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.call_ends import calls_that_raised
from clew.compare.sequence import Ints, ordinals
from clew.compare.side import ITEM_ROW, OUT, STEP_ROW
from clew.compare.stepless_rows import lines_of, moments, pair_groups
from clew.reading.table import is_sorted
from clew.records import Kind

if TYPE_CHECKING:
    from clew.compare.call_pairs import CallPairs
    from clew.compare.side import Side

Flags = npt.NDArray[np.bool_]
_NO_STEP = -1


class RowPairs(NamedTuple):
    """Paired values: their rows in both runs, the pair of calls they are in, and their token.

    `at` is the row of the first run that gives the time; it is not `a` where the first run only held the value.
    """

    a: npt.NDArray[Any]  # row numbers in the smallest type that holds them
    b: npt.NDArray[Any]
    pair: npt.NDArray[Any]
    token: npt.NDArray[Any]
    at: npt.NDArray[Any]
    only_a: Ints
    only_b: Ints
    held_from: tuple[int, int]  # where the pairs begin whose value only the second run held; only the first held


class SortedRows(NamedTuple):
    """The rows of one run that are in paired calls, pair by pair, in the order they happened."""

    row: npt.NDArray[Any]  # row numbers in the smallest type that holds them
    pair: npt.NDArray[np.int32]
    token: npt.NDArray[np.int32]


def pair_rows(a: Side, b: Side, pairs: CallPairs) -> RowPairs:
    """Pair the values of all paired calls."""
    numbers = np.arange(len(pairs.a))
    rows_a, rows_b = _sort_rows(a, pairs.a, numbers), _sort_rows(b, pairs.b, numbers)
    regular = _regular_pairs(a, b, rows_a, rows_b, len(pairs.a))
    if regular is None:
        mask_a, mask_b = rows_a.token >= 0, rows_b.token >= 0
    else:
        mask_a, mask_b = regular[rows_a.pair] & (rows_a.token >= 0), regular[rows_b.pair] & (rows_b.token >= 0)
    if regular is None and mask_a.all():
        nothing, end = np.empty(0, np.int64), len(rows_a.row)
        return RowPairs(rows_a.row, rows_b.row, rows_a.pair, rows_a.token, rows_a.row, nothing, nothing, (end, end))
    at_a, at_b = np.flatnonzero(mask_a), np.flatnonzero(mask_b)
    if regular is None or regular.all():
        return _join_parts(rows_a, rows_b, [(at_a, at_b, at_a)], at_a[:0], at_b[:0], (0, 0))
    raised = calls_that_raised(a)[pairs.a], calls_that_raised(b)[pairs.b]
    irregular = _IrregularPairs(a, b, rows_a, rows_b, regular, a.function[pairs.a], a.is_tracer, raised)
    parts, unpaired_a, unpaired_b, held_counts = irregular.solve()
    return _join_parts(rows_a, rows_b, [(at_a, at_b, at_a), *parts], unpaired_a, unpaired_b, held_counts)


def _sort_rows(side: Side, calls: Ints, numbers: Ints) -> SortedRows:
    pair_of = np.full(len(side) + 1, -1, np.int32)  # the last cell is for rows whose call was lost
    pair_of[calls] = numbers
    pair = pair_of[side.call]
    token = side.token
    if len(side.extra.call):
        pair = np.concatenate([pair, pair_of[side.extra.call]])
        token = np.concatenate([token, side.extra.token.astype(np.int32)])
    compared = (pair >= 0) & (token != OUT) & (token != ITEM_ROW)
    if compared.all():
        rows = np.arange(len(pair), dtype=_row_dtype(len(pair)))
    else:
        rows = np.flatnonzero(compared).astype(_row_dtype(len(pair)))
        pair, token = pair[rows], token[rows]
    if is_sorted(pair):
        return SortedRows(rows, pair, token)
    order = np.argsort(pair, kind="stable")
    return SortedRows(rows[order], pair[order], token[order])


def _row_dtype(count: int) -> Any:
    """The smallest type for row numbers: there may be a hundred million of them."""
    return np.int32 if count < 2**31 else np.int64


def _regular_pairs(a: Side, b: Side, rows_a: SortedRows, rows_b: SortedRows, count: int) -> Flags | None:
    """By pair of calls: whether the same names change in the same order at the same steps; None if all do."""
    same = len(rows_a.row) == len(rows_b.row) and bool(
        np.array_equal(rows_a.pair, rows_b.pair) and np.array_equal(rows_a.token, rows_b.token)
    )
    if same and not (rows_a.token == STEP_ROW).any():
        return None
    regular = _hash_rows(a, rows_a, count) == _hash_rows(b, rows_b, count)
    return None if same and regular.all() else regular


def _hash_rows(side: Side, rows: SortedRows, count: int) -> npt.NDArray[np.uint64]:
    """By pair of calls: one number for the tokens and steps of its rows, in their order."""
    hashes = np.zeros(count, np.uint64)
    if len(rows.pair) == 0:
        return hashes
    heads = np.flatnonzero(np.concatenate([[True], rows.pair[1:] != rows.pair[:-1]]))
    lengths = np.diff(np.append(heads, len(rows.pair)))
    place = np.arange(len(rows.pair), dtype=np.uint64) - np.repeat(heads, lengths).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = rows.token.astype(np.int64).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        steps = np.flatnonzero(rows.token == STEP_ROW)
        mixed[steps] += side.step_keys(rows.row[steps].astype(np.int64)).view(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= mixed >> np.uint64(29)
        mixed *= place * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(32)
        hashes[rows.pair[heads]] = np.add.reduceat(mixed, heads) + lengths.astype(np.uint64)
    return hashes


_PlacePairs = tuple[Ints, Ints, Ints]  # places in both sorted rows, and the place in the first that gives the time


def _join_parts(
    rows_a: SortedRows,
    rows_b: SortedRows,
    parts: list[_PlacePairs],
    unpaired_a: Ints,
    unpaired_b: Ints,
    held_counts: tuple[int, int],
) -> RowPairs:
    """Turn places into rows. The last pairs are those whose value the second run held, then those the first held."""
    at_a, at_b, at = (np.concatenate(column) if len(parts) > 1 else column[0] for column in zip(*parts, strict=True))
    row, pair = rows_a.row[at_a], rows_a.pair[at_a]
    held_by_b, held_by_a = held_counts
    if held_by_a:
        pair[-held_by_a:] = rows_b.pair[at_b[-held_by_a:]]  # the first run may hold a value of an earlier iteration
    return RowPairs(
        row,
        rows_b.row[at_b],
        pair,
        rows_a.token[at_a],
        row if at is at_a else rows_a.row[at],
        rows_a.row[unpaired_a].astype(np.int64),
        rows_b.row[unpaired_b].astype(np.int64),
        (len(row) - held_by_b - held_by_a, len(row) - held_by_a),
    )


class _IrregularPairs:
    """Pairs of calls in which names changed in different orders. Works with places in the sorted rows."""

    def __init__(
        self,
        a: Side,
        b: Side,
        rows_a: SortedRows,
        rows_b: SortedRows,
        regular: Flags,
        functions: Ints,
        is_tracer: Flags,
        raised: tuple[Flags, Flags],
    ) -> None:
        self.sides = (a, b)
        self.rows = (rows_a, rows_b)
        self.token_count = len(a.vocabularies.tokens)
        self.function_of_pair = functions
        self.is_tracer = is_tracer
        self.raised_of_pair = raised  # by pair: whether the call ended with an exception
        self.places = tuple(np.flatnonzero(~regular[rows.pair]) for rows in self.rows)  # including step rows
        self.steps = tuple(self._step_rows(number) for number in (0, 1))

    def solve(self) -> tuple[list[_PlacePairs], Ints, Ints, tuple[int, int]]:
        """The pairs, the places without a partner in both runs, and how many pairs each run held the value of."""
        places = tuple(at[rows.token[at] >= 0] for at, rows in zip(self.places, self.rows, strict=True))
        groups = tuple(self._groups(number, places[number]) for number in (0, 1))
        stepped = tuple(self._has_step_in_both(number, places[number]) for number in (0, 1))
        parts, unpaired_a, unpaired_b = self._pair_by_step(places, groups, stepped)
        ordered_parts, rest_a, rest_b = self._pair_by_order(
            tuple(place[~flags] for place, flags in zip(places, stepped, strict=True)),
            tuple(group[~flags] for group, flags in zip(groups, stepped, strict=True)),
        )
        parts += ordered_parts
        unpaired_a, unpaired_b = np.concatenate([unpaired_a, rest_a]), np.concatenate([unpaired_b, rest_b])
        paired = self._paired_changes(parts)
        held_by_b, unpaired_a = self._pair_with_held(0, unpaired_a, paired)
        held_by_a, unpaired_b = self._pair_with_held(1, unpaired_b, paired)
        counts = len(held_by_b[0]), len(held_by_a[0])
        return [*parts, held_by_b, held_by_a], np.sort(unpaired_a), np.sort(unpaired_b), counts

    def _groups(self, number: int, places: Ints) -> Ints:
        """By place: a number for its pair of calls and its name."""
        rows = self.rows[number]
        return rows.pair[places].astype(np.int64) * self.token_count + rows.token[places]

    # ---- steps

    def _step_rows(self, number: int) -> tuple[Ints, Ints]:
        """The places of the step rows of these pairs, and the keys of their steps."""
        rows, at = self.rows[number], self.places[number]
        places = at[rows.token[at] == STEP_ROW]
        return places, self.sides[number].step_keys(rows.row[places].astype(np.int64))

    def _has_step_in_both(self, number: int, places: Ints) -> Flags:
        """By place: whether it comes after a step row in a call that records its steps in both runs."""
        pairs = np.intersect1d(self.rows[0].pair[self.steps[0][0]], self.rows[1].pair[self.steps[1][0]])
        return np.asarray(np.isin(self.rows[number].pair[places], pairs) & (self._mark(number, places) >= 0), np.bool_)

    def _mark(self, number: int, places: Ints) -> Ints:
        """By place: the index of the step row that applies; -1 before the first of its call."""
        marks, rows = self.steps[number][0], self.rows[number]
        before = np.searchsorted(marks, places, side="right") - 1
        applies = (before >= 0) & (rows.row[places] < len(self.sides[number].table))  # extra rows have no step
        if len(marks):
            applies &= rows.pair[marks[np.maximum(before, 0)]] == rows.pair[places]
        return np.where(applies, before, -1)

    def _pair_by_step(
        self, places: tuple[Ints, ...], groups: tuple[Ints, ...], has_step: tuple[Flags, ...]
    ) -> tuple[list[_PlacePairs], Ints, Ints]:
        stepped = [place[flags] for place, flags in zip(places, has_step, strict=True)]
        keys = [self.steps[n][1][self._mark(n, stepped[n])] for n in (0, 1)]
        code = _factorize(groups[0][has_step[0]], groups[1][has_step[1]])
        code = _factorize(*_combine(code, _factorize(*keys)))
        full = _combine(code, (ordinals(code[0]), ordinals(code[1])))
        _, at_a, at_b = np.intersect1d(*full, assume_unique=True, return_indices=True)
        pairs_a, pairs_b = stepped[0][at_a], stepped[1][at_b]
        return [(pairs_a, pairs_b, pairs_a)], np.delete(stepped[0], at_a), np.delete(stepped[1], at_b)

    # ---- order

    def _pair_by_order(
        self, places: tuple[Ints, ...], groups: tuple[Ints, ...]
    ) -> tuple[list[_PlacePairs], Ints, Ints]:
        orders = [np.argsort(group, kind="stable") for group in groups]
        places = tuple(place[order] for place, order in zip(places, orders, strict=True))
        groups = tuple(group[order] for group, order in zip(groups, orders, strict=True))
        (groups_a, counts_a), (groups_b, counts_b) = (np.unique(group, return_counts=True) for group in groups)
        common, at_a, at_b = np.intersect1d(groups_a, groups_b, assume_unique=True, return_indices=True)
        even = common[counts_a[at_a] == counts_b[at_b]]
        even_places = [place[np.isin(group, even)] for place, group in zip(places, groups, strict=True)]
        parts: list[_PlacePairs] = [(even_places[0], even_places[1], even_places[0])]
        unpaired: list[list[Ints]] = [
            [place[~np.isin(group, common)]] for place, group in zip(places, groups, strict=True)
        ]
        uneven = np.setdiff1d(common, even)
        if len(uneven):
            pairs, rest = self._pair_by_value(places, groups, uneven)
            parts.append(pairs)
            unpaired[0].append(rest[0])
            unpaired[1].append(rest[1])
        return parts, np.concatenate(unpaired[0]), np.concatenate(unpaired[1])

    def _pair_by_value(
        self, places: tuple[Ints, ...], groups: tuple[Ints, ...], uneven: Ints
    ) -> tuple[_PlacePairs, tuple[Ints, Ints]]:
        """Pair the changes of names that changed more often in one run; also gives the unpaired ones."""
        masks = [np.isin(group, uneven) for group in groups]
        places_a, places_b = (place[mask] for place, mask in zip(places, masks, strict=True))
        ends = [np.searchsorted(group[mask], uneven, side="right") for group, mask in zip(groups, masks, strict=True)]
        keys = [self._value_keys(0, places_a), self._value_keys(1, places_b)]
        lines = [self._lines(0, places_a), self._lines(1, places_b)]
        at_a, at_b = pair_groups(keys, lines, ends)
        unpaired = np.delete(places_a, at_a), np.delete(places_b, at_b)
        return (places_a[at_a], places_b[at_b], places_a[at_a]), unpaired

    def _value_keys(self, number: int, places: Ints) -> Ints:
        """One number for each value, the same for equal values."""
        side, rows = self.sides[number], self.rows[number].row[places].astype(np.int64)
        keys = np.asarray(side.cells("number", rows), np.float64).copy().view(np.int64)
        stored = np.flatnonzero(side.cells("kind", rows) == Kind.VALUE)
        if len(stored):
            from clew.compare.value_heads import digests

            keys[stored] = digests(side, rows[stored])[0].view(np.int64)
        return keys

    def _lines(self, number: int, places: Ints) -> Ints:
        return lines_of(self.sides[number], self.rows[number].row[places].astype(np.int64))

    # ---- values that one run held while the other changed them

    def _paired_changes(self, parts: list[_PlacePairs]) -> tuple[Ints, Ints]:
        """The places of paired changes in both runs, without arguments and results, which frame all of them."""
        tokens = self.sides[0].vocabularies.tokens
        is_change_token = np.array([tokens.name(number)[0] == "value" for number in range(self.token_count)], np.bool_)
        at_a, at_b = (np.concatenate([part[number] for part in parts]) for number in (0, 1))
        is_change = is_change_token[self.rows[0].token[at_a]]
        return at_a[is_change], at_b[is_change]

    def _pair_with_held(self, number: int, unpaired: Ints, paired: tuple[Ints, Ints]) -> tuple[_PlacePairs, Ints]:
        """Pair each unpaired change with the value that the other run held at that moment; also gives the rest."""
        if len(unpaired) == 0:
            return (unpaired, unpaired, unpaired), unpaired
        other_number = 1 - number
        rows = self.rows[number]
        pair, token = rows.pair[unpaired].astype(np.int64), rows.token[unpaired].astype(np.int64)
        traced = self.is_tracer[self.function_of_pair[pair]]
        ends = np.where(traced, self._end_of_pair(other_number, pair), self._end_of_step(number, unpaired))
        stepless = ~traced & (self._mark(number, unpaired) < 0)
        if stepless.any():
            groups = self._groups(number, paired[number])
            ends[stepless] = moments(unpaired[stepless], paired[number], paired[other_number], groups)
        scope = np.where(traced, -1 - self.function_of_pair[pair], pair)
        held = _last_before(self._histories(other_number, bool(traced.any())), scope * self.token_count + token, ends)
        has_value = held >= 0
        changed, held = unpaired[has_value], held[has_value]
        if number == 0:
            return (changed, held, changed), unpaired[~has_value]
        moment = self._moment_in_a(changed, np.maximum(ends[has_value] - 1, 0), paired)
        return (held, changed, moment), unpaired[~has_value]

    def _moment_in_a(self, changed: Ints, latest: Ints, paired: tuple[Ints, Ints]) -> Ints:
        """Where the first run was at changes that only the second made: just before the next change both made."""
        order = np.argsort(paired[1], kind="stable")
        paired_a, paired_b = paired[0][order], paired[1][order]
        following = np.searchsorted(paired_b, changed, side="right")
        has_next = following < len(paired_b)
        pairs = self.rows[1].pair
        has_next[has_next] &= pairs[paired_b[following[has_next]]] == pairs[changed[has_next]]
        latest[has_next] = np.minimum(latest[has_next], np.maximum(paired_a[following[has_next]] - 1, 0))
        return latest

    def _end_of_pair(self, number: int, pair: Ints) -> Ints:
        """Where the rows of each pair end in a run."""
        return np.searchsorted(self.rows[number].pair, pair, side="right").astype(np.int64)

    def _end_of_step(self, number: int, places: Ints) -> Ints:
        """By place: where its step ends in the other run; 0 if that did not finish the step, or there are no steps."""
        other_number = 1 - number
        mark = self._mark(number, places)
        keys = np.where(mark >= 0, np.append(self.steps[number][1], 0)[mark], 0)
        other_marks, other_keys = self.steps[other_number]
        other_pair = self.rows[other_number].pair[other_marks].astype(np.int64)
        pair = self.rows[number].pair[places].astype(np.int64)
        other_code, code = _factorize(*_combine(_factorize(other_pair, pair), _factorize(other_keys, keys)))
        unique_codes, first = np.unique(other_code, return_index=True)
        at = np.searchsorted(unique_codes, code)
        exists = (mark >= 0) & (at < len(unique_codes))
        exists[exists] &= unique_codes[at[exists]] == code[exists]
        step_ends = np.append(other_marks[1:], len(self.rows[other_number].pair)) if len(other_marks) else other_marks
        pair_ends = self._end_of_pair(other_number, pair)
        ends = np.zeros(len(places), np.int64)
        ends[exists] = np.minimum(step_ends[first[at[exists]]], pair_ends[exists])
        ends[self.raised_of_pair[other_number][pair] & (ends == pair_ends)] = 0  # it did not finish that step
        return ends

    def _histories(self, number: int, traced: bool) -> tuple[Ints, Ints]:
        """The group and place of every row, sorted: within its call; of tracers, within all calls of its function."""
        rows = self.rows[number]
        places = np.flatnonzero(rows.token >= 0) if traced else self.places[number]
        places = places[rows.token[places] >= 0]
        pair = rows.pair[places].astype(np.int64)
        function = self.function_of_pair[pair]
        scope = np.where(self.is_tracer[function], -1 - function, pair)
        group = scope * self.token_count + rows.token[places]
        order = np.argsort(group, kind="stable")
        return group[order].astype(np.int64), places[order].astype(np.int64)


def _last_before(history: tuple[Ints, Ints], group: Ints, end: Ints) -> Ints:
    """For each group, the last place before `end`; -1 if there is none."""
    groups, places = history
    if len(groups) == 0:
        return np.full(len(group), -1, np.int64)
    width = int(max(places.max(), end.max(initial=0))) + 1
    codes, wanted_codes = _factorize(groups, group)
    keys = codes * width + places  # ascending, as both are
    at = np.searchsorted(keys, wanted_codes * width + end) - 1
    exists = (at >= 0) & (codes[np.maximum(at, 0)] == wanted_codes)
    return np.where(exists, places[np.maximum(at, 0)], -1)


def _factorize(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Replace large numbers by small ones, the same in both."""
    _, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    return codes[: len(a)], codes[len(a) :]


def _combine(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """One number for each pair of numbers."""
    width = 1 + max(int(part.max(initial=0)) for part in second)
    return first[0] * width + second[0], first[1] * width + second[1]

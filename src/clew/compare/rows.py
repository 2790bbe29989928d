"""Which values of two calls that belong together are the same value.

By name, and by the step it was at; without steps by order. Lines do not count: a refactoring moves them. A probe
writes a value when it changes, so where one run has a change at a step and the other has none, the other held what it
had before, and that is what it is compared with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.ends import raising
from clew.compare.sequence import Ints, ordinals
from clew.compare.side import ITEM_ROW, OUT, STEP_ROW
from clew.compare.unstepped import lines_of, moments, pair_groups
from clew.history.table import is_sorted
from clew.records import Kind

if TYPE_CHECKING:
    from clew.compare.calls import CallPairs
    from clew.compare.side import Side

Flags = npt.NDArray[np.bool_]
_NO_STEP = -1


class RowPairs(NamedTuple):
    """Values that belong together: their rows in both runs, the pair of calls they are in, and their token.

    `at` is the row of the first run that says when it was: another than `a` where the first run only held the value.
    """

    a: npt.NDArray[Any]  # numbers as short as will do
    b: npt.NDArray[Any]
    pair: npt.NDArray[Any]
    token: npt.NDArray[Any]
    at: npt.NDArray[Any]
    only_a: Ints
    only_b: Ints
    held: tuple[int, int]  # from which of these on the second run only held its value; and from which on the first did


class Sorted(NamedTuple):
    """The rows of one run that are in paired calls, pair by pair, in the order they happened."""

    row: npt.NDArray[Any]  # numbers as short as will do
    pair: npt.NDArray[np.int32]
    token: npt.NDArray[np.int32]


def pair_rows(a: Side, b: Side, pairs: CallPairs) -> RowPairs:
    numbers = np.arange(len(pairs.a))
    rows_a, rows_b = _sorted(a, pairs.a, numbers), _sorted(b, pairs.b, numbers)
    regular = _regular(a, b, rows_a, rows_b, len(pairs.a))
    if regular is None:
        mask_a, mask_b = rows_a.token >= 0, rows_b.token >= 0
    else:
        mask_a, mask_b = regular[rows_a.pair] & (rows_a.token >= 0), regular[rows_b.pair] & (rows_b.token >= 0)
    if regular is None and mask_a.all():
        nothing = np.empty(0, np.int64)
        none = len(rows_a.row), len(rows_a.row)
        return RowPairs(rows_a.row, rows_b.row, rows_a.pair, rows_a.token, rows_a.row, nothing, nothing, none)
    at_a, at_b = np.flatnonzero(mask_a), np.flatnonzero(mask_b)
    if regular is None or regular.all():
        return _joined(rows_a, rows_b, [(at_a, at_b, at_a)], at_a[:0], at_b[:0], (0, 0))
    raised = raising(a)[pairs.a], raising(b)[pairs.b]
    rest = _Irregular(a, b, rows_a, rows_b, regular, a.function[pairs.a], a.is_tracer, raised)
    found, left_a, left_b, held = rest.solve()
    return _joined(rows_a, rows_b, [(at_a, at_b, at_a), *found], left_a, left_b, held)


def _sorted(side: Side, calls: Ints, numbers: Ints) -> Sorted:
    pair_of = np.full(len(side) + 1, -1, np.int32)  # the last cell is for rows whose call was lost
    pair_of[calls] = numbers
    pair = pair_of[side.call]
    token = side.token
    if len(side.extra.call):
        pair = np.concatenate([pair, pair_of[side.extra.call]])
        token = np.concatenate([token, side.extra.token.astype(np.int32)])
    wanted = (pair >= 0) & (token != OUT) & (token != ITEM_ROW)
    if wanted.all():
        rows = np.arange(len(pair), dtype=_narrow(len(pair)))
    else:
        rows = np.flatnonzero(wanted).astype(_narrow(len(pair)))
        pair, token = pair[rows], token[rows]
    if is_sorted(pair):
        return Sorted(rows, pair, token)
    order = np.argsort(pair, kind="stable")
    return Sorted(rows[order], pair[order], token[order])


def _narrow(count: int) -> Any:
    """Row numbers in as few bytes as they need: there may be a hundred million of them."""
    return np.int32 if count < 2**31 else np.int64


def _regular(a: Side, b: Side, rows_a: Sorted, rows_b: Sorted, count: int) -> Flags | None:
    """Pairs of calls in which the same names change in the same order at the same steps; None if that are all."""
    same = len(rows_a.row) == len(rows_b.row) and bool(
        np.array_equal(rows_a.pair, rows_b.pair) and np.array_equal(rows_a.token, rows_b.token)
    )
    if same and not (rows_a.token == STEP_ROW).any():
        return None
    signs_a, signs_b = _signs(a, rows_a, count), _signs(b, rows_b, count)
    regular = signs_a == signs_b
    return None if same and regular.all() else regular


def _signs(side: Side, rows: Sorted, count: int) -> npt.NDArray[np.uint64]:
    """One number for the tokens and steps of each pair's rows, in their order."""
    signs = np.zeros(count, np.uint64)
    if len(rows.pair) == 0:
        return signs
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
        signs[rows.pair[heads]] = np.add.reduceat(mixed, heads) + lengths.astype(np.uint64)
    return signs


_Found = tuple[Ints, Ints, Ints]


def _joined(
    rows_a: Sorted, rows_b: Sorted, found: list[_Found], left_a: Ints, left_b: Ints, held: tuple[int, int]
) -> RowPairs:
    """Places among the sorted rows become rows. The last are held ones: so many by the second run, and by the first."""
    at_a, at_b, at = (np.concatenate(parts) if len(found) > 1 else parts[0] for parts in zip(*found, strict=True))
    same = at is at_a
    row, pair = rows_a.row[at_a], rows_a.pair[at_a]
    if held[1]:
        pair[-held[1] :] = rows_b.pair[at_b[-held[1] :]]  # what the first run held may be of an iteration before
    return RowPairs(
        row,
        rows_b.row[at_b],
        pair,
        rows_a.token[at_a],
        row if same else rows_a.row[at],
        rows_a.row[left_a].astype(np.int64),
        rows_b.row[left_b].astype(np.int64),
        (len(row) - held[0] - held[1], len(row) - held[1]),
    )


class _Irregular:
    """The pairs of calls in which not the same names changed in the same order. Works with places in sorted rows."""

    def __init__(
        self,
        a: Side,
        b: Side,
        rows_a: Sorted,
        rows_b: Sorted,
        regular: Flags,
        functions: Ints,
        is_tracer: Flags,
        raised: tuple[Flags, Flags],
    ) -> None:
        self.sides = (a, b)
        self.rows = (rows_a, rows_b)
        self.tokens = len(a.words.tokens)
        self.function = functions
        self.is_tracer = is_tracer
        self.raised = raised  # by pair: whether the call ended with an exception
        self.at = tuple(np.flatnonzero(~regular[rows.pair]) for rows in self.rows)  # step rows among them
        self.steps = tuple(self._steps_of(number) for number in (0, 1))

    def solve(self) -> tuple[list[_Found], Ints, Ints, tuple[int, int]]:
        places = tuple(at[rows.token[at] >= 0] for at, rows in zip(self.at, self.rows, strict=True))
        groups = tuple(self._groups(number, places[number]) for number in (0, 1))
        stepped = tuple(self._stepped(number, places[number]) for number in (0, 1))
        found, left_a, left_b = self._by_step(places, groups, stepped)
        more, rest_a, rest_b = self._by_order(
            tuple(place[~flags] for place, flags in zip(places, stepped, strict=True)),
            tuple(group[~flags] for group, flags in zip(groups, stepped, strict=True)),
        )
        found += more
        left_a, left_b = np.concatenate([left_a, rest_a]), np.concatenate([left_b, rest_b])
        paired = self._paired(found)
        by_b, left_a = self._held(0, left_a, paired)
        by_a, left_b = self._held(1, left_b, paired)
        return [*found, by_b, by_a], np.sort(left_a), np.sort(left_b), (len(by_b[0]), len(by_a[0]))

    def _groups(self, number: int, places: Ints) -> Ints:
        rows = self.rows[number]
        return rows.pair[places].astype(np.int64) * self.tokens + rows.token[places]

    # ---- steps

    def _steps_of(self, number: int) -> tuple[Ints, Ints]:
        """Places of the step rows of these pairs, and the keys of their steps."""
        rows, at = self.rows[number], self.at[number]
        places = at[rows.token[at] == STEP_ROW]
        return places, self.sides[number].step_keys(rows.row[places].astype(np.int64))

    def _stepped(self, number: int, places: Ints) -> Flags:
        """Which of these are in calls that say their steps in both runs, after the first of them."""
        having = np.intersect1d(self.rows[0].pair[self.steps[0][0]], self.rows[1].pair[self.steps[1][0]])
        return np.asarray(np.isin(self.rows[number].pair[places], having) & (self._mark(number, places) >= 0), np.bool_)

    def _mark(self, number: int, places: Ints) -> Ints:
        """Which step row holds for each place; -1 before the first of its call."""
        marks, rows = self.steps[number][0], self.rows[number]
        before = np.searchsorted(marks, places, side="right") - 1
        own = (before >= 0) & (rows.row[places] < len(self.sides[number].table))  # arguments as one value have no step
        if len(marks):
            own &= rows.pair[marks[np.maximum(before, 0)]] == rows.pair[places]
        return np.where(own, before, -1)

    def _by_step(
        self, places: tuple[Ints, ...], groups: tuple[Ints, ...], stepped: tuple[Flags, ...]
    ) -> tuple[list[_Found], Ints, Ints]:
        chosen = [place[flags] for place, flags in zip(places, stepped, strict=True)]
        keys = [self.steps[n][1][self._mark(n, chosen[n])] for n in (0, 1)]
        code = _factored(groups[0][stepped[0]], groups[1][stepped[1]])
        code = _factored(*_combined(code, _factored(*keys)))
        full = _combined(code, (ordinals(code[0]), ordinals(code[1])))
        _, at_a, at_b = np.intersect1d(*full, assume_unique=True, return_indices=True)
        left_a, left_b = np.delete(chosen[0], at_a), np.delete(chosen[1], at_b)
        pairs_a, pairs_b = chosen[0][at_a], chosen[1][at_b]
        return [(pairs_a, pairs_b, pairs_a)], left_a, left_b

    # ---- order

    def _by_order(self, places: tuple[Ints, ...], groups: tuple[Ints, ...]) -> tuple[list[_Found], Ints, Ints]:
        order = [np.argsort(group, kind="stable") for group in groups]
        places = tuple(place[one] for place, one in zip(places, order, strict=True))
        groups = tuple(group[one] for group, one in zip(groups, order, strict=True))
        known = [np.unique(group, return_counts=True) for group in groups]
        common, at_a, at_b = np.intersect1d(known[0][0], known[1][0], assume_unique=True, return_indices=True)
        equal = common[known[0][1][at_a] == known[1][1][at_b]]
        zipped = [place[np.isin(group, equal)] for place, group in zip(places, groups, strict=True)]
        found: list[_Found] = [(zipped[0], zipped[1], zipped[0])]
        left: list[list[Ints]] = [[place[~np.isin(group, common)]] for place, group in zip(places, groups, strict=True)]
        uneven = np.setdiff1d(common, equal)
        if len(uneven):
            pairs, rest = self._by_value(places, groups, uneven)
            found.append(pairs)
            left[0].append(rest[0])
            left[1].append(rest[1])
        return found, np.concatenate(left[0]), np.concatenate(left[1])

    def _by_value(
        self, places: tuple[Ints, ...], groups: tuple[Ints, ...], uneven: Ints
    ) -> tuple[_Found, tuple[Ints, Ints]]:
        """The pairs of names that changed more often in one run, and what is left of them."""
        inside = [np.isin(group, uneven) for group in groups]
        some = [place[mask] for place, mask in zip(places, inside, strict=True)]
        ends = [np.searchsorted(group[mask], uneven, side="right") for group, mask in zip(groups, inside, strict=True)]
        keys = [self._value_keys(number, some[number]) for number in (0, 1)]
        lines = [self._lines(number, some[number]) for number in (0, 1)]
        at_a, at_b = pair_groups(keys, lines, ends)
        left = np.delete(some[0], at_a), np.delete(some[1], at_b)
        return (some[0][at_a], some[1][at_b], some[0][at_a]), left

    def _value_keys(self, number: int, places: Ints) -> Ints:
        """A number for each value, the same for equal ones: where one is missing, the others find each other by it."""
        side, rows = self.sides[number], self.rows[number].row[places].astype(np.int64)
        keys = np.asarray(side.cells("number", rows), np.float64).copy().view(np.int64)
        pointing = np.flatnonzero(side.cells("kind", rows) == Kind.VALUE)
        if len(pointing):
            from clew.compare.stored import digests

            keys[pointing] = digests(side, rows[pointing])[0].view(np.int64)
        return keys

    def _lines(self, number: int, places: Ints) -> Ints:
        return lines_of(self.sides[number], self.rows[number].row[places].astype(np.int64))

    # ---- what one run held while the other changed

    def _paired(self, found: list[_Found]) -> tuple[Ints, Ints]:
        """Places of the changes that belong together, in both runs; no arguments and results, which frame all."""
        words = self.sides[0].words.tokens
        changing = np.array([words.name(number)[0] == "value" for number in range(self.tokens)], np.bool_)
        at_a, at_b = (np.concatenate([pairs[number] for pairs in found]) for number in (0, 1))
        wanted = changing[self.rows[0].token[at_a]]
        return at_a[wanted], at_b[wanted]

    def _held(self, number: int, left: Ints, paired: tuple[Ints, Ints]) -> tuple[_Found, Ints]:
        """Those of `left` for which the other run held a value, with it; and the rest."""
        if len(left) == 0:
            return (left, left, left), left
        other = 1 - number
        rows = self.rows[number]
        pair, token = rows.pair[left].astype(np.int64), rows.token[left].astype(np.int64)
        traced = self.is_tracer[self.function[pair]]
        ends = np.where(traced, self._end_of_pair(other, pair), self._end_of_step(number, left))
        stepless = ~traced & (self._mark(number, left) < 0)
        if stepless.any():
            groups = self._groups(number, paired[number])
            ends[stepless] = moments(left[stepless], paired[number], paired[other], groups)
        own = np.where(traced, -1 - self.function[pair], pair)
        held = _last_before(self._histories(other, bool(traced.any())), own * self.tokens + token, ends)
        good = held >= 0
        mine, theirs = left[good], held[good]
        moment = mine if number == 0 else self._moment(mine, np.maximum(ends[good] - 1, 0), paired)
        return ((mine, theirs, moment) if number == 0 else (theirs, mine, moment)), left[~good]

    def _moment(self, mine: Ints, latest: Ints, paired: tuple[Ints, Ints]) -> Ints:
        """Where the first run was when the second changed what the first held: just before what both did next."""
        order = np.argsort(paired[1], kind="stable")
        theirs, ours = paired[1][order], paired[0][order]
        following = np.searchsorted(theirs, mine, side="right")
        known = following < len(theirs)
        pairs = self.rows[1].pair
        known[known] &= pairs[theirs[following[known]]] == pairs[mine[known]]
        latest[known] = np.minimum(latest[known], np.maximum(ours[following[known]] - 1, 0))
        return latest

    def _end_of_pair(self, other: int, pair: Ints) -> Ints:
        """Where the rows of each pair end in the other run."""
        return np.searchsorted(self.rows[other].pair, pair, side="right").astype(np.int64)

    def _end_of_step(self, number: int, left: Ints) -> Ints:
        """Where in the other run the step of each place ends; 0 if it did not get there, or there are no steps."""
        other = 1 - number
        mark = self._mark(number, left)
        keys = np.where(mark >= 0, np.append(self.steps[number][1], 0)[mark], 0)
        marks, values = self.steps[other]
        pairs = self.rows[other].pair[marks].astype(np.int64)
        pair = self.rows[number].pair[left].astype(np.int64)
        code, wanted = _factored(*_combined(_factored(pairs, pair), _factored(values, keys)))
        known, first = np.unique(code, return_index=True)
        at = np.searchsorted(known, wanted)
        there = (mark >= 0) & (at < len(known))
        there[there] &= known[at[there]] == wanted[there]
        ends = np.append(marks[1:], len(self.rows[other].pair)) if len(marks) else marks
        pair_ends = self._end_of_pair(other, pair)
        out = np.zeros(len(left), np.int64)
        out[there] = np.minimum(ends[first[at[there]]], pair_ends[there])
        out[self.raised[other][pair] & (out == pair_ends)] = 0  # it did not get to the end of that step
        return out

    def _histories(self, number: int, traced: bool) -> tuple[Ints, Ints]:
        """(group, place) of every row, sorted: within its call; for tracers within all calls of its function."""
        rows = self.rows[number]
        places = np.flatnonzero(rows.token >= 0) if traced else self.at[number]
        places = places[rows.token[places] >= 0]
        pair = rows.pair[places].astype(np.int64)
        function = self.function[pair]
        own = np.where(self.is_tracer[function], -1 - function, pair)
        group = own * self.tokens + rows.token[places]
        order = np.argsort(group, kind="stable")
        return group[order].astype(np.int64), places[order].astype(np.int64)


def _last_before(history: tuple[Ints, Ints], group: Ints, end: Ints) -> Ints:
    """For each group the last place before `end`; -1 if there is none."""
    groups, places = history
    if len(groups) == 0:
        return np.full(len(group), -1, np.int64)
    width = int(max(places.max(), end.max(initial=0))) + 1
    codes, wanted = _factored(groups, group)
    keys = codes * width + places  # ascending, as both are
    at = np.searchsorted(keys, wanted * width + end) - 1
    good = (at >= 0) & (codes[np.maximum(at, 0)] == wanted)
    return np.where(good, places[np.maximum(at, 0)], -1)


def _factored(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Small numbers in place of large ones, the same in both."""
    _, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    return codes[: len(a)], codes[len(a) :]


def _combined(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """One number for two."""
    width = 1 + max(int(part.max(initial=0)) for part in second)
    return first[0] * width + second[0], first[1] * width + second[1]

"""Two sequences of numbers laid side by side: which items of one are which of the other, in order.

Common beginnings and ends first, then the items that occur once in each (alone, or with those that follow them; or the
first with the first, the second with the second), then the same again in the gaps between those. Small gaps are solved
exactly. Nothing here ever looks at every item of one against every item of the other.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

EXACT: Final = 1 << 14  # cells of a gap that is solved exactly
WINDOW: Final = 16  # items that together tell where they belong, where each alone does not


def align(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Places in `a` and in `b` of the items that belong together, ascending in both."""
    found_a: list[Ints] = []
    found_b: list[Ints] = []
    todo = [(0, len(a), 0, len(b))]
    while todo:
        a0, a1, b0, b1 = todo.pop()
        head = common_prefix(a[a0:a1], b[b0:b1])
        tail = common_prefix(a[a0 + head : a1][::-1], b[b0 + head : b1][::-1])
        found_a += [np.arange(a0, a0 + head), np.arange(a1 - tail, a1)]
        found_b += [np.arange(b0, b0 + head), np.arange(b1 - tail, b1)]
        a0, a1, b0, b1 = a0 + head, a1 - tail, b0 + head, b1 - tail
        if a0 == a1 or b0 == b1:
            continue
        if (a1 - a0) * (b1 - b0) <= EXACT:
            inside_a, inside_b = longest_common(a[a0:a1].tolist(), b[b0:b1].tolist())
            found_a.append(np.array(inside_a, np.int64) + a0)
            found_b.append(np.array(inside_b, np.int64) + b0)
            continue
        anchors_a, anchors_b = anchors(a[a0:a1], b[b0:b1])
        if len(anchors_a) == 0:
            continue
        anchors_a, anchors_b = anchors_a + a0, anchors_b + b0
        found_a.append(anchors_a)
        found_b.append(anchors_b)
        todo += _gaps(anchors_a, anchors_b, (a0, a1, b0, b1))
    joined_a, joined_b = (
        np.concatenate([np.empty(0, np.int64), *found_a]),
        np.concatenate([np.empty(0, np.int64), *found_b]),
    )
    order = np.argsort(joined_a, kind="stable")
    return joined_a[order], joined_b[order]


def common_prefix(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> int:
    """How many items at the beginning are the same."""
    length, step, done = min(len(a), len(b)), 64, 0
    while done < length:  # in growing steps: mostly either very few are the same, or nearly all
        end = min(done + step, length)
        differ = a[done:end] != b[done:end]
        if differ.any():
            return done + int(differ.argmax())
        done, step = end, step * 4
    return length


def anchors(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Items that surely belong together: those that occur once in each; else those with surroundings that occur once
    in each; else the n-th with the n-th."""
    _, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    codes_a, codes_b = codes[: len(a)], codes[len(a) :]
    found_a, found_b = _once_in_each(codes_a, codes_b)
    if len(found_a) == 0 and min(len(a), len(b)) > WINDOW:
        found_a, found_b = _once_in_each(*_windows(codes_a, codes_b))
    if len(found_a) == 0:
        found_a, found_b = _nth_with_nth(codes_a, codes_b)
    by_place = np.argsort(found_a, kind="stable")
    pairs_a, pairs_b = found_a[by_place].astype(np.int64), found_b[by_place].astype(np.int64)
    kept = longest_ascent(pairs_b)
    return pairs_a[kept], pairs_b[kept]


def _once_in_each(codes_a: Ints, codes_b: Ints) -> tuple[Ints, Ints]:
    size = int(max(codes_a.max(), codes_b.max())) + 1
    once = (np.bincount(codes_a, minlength=size) == 1) & (np.bincount(codes_b, minlength=size) == 1)
    places_a, places_b = np.flatnonzero(once[codes_a]), np.flatnonzero(once[codes_b])
    return places_a[np.argsort(codes_a[places_a])], places_b[np.argsort(codes_b[places_b])]


def _windows(codes_a: Ints, codes_b: Ints) -> tuple[Ints, Ints]:
    """A number for each item and those that follow it, the same for the same."""
    width = 1
    while width < WINDOW:
        top = int(max(codes_a.max(), codes_b.max())) + 1
        pairs = [codes[:-width] * top + codes[width:] for codes in (codes_a, codes_b)]
        _, codes = np.unique(np.concatenate(pairs), return_inverse=True)
        codes_a, codes_b = codes[: len(pairs[0])], codes[len(pairs[0]) :]
        width *= 2
    return codes_a, codes_b


def _nth_with_nth(codes_a: Ints, codes_b: Ints) -> tuple[Ints, Ints]:
    keys_a, keys_b = (codes * (max(len(codes_a), len(codes_b)) + 1) + ordinals(codes) for codes in (codes_a, codes_b))
    _, at_a, at_b = np.intersect1d(keys_a, keys_b, assume_unique=True, return_indices=True)
    return at_a.astype(np.int64), at_b.astype(np.int64)


def ordinals(codes: npt.NDArray[Any]) -> Ints:
    """For each item how many equal ones came before it."""
    if len(codes) == 0:
        return np.empty(0, np.int64)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.append(starts, len(codes)))
    out = np.empty(len(codes), np.int64)
    out[order] = np.arange(len(codes)) - np.repeat(starts, counts)
    return out


def longest_ascent(items: Ints) -> Ints:
    """Places of a longest strictly ascending part."""
    if len(items) < 2 or bool(np.all(items[1:] > items[:-1])):
        return np.arange(len(items))
    tops: list[int] = []  # the smallest last item of an ascent of each length
    top_places: list[int] = []
    before = [-1] * len(items)
    for place, item in enumerate(items.tolist()):
        at = bisect_left(tops, item)
        before[place] = top_places[at - 1] if at else -1
        if at == len(tops):
            tops.append(item)
            top_places.append(place)
        else:
            tops[at], top_places[at] = item, place
    kept: list[int] = []
    place = top_places[-1]
    while place >= 0:
        kept.append(place)
        place = before[place]
    return np.array(kept[::-1], np.int64)


def longest_common(a: list[Any], b: list[Any]) -> tuple[list[int], list[int]]:
    """A longest common subsequence, by the table of all lengths: for short sequences. The earliest is preferred."""
    width = len(b)
    rows = [[0] * (width + 1)]
    for item in reversed(a):
        below, row = rows[-1], [0] * (width + 1)
        for place in range(width - 1, -1, -1):
            row[place] = below[place + 1] + 1 if item == b[place] else max(below[place], row[place + 1])
        rows.append(row)
    rows.reverse()
    found_a: list[int] = []
    found_b: list[int] = []
    i = j = 0
    while i < len(a) and j < width:
        if a[i] == b[j]:
            found_a.append(i)
            found_b.append(j)
            i, j = i + 1, j + 1
        elif rows[i + 1][j] >= rows[i][j + 1]:
            i += 1
        else:
            j += 1
    return found_a, found_b


def _gaps(anchors_a: Ints, anchors_b: Ints, ends: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    """What lies between the anchors, where there is something on both sides."""
    a0, a1, b0, b1 = ends
    begin_a, begin_b = np.concatenate([[a0], anchors_a + 1]), np.concatenate([[b0], anchors_b + 1])
    end_a, end_b = np.append(anchors_a, a1), np.append(anchors_b, b1)
    open_ = (end_a > begin_a) & (end_b > begin_b)
    columns = (begin_a[open_].tolist(), end_a[open_].tolist(), begin_b[open_].tolist(), end_b[open_].tolist())
    return list(zip(*columns, strict=True))


def fill_gaps(length_a: int, length_b: int, found: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The pairs, and in the gaps between them the first with the first, as far as both sides have something."""
    at_a, at_b = found
    begin_a, begin_b = np.concatenate([[0], at_a + 1]), np.concatenate([[0], at_b + 1])
    size = np.minimum(np.append(at_a, length_a) - begin_a, np.append(at_b, length_b) - begin_b)
    inside = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    more_a, more_b = np.repeat(begin_a, size) + inside, np.repeat(begin_b, size) + inside
    all_a, all_b = np.concatenate([at_a, more_a]), np.concatenate([at_b, more_b])
    order = np.argsort(all_a, kind="stable")
    return all_a[order].astype(np.int64), all_b[order].astype(np.int64)

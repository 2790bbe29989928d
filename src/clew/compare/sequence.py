"""Aligns two sequences of numbers: pairs equal items, in order.

Common beginnings and ends come first, then the items that occur once in each sequence (alone, or with
those that follow them; otherwise the n-th with the n-th), then the same again in the gaps between
those. Small gaps are solved exactly. Long sequences are never compared item against item.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

EXACT: Final = 1 << 14  # most cells (length times length) of a gap that is solved exactly
WINDOW: Final = 16  # items that are unique together where each alone is not


def align(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Places in `a` and in `b` of the paired items, ascending in both."""
    parts_a: list[Ints] = []
    parts_b: list[Ints] = []
    gaps = [(0, len(a), 0, len(b))]
    while gaps:
        a0, a1, b0, b1 = gaps.pop()
        head = common_prefix(a[a0:a1], b[b0:b1])
        tail = common_prefix(a[a0 + head : a1][::-1], b[b0 + head : b1][::-1])
        parts_a += [np.arange(a0, a0 + head), np.arange(a1 - tail, a1)]
        parts_b += [np.arange(b0, b0 + head), np.arange(b1 - tail, b1)]
        a0, a1, b0, b1 = a0 + head, a1 - tail, b0 + head, b1 - tail
        if a0 == a1 or b0 == b1:
            continue
        if (a1 - a0) * (b1 - b0) <= EXACT:
            places_a, places_b = longest_common(a[a0:a1].tolist(), b[b0:b1].tolist())
            parts_a.append(np.array(places_a, np.int64) + a0)
            parts_b.append(np.array(places_b, np.int64) + b0)
            continue
        anchors_a, anchors_b = anchors(a[a0:a1], b[b0:b1])
        if len(anchors_a) == 0:
            continue
        anchors_a, anchors_b = anchors_a + a0, anchors_b + b0
        parts_a.append(anchors_a)
        parts_b.append(anchors_b)
        gaps += _gaps_between(anchors_a, anchors_b, (a0, a1, b0, b1))
    joined_a, joined_b = (
        np.concatenate([np.empty(0, np.int64), *parts_a]),
        np.concatenate([np.empty(0, np.int64), *parts_b]),
    )
    order = np.argsort(joined_a, kind="stable")
    return joined_a[order], joined_b[order]


def common_prefix(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> int:
    """How many items at the beginning are the same."""
    length, step, begin = min(len(a), len(b)), 64, 0
    while begin < length:  # in growing steps: usually either very few are the same, or nearly all
        end = min(begin + step, length)
        differ = a[begin:end] != b[begin:end]
        if differ.any():
            return begin + int(differ.argmax())
        begin, step = end, step * 4
    return length


def anchors(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Pairs to align by: items that occur once in each; else items that do so together with those that follow; else
    the n-th with the n-th."""
    _, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    codes_a, codes_b = codes[: len(a)], codes[len(a) :]
    places_a, places_b = _once_in_each(codes_a, codes_b)
    if len(places_a) == 0 and min(len(a), len(b)) > WINDOW:
        places_a, places_b = _once_in_each(*_windows(codes_a, codes_b))
    if len(places_a) == 0:
        places_a, places_b = _nth_with_nth(codes_a, codes_b)
    by_place = np.argsort(places_a, kind="stable")
    pairs_a, pairs_b = places_a[by_place].astype(np.int64), places_b[by_place].astype(np.int64)
    ascending = longest_ascent(pairs_b)
    return pairs_a[ascending], pairs_b[ascending]


def _once_in_each(codes_a: Ints, codes_b: Ints) -> tuple[Ints, Ints]:
    size = int(max(codes_a.max(), codes_b.max())) + 1
    once = (np.bincount(codes_a, minlength=size) == 1) & (np.bincount(codes_b, minlength=size) == 1)
    places_a, places_b = np.flatnonzero(once[codes_a]), np.flatnonzero(once[codes_b])
    return places_a[np.argsort(codes_a[places_a])], places_b[np.argsort(codes_b[places_b])]


def _windows(codes_a: Ints, codes_b: Ints) -> tuple[Ints, Ints]:
    """One number for each item and those that follow it, equal for equal windows."""
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
    """For each item, how many equal ones come before it."""
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
    """Places of a longest strictly ascending subsequence."""
    if len(items) < 2 or bool(np.all(items[1:] > items[:-1])):
        return np.arange(len(items))
    tops: list[int] = []  # for each length, the smallest last item of an ascent
    top_places: list[int] = []
    previous = [-1] * len(items)
    for place, item in enumerate(items.tolist()):
        at = bisect_left(tops, item)
        previous[place] = top_places[at - 1] if at else -1
        if at == len(tops):
            tops.append(item)
            top_places.append(place)
        else:
            tops[at], top_places[at] = item, place
    places: list[int] = []
    place = top_places[-1]
    while place >= 0:
        places.append(place)
        place = previous[place]
    return np.array(places[::-1], np.int64)


def longest_common(a: list[Any], b: list[Any]) -> tuple[list[int], list[int]]:
    """A longest common subsequence, the earliest one; the table of all lengths makes it for short sequences only."""
    width = len(b)
    rows = [[0] * (width + 1)]
    for item in reversed(a):
        below, row = rows[-1], [0] * (width + 1)
        for place in range(width - 1, -1, -1):
            row[place] = below[place + 1] + 1 if item == b[place] else max(below[place], row[place + 1])
        rows.append(row)
    rows.reverse()
    places_a: list[int] = []
    places_b: list[int] = []
    i = j = 0
    while i < len(a) and j < width:
        if a[i] == b[j]:
            places_a.append(i)
            places_b.append(j)
            i, j = i + 1, j + 1
        elif rows[i + 1][j] >= rows[i][j + 1]:
            i += 1
        else:
            j += 1
    return places_a, places_b


def _gaps_between(anchors_a: Ints, anchors_b: Ints, ends: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    """The gaps between the anchors that have items in both sequences."""
    a0, a1, b0, b1 = ends
    begin_a, begin_b = np.concatenate([[a0], anchors_a + 1]), np.concatenate([[b0], anchors_b + 1])
    end_a, end_b = np.append(anchors_a, a1), np.append(anchors_b, b1)
    has_both = (end_a > begin_a) & (end_b > begin_b)
    columns = (
        begin_a[has_both].tolist(),
        end_a[has_both].tolist(),
        begin_b[has_both].tolist(),
        end_b[has_both].tolist(),
    )
    return list(zip(*columns, strict=True))


def fill_gaps(length_a: int, length_b: int, pairs: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The pairs, and in each gap between them the n-th item with the n-th, as far as both have one."""
    at_a, at_b = pairs
    begin_a, begin_b = np.concatenate([[0], at_a + 1]), np.concatenate([[0], at_b + 1])
    size = np.minimum(np.append(at_a, length_a) - begin_a, np.append(at_b, length_b) - begin_b)
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    more_a, more_b = np.repeat(begin_a, size) + offset, np.repeat(begin_b, size) + offset
    all_a, all_b = np.concatenate([at_a, more_a]), np.concatenate([at_b, more_b])
    order = np.argsort(all_a, kind="stable")
    return all_a[order].astype(np.int64), all_b[order].astype(np.int64)

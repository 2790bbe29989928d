"""Sequences are aligned like by a slow simple oracle, or with the required properties where there is none."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.compare import sequence
from clew.compare.sequence import align, common_prefix, fill_gaps, longest_ascent, ordinals

SHORT = st.lists(st.integers(0, 5), max_size=24)


def longest(a: list[int], b: list[int]) -> int:
    """The length of the longest common subsequence, by the book."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for place, y in enumerate(b):
            row[place + 1] = before[place] + 1 if x == y else max(before[place + 1], row[place])
    return row[-1]


def aligned(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    found = align(np.array(a, np.int64), np.array(b, np.int64))
    return list(zip(*(part.tolist() for part in found), strict=True))


def is_valid(a: list[int], b: list[int], pairs: list[tuple[int, int]]) -> bool:
    ascending = all(p[0] < q[0] and p[1] < q[1] for p, q in pairwise(pairs))
    return ascending and all(a[i] == b[j] for i, j in pairs)


@given(SHORT, SHORT)
def test_short_sequences_are_aligned_as_well_as_can_be(a: list[int], b: list[int]) -> None:
    pairs = aligned(a, b)
    assert is_valid(a, b, pairs)
    assert len(pairs) == longest(a, b)


@given(SHORT, SHORT)
@settings(max_examples=100)
def test_the_way_for_long_sequences_is_valid_on_short_ones_and_no_worse_than_difflib_by_half(a, b) -> None:
    places, sequence.EXACT = sequence.EXACT, 0
    try:
        pairs = aligned(a, b)
    finally:
        sequence.EXACT = places
    assert is_valid(a, b, pairs)
    simple = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    assert len(pairs) >= simple / 2
    assert len(pairs) > 0 or simple == 0


@given(st.lists(st.integers(0, 40), min_size=200, max_size=600), st.integers(0, 10**6), st.integers(1, 5))
@settings(max_examples=12)
def test_only_inserted_items_of_a_long_sequence_remain_unpaired(base: list[int], seed: int, count: int) -> None:
    place = seed % len(base)
    wider = base[:place] + [1000 + n for n in range(count)] + base[place:]
    assert len(aligned(base, wider)) == len(base)
    assert len(aligned(wider, base)) == len(base)


def test_a_million_items_with_one_missing_are_aligned() -> None:
    a = np.tile(np.arange(100), 10_000)
    b = np.delete(a, 345_678)
    at_a, at_b = align(a, b)
    assert len(at_a) == len(b)
    assert np.array_equal(a[at_a], b[at_b])
    assert set(range(len(a))) - set(at_a.tolist()) == {345_678}


def test_a_repeated_pattern_whose_first_item_is_gone_still_finds_all_the_others() -> None:
    a = np.tile(np.arange(3), 4000)
    assert len(align(a, a[1:])[0]) == len(a) - 1


def test_few_kinds_of_items_in_no_order_are_found_by_what_surrounds_them() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 50_000)
    b = a[rng.random(len(a)) > 0.01]
    assert len(align(a, b)[0]) > 0.999 * len(b)


@given(SHORT)
def test_ordinals_count_the_equal_items_before(items: list[int]) -> None:
    assert ordinals(np.array(items, np.int64)).tolist() == [items[:i].count(x) for i, x in enumerate(items)]


@given(st.lists(st.integers(0, 50), max_size=30, unique=True))
def test_the_longest_ascent_is_the_longest(items: list[int]) -> None:
    places = longest_ascent(np.array(items, np.int64)).tolist()
    chosen = [items[place] for place in places]
    assert chosen == sorted(chosen)
    assert len(places) == longest(items, sorted(items))


def test_a_common_beginning_is_counted() -> None:
    a = np.arange(1000)
    b = a.copy()
    b[777] = 0
    assert (common_prefix(a, b), common_prefix(a, a), common_prefix(a, a[:0])) == (777, 1000, 0)


def test_gaps_are_filled_from_their_beginnings() -> None:
    found = fill_gaps(5, 4, (np.array([2]), np.array([1])))
    assert [part.tolist() for part in found] == [[0, 2, 3, 4], [0, 1, 2, 3]]

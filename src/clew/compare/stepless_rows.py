"""Pairs the values of calls without steps, and finds what one run held while the other changed a name.

Probes write what changes. A statement that assigns the old value again in one run and a new one in the
other has a row in the second only: rows of one name are therefore also aligned by their statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.compare.sequence import Ints, align, fill_gaps

if TYPE_CHECKING:
    from clew.compare.side import Side

_SHORT = 64  # most changes of one name in one call for which the pairs are remembered


def pair_groups(keys: list[Ints], lines: list[Ints], ends: list[Ints]) -> tuple[Ints, Ints]:
    """Pair many groups, each one name in one call, which end at `ends`. Groups that look the same are solved once."""
    pairs_by_pattern: dict[Any, tuple[Ints, Ints]] = {}
    places_a, places_b = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    begin_a = begin_b = 0
    for end_a, end_b in zip(*(end.tolist() for end in ends), strict=True):
        group_keys = [keys[0][begin_a:end_a], keys[1][begin_b:end_b]]
        group_lines = [lines[0][begin_a:end_a], lines[1][begin_b:end_b]]
        pattern = _group_pattern(group_keys, group_lines)
        pairs = pairs_by_pattern.get(pattern) if pattern is not None else None
        if pairs is None:
            pairs = pair_uneven(group_keys, group_lines)
            if pattern is not None:
                pairs_by_pattern[pattern] = pairs
        places_a.append(pairs[0] + begin_a)
        places_b.append(pairs[1] + begin_b)
        begin_a, begin_b = end_a, end_b
    return np.concatenate(places_a), np.concatenate(places_b)


def _group_pattern(keys: list[Ints], lines: list[Ints]) -> Any:
    """What the pairs of a group depend on: its statements, and which of its values are equal. None if it is long."""
    if len(keys[0]) + len(keys[1]) > _SHORT:
        return None
    numbers: dict[int, int] = {}
    equal = tuple(numbers.setdefault(key, len(numbers)) for part in keys for key in part.tolist())
    return len(keys[0]), equal, lines[0].tobytes(), lines[1].tobytes()


def pair_uneven(keys: list[Ints], lines: list[Ints]) -> tuple[Ints, Ints]:
    """Pair the changes of one name in one call that one run made more often: by value, then by statement or order."""
    if not _same_statements(*lines):
        return fill_gaps(len(keys[0]), len(keys[1]), align(*keys))
    statement, value = (np.unique(np.concatenate(columns), return_inverse=True)[1] for columns in (lines, keys))
    code = statement * (int(value.max(initial=0)) + 1) + value
    at_a, at_b = align(code[: len(keys[0])], code[len(keys[0]) :])
    places_a, places_b = [at_a], [at_b]
    edges_a, edges_b = np.concatenate([[-1], at_a, [len(keys[0])]]), np.concatenate([[-1], at_b, [len(keys[1])]])
    gaps = np.flatnonzero((np.diff(edges_a) > 1) & (np.diff(edges_b) > 1))
    for begin_a, end_a, begin_b, end_b in zip(
        *(edges[gaps + more].tolist() for edges in (edges_a, edges_b) for more in (0, 1)), strict=True
    ):
        gap_places_a, gap_places_b = align(lines[0][begin_a + 1 : end_a], lines[1][begin_b + 1 : end_b])
        places_a.append(gap_places_a + begin_a + 1)
        places_b.append(gap_places_b + begin_b + 1)
    all_a, all_b = np.concatenate(places_a), np.concatenate(places_b)
    order = np.argsort(all_a, kind="stable")
    return all_a[order], all_b[order]


def _same_statements(a: Ints, b: Ints) -> bool:
    """Whether several statements changed the name, and those of one run are a subset of those of the other."""
    lines_a, lines_b = set(a.tolist()), set(b.tolist())
    return max(len(lines_a), len(lines_b)) > 1 and (lines_a <= lines_b or lines_b <= lines_a)


def lines_of(side: Side, rows: Ints) -> Ints:
    """The line of each row's statement, relative to the first line of its function; 0 for extra rows."""
    lines = np.zeros(len(rows), np.int64)
    in_table = np.flatnonzero(rows < len(side.table))
    site_ids, shards = side.table.gather("site", rows[in_table]), side.table.shard_of(rows[in_table])
    for shard in np.unique(shards).tolist():
        reader, places = side.table.shards[shard], in_table[shards == shard]
        unique_ids, inverse = np.unique(site_ids[shards == shard], return_inverse=True)
        sites = [reader.sites[id] for id in unique_ids.tolist()]
        lines[places] = np.array([site.line - reader.functions[site.function].line for site in sites], np.int64)[
            inverse
        ]
    return lines


def moments(unpaired: Ints, own: Ints, other: Ints, group: npt.NDArray[Any]) -> Ints:
    """Where the other run was when each unpaired change happened: the place of its next change; 0 if unknown.

    `own` and `other` are the places of paired changes in the same calls, `group` the name of each. The moment is known
    only where both runs changed some name before and after it: after the last such change, one run may simply have
    gone on for longer.
    """
    moments_in_other = np.zeros(len(unpaired), np.int64)
    if len(own) == 0:
        return moments_in_other
    order = np.argsort(own, kind="stable")
    own, other, group = own[order], other[order], group[order]
    _, first = np.unique(group, return_index=True)
    _, last = np.unique(group[::-1], return_index=True)
    begins, ends = own[first], own[len(own) - 1 - last]
    by_begin = np.argsort(begins, kind="stable")
    begins, reach = begins[by_begin], np.maximum.accumulate(ends[by_begin])
    at = np.searchsorted(begins, unpaired) - 1
    is_between = (at >= 0) & (reach[np.maximum(at, 0)] > unpaired)
    moments_in_other[is_between] = other[np.searchsorted(own, unpaired[is_between], side="right")]
    return moments_in_other

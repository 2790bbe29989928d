"""Values of a call that says no steps: which of the same name belong together, and what one run held meanwhile.

Probes write what changes. A statement that gives the old value again in one run and a new one in the other has a row in
the second only: rows of one name are therefore laid side by side by the statement they come from as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew.compare.sequence import Ints, align, fill_gaps

if TYPE_CHECKING:
    from clew.compare.side import Side

_SHORT = 64  # changes of one name in one call, of which it is worth while to remember how they were paired


def pair_groups(keys: list[Ints], lines: list[Ints], ends: list[Ints]) -> tuple[Ints, Ints]:
    """Of many names in many calls, one group after the other. Groups that look the same are solved once."""
    solved: dict[Any, tuple[Ints, Ints]] = {}
    found_a, found_b = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    begin_a = begin_b = 0
    for end_a, end_b in zip(*(end.tolist() for end in ends), strict=True):
        own_keys = [keys[0][begin_a:end_a], keys[1][begin_b:end_b]]
        own_lines = [lines[0][begin_a:end_a], lines[1][begin_b:end_b]]
        face = _face(own_keys, own_lines)
        pairs = solved.get(face) if face is not None else None
        if pairs is None:
            pairs = pair_uneven(own_keys, own_lines)
            if face is not None:
                solved[face] = pairs
        found_a.append(pairs[0] + begin_a)
        found_b.append(pairs[1] + begin_b)
        begin_a, begin_b = end_a, end_b
    return np.concatenate(found_a), np.concatenate(found_b)


def _face(keys: list[Ints], lines: list[Ints]) -> Any:
    """What the pairs of a group depend on: its statements, and which of its values are equal; None if it is long."""
    if len(keys[0]) + len(keys[1]) > _SHORT:
        return None
    numbers: dict[int, int] = {}
    equal = tuple(numbers.setdefault(key, len(numbers)) for part in keys for key in part.tolist())
    return len(keys[0]), equal, lines[0].tobytes(), lines[1].tobytes()


def pair_uneven(keys: list[Ints], lines: list[Ints]) -> tuple[Ints, Ints]:
    """Of one name in one call, changed more often in one run: by value; between those by statement, or by order."""
    if not _same_statements(*lines):
        return fill_gaps(len(keys[0]), len(keys[1]), align(*keys))
    statement, value = (np.unique(np.concatenate(columns), return_inverse=True)[1] for columns in (lines, keys))
    code = statement * (int(value.max(initial=0)) + 1) + value
    at_a, at_b = align(code[: len(keys[0])], code[len(keys[0]) :])
    found_a, found_b = [at_a], [at_b]
    edges_a, edges_b = np.concatenate([[-1], at_a, [len(keys[0])]]), np.concatenate([[-1], at_b, [len(keys[1])]])
    open_ = np.flatnonzero((np.diff(edges_a) > 1) & (np.diff(edges_b) > 1))
    for begin_a, end_a, begin_b, end_b in zip(
        *(edges[open_ + more].tolist() for edges in (edges_a, edges_b) for more in (0, 1)), strict=True
    ):
        in_a, in_b = align(lines[0][begin_a + 1 : end_a], lines[1][begin_b + 1 : end_b])
        found_a.append(in_a + begin_a + 1)
        found_b.append(in_b + begin_b + 1)
    all_a, all_b = np.concatenate(found_a), np.concatenate(found_b)
    order = np.argsort(all_a, kind="stable")
    return all_a[order], all_b[order]


def _same_statements(a: Ints, b: Ints) -> bool:
    """Whether several statements changed the name, and those of one run are among those of the other."""
    ours, theirs = set(a.tolist()), set(b.tolist())
    return max(len(ours), len(theirs)) > 1 and (ours <= theirs or theirs <= ours)


def lines_of(side: Side, rows: Ints) -> Ints:
    """The line of each row's statement, counted from the function's own."""
    out = np.zeros(len(rows), np.int64)
    table = np.flatnonzero(rows < len(side.table))  # arguments and results that were kept as one value have none
    sites, shards = side.table.gather("site", rows[table]), side.table.shard_of(rows[table])
    for shard in np.unique(shards).tolist():
        reader, inside = side.table.shards[shard], table[shards == shard]
        known, back = np.unique(sites[shards == shard], return_inverse=True)
        found = [reader.sites[id] for id in known.tolist()]
        out[inside] = np.array([one.line - reader.functions[one.function].line for one in found], np.int64)[back]
    return out


def moments(left: Ints, own: Ints, other: Ints, group: npt.NDArray[Any]) -> Ints:
    """Where the other run was when each of `left` happened: the place of what it did next; 0 if that is not known.

    `own` and `other` are places of pairs of the same calls, `group` the name of each. Known is it only where some name
    was changed before and after, in both: behind the last of these one run may simply have gone on for longer.
    """
    out = np.zeros(len(left), np.int64)
    if len(own) == 0:
        return out
    order = np.argsort(own, kind="stable")
    own, other, group = own[order], other[order], group[order]
    _, first = np.unique(group, return_index=True)
    _, last = np.unique(group[::-1], return_index=True)
    begins, ends = own[first], own[len(own) - 1 - last]
    by_begin = np.argsort(begins, kind="stable")
    begins, reach = begins[by_begin], np.maximum.accumulate(ends[by_begin])
    at = np.searchsorted(begins, left) - 1
    inside = (at >= 0) & (reach[np.maximum(at, 0)] > left)
    out[inside] = other[np.searchsorted(own, left[inside], side="right")]
    return out

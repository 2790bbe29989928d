"""Numbers calls in preorder: a call, then everything it called, one call after the other.

All calls are numbered at once, level by level. `parents` holds the place of each call's parent; for a
root, the place after the last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def depths(parents: Ints) -> Ints:
    """How far each call is from the run itself."""
    count = len(parents)
    depth, ancestors = np.zeros(count, np.int64), parents.copy()
    unfinished = np.arange(count)
    while len(unfinished):
        depth[unfinished] += 1
        unfinished = unfinished[ancestors[unfinished] < count]
        ancestors[unfinished] = parents[ancestors[unfinished]]
    return depth


def mark_descendants(parents: Ints, depth: Ints, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The marked calls, and everything they called."""
    marks = np.append(marked, False)
    for level in _split_by_depth(depth):
        marks[level] |= marks[parents[level]]
    return marks[:-1]


def subtree_sizes(parents: Ints, depth: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Number of calls in each subtree (the last is the whole run), and in those of its elder siblings together."""
    count = len(parents)
    size = np.ones(count + 1, np.int64)
    for level in reversed(_split_by_depth(depth)):
        np.add.at(size, parents[level], size[level])
    ordered = size[:count][order]
    before = np.cumsum(ordered) - ordered
    heads = _family_heads(parents[order])
    base = np.repeat(before[heads], np.diff(np.append(heads, count)))
    offset = np.zeros(count, np.int64)
    offset[order] = before - base
    return size, offset


def _family_heads(parents: Ints) -> Ints:
    """Where, in parents sorted into families, each family begins."""
    if len(parents) == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], parents[1:] != parents[:-1]]))


def _split_by_depth(depth: Ints) -> list[Ints]:
    """The places of the calls at each depth, the smallest depth first."""
    order = np.argsort(depth, kind="stable")
    cuts = np.flatnonzero(np.diff(depth[order])) + 1
    return np.split(order, cuts) if len(order) else []


def number_in_preorder(parents: Ints, depth: Ints, offset: Ints) -> Ints:
    """The number of each call by place; `offset` counts the calls in subtrees of its elder siblings."""
    numbers = np.zeros(len(parents) + 1, np.int64)
    for level in _split_by_depth(depth):
        numbers[level] = numbers[parents[level]] + 1 + offset[level]
    return numbers


def sibling_ranks(parents: Ints, order: Ints) -> Ints:
    """By call: how many siblings come before it."""
    count = len(parents)
    heads = _family_heads(parents[order])
    ranks = np.empty(count, np.int64)
    ranks[order] = np.arange(count) - np.repeat(heads, np.diff(np.append(heads, count)))
    return ranks

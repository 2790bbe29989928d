"""The numbers of calls in the order of the tree: a call, then all that it called, one after the other.

All calls at once, level by level. `parents` has for each call its parent's place; for a root, the place after the last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def depths(parents: Ints) -> Ints:
    """How far each call is from the run itself."""
    count = len(parents)
    depth, above = np.zeros(count, np.int64), parents.copy()
    going = np.arange(count)
    while len(going):
        depth[going] += 1
        going = going[above[going] < count]
        above[going] = parents[above[going]]
    return depth


def beneath(parents: Ints, depth: Ints, marked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The marked calls, and all that they called."""
    found = np.append(marked, False)
    for level in _levels(depth):
        found[level] |= found[parents[level]]
    return found[:-1]


def sizes(parents: Ints, depth: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Calls beneath each (itself included), and beneath its elder siblings; the run's own is last."""
    count = len(parents)
    size = np.ones(count + 1, np.int64)
    for level in reversed(_levels(depth)):
        np.add.at(size, parents[level], size[level])
    ordered = size[:count][order]
    before = np.cumsum(ordered) - ordered
    above = parents[order]
    heads = np.flatnonzero(np.concatenate([[True], above[1:] != above[:-1]])) if count else np.empty(0, np.int64)
    base = np.repeat(before[heads], np.diff(np.append(heads, count)))
    first = np.zeros(count, np.int64)
    first[order] = before - base
    return size, first


def _levels(depth: Ints) -> list[Ints]:
    """The places of each depth, the smallest first."""
    order = np.argsort(depth, kind="stable")
    cuts = np.flatnonzero(np.diff(depth[order])) + 1
    return np.split(order, cuts) if len(order) else []


def preorder(parents: Ints, depth: Ints, first: Ints) -> Ints:
    pre = np.zeros(len(parents) + 1, np.int64)
    for level in _levels(depth):
        pre[level] = pre[parents[level]] + 1 + first[level]
    return pre


def ranks(parents: Ints, order: Ints) -> Ints:
    """Of each call how many siblings come before it."""
    count = len(parents)
    above = parents[order]
    heads = np.flatnonzero(np.concatenate([[True], above[1:] != above[:-1]])) if count else np.empty(0, np.int64)
    ranks = np.empty(count, np.int64)
    ranks[order] = np.arange(count) - np.repeat(heads, np.diff(np.append(heads, count)))
    return ranks

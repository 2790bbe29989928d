"""Which calls of one run are which of the other.

Level by level from the run downwards. Subtrees of the same shape are paired as a whole; where shapes differ, the calls
made by the two are aligned as sequences, and the same question goes to each pair of them. Equal pairs of shapes are
solved once, so that a thousand steps with the same inserted call cost what one costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.sequence import Ints, align
from clew.compare.side import STEP_ROW

if TYPE_CHECKING:
    from clew.compare.side import Side

_LEVELS_THROUGH = 3  # so many functions may have been put around a call, or taken away
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
Hashes = npt.NDArray[np.uint64]


class CallPairs(NamedTuple):
    """Calls that belong together, by preorder, ascending in the first run; and functions taken for renamed."""

    a: Ints
    b: Ints
    renamed: dict[str, str]


def pair_calls(a: Side, b: Side) -> CallPairs:
    """The run itself is paired with the run itself."""
    renamed = renamed_functions(a, b)
    keys_a, keys_b = _keys(a, b, renamed)
    forest = Forest(_Tree(a, keys_a), _Tree(b, keys_b))
    found_a, found_b = forest.pairs()
    order = np.argsort(found_a, kind="stable")
    functions = a.words.functions
    names = {functions.name(old): functions.name(new) for old, new in renamed.items()}
    return CallPairs(found_a[order], found_b[order], names)


def _keys(a: Side, b: Side, renamed: dict[int, int]) -> tuple[Ints, Ints]:
    """What must be the same of two calls: function, stage, lane, items, step."""
    translate = np.arange(len(a.words.functions))
    for old, new in renamed.items():
        translate[old] = new
    columns_a = (translate[a.function], a.stage, a.lane, a.item, a.own_step)
    columns_b = (b.function, b.stage, b.lane, b.item, b.own_step)
    code = np.zeros(len(a) + len(b), np.int64)
    for one, other in zip(columns_a, columns_b, strict=True):
        _, part = np.unique(np.concatenate([one, other]), return_inverse=True)
        _, code = np.unique(code * (int(part.max()) + 1) + part, return_inverse=True)
    return code[: len(a)], code[len(a) :]


class _Tree:
    """A side, with the shape of every subtree as one number."""

    def __init__(self, side: Side, keys: Ints) -> None:
        self.keys = keys
        self.size = side.size
        self.shape = _shapes(side, keys)
        order = np.argsort(side.parent, kind="stable")  # preorder ascends, so children stay in their order
        self._children = order
        self._parents = side.parent[order]

    def children(self, call: int) -> Ints:
        begin, end = np.searchsorted(self._parents, [call, call + 1])
        return self._children[begin:end]


def _mixed(numbers: Hashes) -> Hashes:
    mixed = (numbers ^ (numbers >> np.uint64(30))) * _MIX[1]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[2]
    return mixed ^ (mixed >> np.uint64(31))


def _shapes(side: Side, keys: Ints) -> Hashes:
    with np.errstate(over="ignore"):
        own = _mixed(keys.astype(np.uint64) + _MIX[0])
        inside = np.zeros(len(side), np.uint64)
        shape = own.copy()
        order = np.argsort(side.depth, kind="stable")
        cuts = np.flatnonzero(np.diff(side.depth[order])) + 1
        for level in reversed(np.split(order, cuts)):
            shape[level] = _mixed(own[level] + inside[level])
            below = level[side.parent[level] >= 0]
            place = side.rank_among[below].astype(np.uint64) * _MIX[0]
            np.add.at(inside, side.parent[below], _mixed(shape[below] + place))
    return shape


class Forest:
    """Two trees being paired."""

    def __init__(self, a: _Tree, b: _Tree) -> None:
        self.a = a
        self.b = b

    def pairs(self) -> tuple[Ints, Ints]:
        found: list[tuple[Ints, Ints]] = []
        now_a, now_b = np.zeros(1, np.int64), np.zeros(1, np.int64)
        while len(now_a):
            same = self.a.shape[now_a] == self.b.shape[now_b]
            found.append(self._whole(now_a[same], now_b[same]))
            now_a, now_b = now_a[~same], now_b[~same]
            found.append((now_a, now_b))
            now_a, now_b = self._next(now_a, now_b)
        return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])

    def _whole(self, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """All calls of subtrees that have the same shape."""
        size = self.a.size[a]
        inside = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        return np.repeat(a, size) + inside, np.repeat(b, size) + inside

    def _next(self, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """The pairs among the calls that these pairs made; worked out once for each pair of shapes."""
        shapes = np.stack([self.a.shape[a], self.b.shape[b]], axis=1) if len(a) else np.empty((0, 2), np.uint64)
        _, kind = np.unique(shapes, axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        order = np.argsort(kind, kind="stable")
        out_a, out_b = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for members in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1) if len(a) else ():
            place = int(members[0])
            pairs_a, pairs_b = self._children(int(a[place]), int(b[place]))
            out_a.append((a[members, None] + (pairs_a - a[place])[None, :]).reshape(-1))
            out_b.append((b[members, None] + (pairs_b - b[place])[None, :]).reshape(-1))
        return np.concatenate(out_a), np.concatenate(out_b)

    def _children(self, a: int, b: int) -> tuple[Ints, Ints]:
        """Calls made by the two that belong together, through functions that only one of the runs has in between."""
        inside_a, inside_b = self.a.children(a), self.b.children(b)
        at_a, at_b = align(self.a.keys[inside_a], self.b.keys[inside_b])
        for _ in range(_LEVELS_THROUGH):
            if len(at_a) == len(inside_a) and len(at_b) == len(inside_b):
                break
            wider_a = self._opened(self.a, inside_a, at_a, self.b.keys[_others(inside_b, at_b)])
            wider_b = self._opened(self.b, inside_b, at_b, self.a.keys[_others(inside_a, at_a)])
            if wider_a is None and wider_b is None:
                break
            new_a, new_b = inside_a if wider_a is None else wider_a, inside_b if wider_b is None else wider_b
            to_a, to_b = align(self.a.keys[new_a], self.b.keys[new_b])
            if len(to_a) <= len(at_a):
                break
            inside_a, inside_b, at_a, at_b = new_a, new_b, to_a, to_b
        return inside_a[at_a], inside_b[at_b]

    def _opened(self, tree: _Tree, inside: Ints, at: Ints, wanted: Ints) -> Ints | None:
        """The calls, with those that found no partner replaced by what they called, where the other side lacks that."""
        if len(wanted) == 0:
            return None
        alone = np.ones(len(inside), np.bool_)
        alone[at] = False
        missing = set(wanted.tolist())
        parts: list[Ints] = []
        opened = False
        for place in np.flatnonzero(alone).tolist():
            below = tree.children(int(inside[place]))
            if not missing.isdisjoint(_keys_beneath(tree, int(inside[place]))):
                parts.append(below)
                opened = True
            else:
                parts.append(inside[place : place + 1])
        if not opened:
            return None
        kept = [inside[at], *parts]
        return np.sort(np.concatenate(kept))


def _keys_beneath(tree: _Tree, call: int) -> list[int]:
    size = int(tree.size[call])
    keys: list[int] = tree.keys[call + 1 : call + min(size, 10_000)].tolist()
    return keys


def _others(inside: Ints, at: Ints) -> Ints:
    alone = np.ones(len(inside), np.bool_)
    alone[at] = False
    return inside[alone]


# ---- functions that have another name


def renamed_functions(a: Side, b: Side) -> dict[int, int]:
    """Functions of only one run that hold the same names as one of only the other, at the same place of the tree."""
    only_a = np.setdiff1d(a.function[1:], b.function[1:])
    only_b = np.setdiff1d(b.function[1:], a.function[1:])
    found: dict[int, int] = {}
    if len(only_a) == 0 or len(only_b) == 0:
        return found
    faces_a, faces_b = _faces(a, only_a), _faces(b, only_b)
    for _ in range(_LEVELS_THROUGH):
        before = len(found)
        free = [number for number in only_b.tolist() if number not in found.values()]
        for old in only_a.tolist():
            fitting = [new for new in free if old not in found and _fit(faces_a[old], faces_b[new], found)]
            if len(fitting) == 1:
                found[old] = fitting[0]
                free.remove(fitting[0])
        if len(found) == before:
            break
    return found


class _Face(NamedTuple):
    """What a function looks like from outside."""

    parents: frozenset[int]
    names: frozenset[Any]
    stages: frozenset[int]


def _fit(a: _Face, b: _Face, renamed: dict[int, int]) -> bool:
    parents = frozenset(renamed.get(number, number) for number in a.parents)
    return bool(parents & b.parents) and a.names == b.names and a.stages == b.stages


def _faces(side: Side, functions: Ints) -> dict[int, _Face]:
    names: dict[int, set[Any]] = {number: set() for number in functions.tolist()}
    for shard, reader in enumerate(side.table.shards):
        for site in reader.sites.values():
            number = side.function_number(shard, site.function)
            if number in names:
                names[number].add((site.role, side.mapped(site.name)) if site.role != "step" else STEP_ROW)
    above, stages = _grouped(side, side.function[side.parent[1:]]), _grouped(side, side.stage[1:])
    return {
        number: _Face(frozenset(above[number]), frozenset(names[number]), frozenset(stages[number]))
        for number in functions.tolist()
    }


def _grouped(side: Side, column: Ints) -> dict[int, set[int]]:
    """By function: the different cells of a column of its calls."""
    found: dict[int, set[int]] = {}
    for number, cell in np.unique(np.stack([side.function[1:], column], axis=1), axis=0).tolist():
        found.setdefault(number, set()).add(cell)
    return found

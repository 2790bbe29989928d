"""Pairs the calls of one run with those of the other.

Pairing goes level by level from the run downwards. Subtrees of the same shape are paired as a whole;
where shapes differ, the calls made by the two are aligned as sequences, and each pair of them is
treated the same way. Equal pairs of shapes are solved once, so that a thousand steps with the same
inserted call cost what one costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.compare.sequence import Ints, align
from clew.compare.side import STEP_ROW

if TYPE_CHECKING:
    from clew.compare.side import Side

_LEVELS_THROUGH = 3  # how many functions may have been put around a call, or taken away
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
Hashes = npt.NDArray[np.uint64]


class CallPairs(NamedTuple):
    """Paired calls by preorder number, ascending in the first run; and the functions taken for renamed."""

    a: Ints
    b: Ints
    renamed: dict[str, str]


def pair_calls(a: Side, b: Side) -> CallPairs:
    """Pair all calls; the first pair is that of the two runs themselves."""
    renamed = renamed_functions(a, b)
    keys_a, keys_b = _call_keys(a, b, renamed)
    forest = Forest(_Tree(a, keys_a), _Tree(b, keys_b))
    calls_a, calls_b = forest.pairs()
    order = np.argsort(calls_a, kind="stable")
    functions = a.vocabularies.functions
    names = {functions.name(old): functions.name(new) for old, new in renamed.items()}
    return CallPairs(calls_a[order], calls_b[order], names)


def _call_keys(a: Side, b: Side, renamed: dict[int, int]) -> tuple[Ints, Ints]:
    """One number for what two paired calls must share: function, stage, lane, items, step."""
    translate = np.arange(len(a.vocabularies.functions))
    for old, new in renamed.items():
        translate[old] = new
    columns_a = (translate[a.function], a.stage, a.lane, a.item, a.own_step)
    columns_b = (b.function, b.stage, b.lane, b.item, b.own_step)
    code = np.zeros(len(a) + len(b), np.int64)
    for column_a, column_b in zip(columns_a, columns_b, strict=True):
        _, part = np.unique(np.concatenate([column_a, column_b]), return_inverse=True)
        _, code = np.unique(code * (int(part.max()) + 1) + part, return_inverse=True)
    return code[: len(a)], code[len(a) :]


class _Tree:
    """A side, with the shape of every subtree as one number."""

    def __init__(self, side: Side, keys: Ints) -> None:
        self.keys = keys
        self.size = side.size
        self.shape = _hash_shapes(side, keys)
        order = np.argsort(side.parent, kind="stable")  # keeps the order of preorder among children
        self._children = order
        self._parents = side.parent[order]

    def children(self, call: int) -> Ints:
        begin, end = np.searchsorted(self._parents, [call, call + 1])
        return self._children[begin:end]


def _mix_bits(numbers: Hashes) -> Hashes:
    mixed = (numbers ^ (numbers >> np.uint64(30))) * _MIX[1]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[2]
    return mixed ^ (mixed >> np.uint64(31))


def _hash_shapes(side: Side, keys: Ints) -> Hashes:
    """By call: one number for the shape of its subtree."""
    with np.errstate(over="ignore"):
        own = _mix_bits(keys.astype(np.uint64) + _MIX[0])
        children = np.zeros(len(side), np.uint64)
        shape = own.copy()
        order = np.argsort(side.depth, kind="stable")
        cuts = np.flatnonzero(np.diff(side.depth[order])) + 1
        for level in reversed(np.split(order, cuts)):
            shape[level] = _mix_bits(own[level] + children[level])
            with_parent = level[side.parent[level] >= 0]
            place = side.sibling_rank[with_parent].astype(np.uint64) * _MIX[0]
            np.add.at(children, side.parent[with_parent], _mix_bits(shape[with_parent] + place))
    return shape


class Forest:
    """Two trees of calls; `pairs` pairs their calls."""

    def __init__(self, a: _Tree, b: _Tree) -> None:
        self.a = a
        self.b = b

    def pairs(self) -> tuple[Ints, Ints]:
        parts: list[tuple[Ints, Ints]] = []
        calls_a, calls_b = np.zeros(1, np.int64), np.zeros(1, np.int64)
        while len(calls_a):
            same = self.a.shape[calls_a] == self.b.shape[calls_b]
            parts.append(self._pair_subtrees(calls_a[same], calls_b[same]))
            calls_a, calls_b = calls_a[~same], calls_b[~same]
            parts.append((calls_a, calls_b))
            calls_a, calls_b = self._pair_next_level(calls_a, calls_b)
        return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])

    def _pair_subtrees(self, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """All calls of subtrees that have the same shape."""
        size = self.a.size[a]
        offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        return np.repeat(a, size) + offset, np.repeat(b, size) + offset

    def _pair_next_level(self, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """The pairs among the calls that these pairs made, solved once for each pair of shapes."""
        shapes = np.stack([self.a.shape[a], self.b.shape[b]], axis=1) if len(a) else np.empty((0, 2), np.uint64)
        _, kind = np.unique(shapes, axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        order = np.argsort(kind, kind="stable")
        out_a, out_b = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for members in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1) if len(a) else ():
            place = int(members[0])
            pairs_a, pairs_b = self._pair_children(int(a[place]), int(b[place]))
            out_a.append((a[members, None] + (pairs_a - a[place])[None, :]).reshape(-1))
            out_b.append((b[members, None] + (pairs_b - b[place])[None, :]).reshape(-1))
        return np.concatenate(out_a), np.concatenate(out_b)

    def _pair_children(self, a: int, b: int) -> tuple[Ints, Ints]:
        """Pair the calls made by two calls, also through functions that only one of the runs has in between."""
        calls_a, calls_b = self.a.children(a), self.b.children(b)
        at_a, at_b = align(self.a.keys[calls_a], self.b.keys[calls_b])
        for _ in range(_LEVELS_THROUGH):
            if len(at_a) == len(calls_a) and len(at_b) == len(calls_b):
                break
            opened_a = self._open_unpaired(self.a, calls_a, at_a, self.b.keys[_unpaired(calls_b, at_b)])
            opened_b = self._open_unpaired(self.b, calls_b, at_b, self.a.keys[_unpaired(calls_a, at_a)])
            if opened_a is None and opened_b is None:
                break
            new_a, new_b = calls_a if opened_a is None else opened_a, calls_b if opened_b is None else opened_b
            new_at_a, new_at_b = align(self.a.keys[new_a], self.b.keys[new_b])
            if len(new_at_a) <= len(at_a):
                break
            calls_a, calls_b, at_a, at_b = new_a, new_b, new_at_a, new_at_b
        return calls_a[at_a], calls_b[at_b]

    def _open_unpaired(self, tree: _Tree, calls: Ints, paired_at: Ints, keys: Ints) -> Ints | None:
        """The calls, with each unpaired one replaced by its children if one of `keys` is beneath it; else None."""
        if len(keys) == 0:
            return None
        keys_of_other_side = set(keys.tolist())
        parts: list[Ints] = []
        opened = False
        for call in _unpaired(calls, paired_at).tolist():
            if keys_of_other_side.isdisjoint(_keys_beneath(tree, call)):
                parts.append(np.array([call], np.int64))
            else:
                parts.append(tree.children(call))
                opened = True
        return np.sort(np.concatenate([calls[paired_at], *parts])) if opened else None


def _keys_beneath(tree: _Tree, call: int) -> list[int]:
    size = int(tree.size[call])
    keys: list[int] = tree.keys[call + 1 : call + min(size, 10_000)].tolist()
    return keys


def _unpaired(calls: Ints, paired_at: Ints) -> Ints:
    return np.delete(calls, paired_at)


# ---- functions that have another name


def renamed_functions(a: Side, b: Side) -> dict[int, int]:
    """Functions that only the first run has, and those of the second with the same names, stages and callers."""
    only_a = np.setdiff1d(a.function[1:], b.function[1:])
    only_b = np.setdiff1d(b.function[1:], a.function[1:])
    renamed: dict[int, int] = {}
    if len(only_a) == 0 or len(only_b) == 0:
        return renamed
    traits_a, traits_b = _function_traits(a, only_a), _function_traits(b, only_b)
    for _ in range(_LEVELS_THROUGH):
        before = len(renamed)
        free = [number for number in only_b.tolist() if number not in renamed.values()]
        for old in only_a.tolist():
            candidates = [
                new for new in free if old not in renamed and _traits_match(traits_a[old], traits_b[new], renamed)
            ]
            if len(candidates) == 1:
                renamed[old] = candidates[0]
                free.remove(candidates[0])
        if len(renamed) == before:
            break
    return renamed


class _FunctionTraits(NamedTuple):
    """What a renamed function keeps."""

    parents: frozenset[int]
    names: frozenset[Any]
    stages: frozenset[int]


def _traits_match(a: _FunctionTraits, b: _FunctionTraits, renamed: dict[int, int]) -> bool:
    parents = frozenset(renamed.get(number, number) for number in a.parents)
    return bool(parents & b.parents) and a.names == b.names and a.stages == b.stages


def _function_traits(side: Side, functions: Ints) -> dict[int, _FunctionTraits]:
    names: dict[int, set[Any]] = {number: set() for number in functions.tolist()}
    for shard, reader in enumerate(side.table.shards):
        for site in reader.sites.values():
            number = side.function_number(shard, site.function)
            if number in names:
                names[number].add((site.role, side.translated(site.name)) if site.role != "step" else STEP_ROW)
    parents, stages = _cells_by_function(side, side.function[side.parent[1:]]), _cells_by_function(side, side.stage[1:])
    return {
        number: _FunctionTraits(frozenset(parents[number]), frozenset(names[number]), frozenset(stages[number]))
        for number in functions.tolist()
    }


def _cells_by_function(side: Side, column: Ints) -> dict[int, set[int]]:
    """By function: the distinct cells that a column has for its calls."""
    cells: dict[int, set[int]] = {}
    for number, cell in np.unique(np.stack([side.function[1:], column], axis=1), axis=0).tolist():
        cells.setdefault(number, set()).add(cell)
    return cells

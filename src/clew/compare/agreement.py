"""The tree of agreement: where two runs agree and where not, by function and module path, and by step."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clew.compare.comparison import plain, told_step
from clew.compare.judge import Agreement, split_place
from clew.history.steps import plain_step

if TYPE_CHECKING:
    from clew.compare.comparison import Comparison

RANGES: Final = 200  # of steps; more are put together
SINGLE: Final = 40  # lines of steps: as long as there are no more, each step that differs has its own


class Node:
    """A function, a part of a module path, a value, or a range of steps; its figures are those of all beneath it."""

    __slots__ = ("_children", "compared", "differ", "kind", "label", "path", "worst")

    def __init__(self, label: str, path: str, kind: str) -> None:
        self.label = label
        self.path = path
        self.kind = kind  # "run", "function", "module", "value", "steps", "step"
        self.compared = 0
        self.differ = 0
        self.worst = 0.0
        self._children: dict[str, Node] = {}

    @property
    def children(self) -> list[Node]:
        return list(self._children.values())

    def child(self, label: str, path: str, kind: str) -> Node:
        found = self._children.get(label)
        if found is None:
            found = self._children[label] = Node(label, path, kind)
        return found

    def add(self, one: Agreement) -> None:
        self.compared += one.compared
        self.differ += one.differ
        self.worst = max(self.worst, one.worst)

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "path": self.path,
            "kind": self.kind,
            "compared": self.compared,
            "differ": self.differ,
            "worst": plain(self.worst),
            "children": [child.to_dict() for child in self.children],
        }


def by_place(comparison: Comparison) -> Node:
    """Functions, and in them the names; of a model, the modules."""
    root = Node("run", "", "run")
    side = comparison.a
    tracers = side.is_tracer
    order = _first_calls(comparison)
    for place, one in sorted(comparison.verdict.places.items(), key=lambda item: _order(comparison, item[0], order)):
        if not one.compared:
            continue
        number, token = split_place(place)
        function = str(side.words.functions.name(number)) or "(outside of any call)"
        role, name = comparison.token_name(token)
        parts = name.split(".") if bool(tracers[number]) and role == "value" else [_label(role, name)]
        node, path = root, function
        for each in (root, node := root.child(function, function, "function")):
            each.add(one)
        for depth, part in enumerate(parts, 1):
            path = f"{path}.{part}"
            node = node.child(part, path, "value" if depth == len(parts) else "module")
            node.add(one)
    return root


def _first_calls(comparison: Comparison) -> dict[int, int]:
    """By function: where in the tree of calls it is first."""
    functions, first = np.unique(comparison.a.function, return_index=True)
    return dict(zip(functions.tolist(), first.tolist(), strict=True))


def _order(comparison: Comparison, place: int, first: dict[int, int]) -> tuple[int, int, int]:
    """Functions as they were called; in them arguments first, then what changed, then the result."""
    function, token = split_place(place)
    return first.get(function, 0), ("input", "value", "output").index(comparison.token_name(token)[0]), token


def _label(role: str, name: str) -> str:
    if role == "input":
        return f"{name} (argument)" if name != "(arguments)" else name
    return name if role == "value" or name.startswith("(") else f"{name} (result)"


def by_step(comparison: Comparison) -> Node:
    """Steps in their order; neighbours that agree are put together, and those that do not where there are many."""
    root = Node("steps", "", "steps")
    verdict = comparison.verdict
    if verdict.steps is None or verdict.steps_worst is None:
        return root
    marks = comparison.a.marks[0]
    keys = comparison.a.step_keys(marks)
    _, first, back = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    compared = np.bincount(back, weights=verdict.steps[0], minlength=len(first))[order]
    differ = np.bincount(back, weights=verdict.steps[1], minlength=len(first))[order]
    worst = np.zeros(len(first))
    np.maximum.at(worst, back, verdict.steps_worst)
    for begin, end in _ranges(compared, differ):
        ends = [told_step(_step(comparison, int(marks[first[order[place]]]))) for place in (begin, end - 1)]
        label = str(ends[0]) if end - begin == 1 else f"{ends[0]} … {ends[1]}"
        node = root.child(label, label, "step")
        largest = float(worst[order][begin:end].max())
        one = Agreement(int(compared[begin:end].sum()), int(differ[begin:end].sum()), largest)
        node.add(one)
        root.add(one)
    return root


def _step(comparison: Comparison, row: int) -> Any:
    return plain_step(comparison.a.table.value(row))


def _ranges(compared: Any, differ: Any) -> list[tuple[int, int]]:
    """Neighbouring steps that agree, and each that does not; if these are too many, neighbours of one state; if these
    are too many, as many equal ranges as are wanted."""
    there = np.flatnonzero(compared > 0)
    if len(there) == 0:
        return []
    states = np.where(compared > 0, (differ > 0).astype(np.int64), 2)
    cuts = [0, *(np.flatnonzero(np.diff(states)) + 1).tolist(), len(states)]
    ranges = [(a, b) for a, b in pairwise(cuts) if states[a] != 2]
    single = sum(b - a if states[a] else 1 for a, b in ranges)
    if single <= SINGLE:
        return [part for a, b in ranges for part in (pairwise(range(a, b + 1)) if states[a] else [(a, b)])]
    if len(ranges) <= RANGES:
        return ranges
    edges = np.linspace(0, len(states), RANGES + 1).astype(np.int64).tolist()
    return [(a, b) for a, b in pairwise(edges) if b > a and compared[a:b].any()]

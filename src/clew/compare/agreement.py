"""Builds the tree of agreement: where two runs agree and where not, by function and module path, and by step."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clew.compare.comparison import json_step, json_value
from clew.compare.judge import Agreement, split_place
from clew.reading.steps import plain_step

if TYPE_CHECKING:
    from clew.compare.comparison import Comparison

RANGES: Final = 200  # most ranges of steps; more are joined
SINGLE: Final = 40  # most lines of steps with which each step that differs has its own


class Node:
    """A function, a part of a module path, a value, or a range of steps; its figures cover everything beneath it."""

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
        if label not in self._children:
            self._children[label] = Node(label, path, kind)
        return self._children[label]

    def add(self, agreement: Agreement) -> None:
        self.compared += agreement.compared
        self.differ += agreement.differ
        self.worst = max(self.worst, agreement.worst)

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "path": self.path,
            "kind": self.kind,
            "compared": self.compared,
            "differ": self.differ,
            "worst": json_value(self.worst),
            "children": [child.to_dict() for child in self.children],
        }


def by_place(comparison: Comparison) -> Node:
    """The tree of functions and the names in them; of a model, its modules."""
    root = Node("run", "", "run")
    side = comparison.a
    functions, first = np.unique(side.function, return_index=True)
    first_calls = dict(zip(functions.tolist(), first.tolist(), strict=True))
    places = comparison.verdict.places
    for place in sorted(places, key=lambda place: _sort_key(comparison, place, first_calls)):
        agreement = places[place]
        if not agreement.compared:
            continue
        number, token = split_place(place)
        function = str(side.vocabularies.functions.name(number)) or "(outside of any call)"
        role, name = comparison.token_name(token)
        parts = name.split(".") if bool(side.is_tracer[number]) and role == "value" else [_label(role, name)]
        node, path = root.child(function, function, "function"), function
        root.add(agreement)
        node.add(agreement)
        for depth, part in enumerate(parts, 1):
            path = f"{path}.{part}"
            node = node.child(part, path, "value" if depth == len(parts) else "module")
            node.add(agreement)
    return root


def _sort_key(comparison: Comparison, place: int, first_calls: dict[int, int]) -> tuple[int, int, int]:
    """Sorts functions by their first call, and in each arguments first, then changes, then the result."""
    function, token = split_place(place)
    return first_calls.get(function, 0), ("input", "value", "output").index(comparison.token_name(token)[0]), token


def _label(role: str, name: str) -> str:
    if role == "input":
        return f"{name} (argument)" if name != "(arguments)" else name
    return name if role == "value" or name.startswith("(") else f"{name} (result)"


def by_step(comparison: Comparison) -> Node:
    """The steps in order; neighbours that agree are joined, and so are those that differ if there are many."""
    root = Node("steps", "", "steps")
    verdict = comparison.verdict
    if verdict.steps is None or verdict.steps_worst is None:
        return root
    marks = comparison.a.marks[0]
    keys = comparison.a.step_keys(marks)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    compared = np.bincount(inverse, weights=verdict.steps[0], minlength=len(first))[order]
    differ = np.bincount(inverse, weights=verdict.steps[1], minlength=len(first))[order]
    worst = np.zeros(len(first))
    np.maximum.at(worst, inverse, verdict.steps_worst)
    for begin, end in _ranges(compared, differ):
        rows = [int(marks[first[order[place]]]) for place in (begin, end - 1)]
        first_step, last_step = (json_step(plain_step(comparison.a.table.value(row))) for row in rows)
        label = str(first_step) if end - begin == 1 else f"{first_step} … {last_step}"
        node = root.child(label, label, "step")
        largest = float(worst[order][begin:end].max())
        agreement = Agreement(int(compared[begin:end].sum()), int(differ[begin:end].sum()), largest)
        node.add(agreement)
        root.add(agreement)
    return root


def _ranges(compared: Any, differ: Any) -> list[tuple[int, int]]:
    """Ranges of steps: neighbours that agree, and each step that differs. If these are too many, neighbours that
    differ are joined as well; if these are too many, RANGES equal ranges."""
    if not (compared > 0).any():
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

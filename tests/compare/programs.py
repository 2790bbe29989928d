"""Random programs as trees of calls with values, written as runs by the real writer."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from clew.reading.run import Run
from reading.writing import Shard, Written


@dataclass
class Node:
    """A call: its function, what it was given, what changed, what it called, what it gave."""

    function: str
    values: list[tuple[str, Any]] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)

    def walk(self) -> list[Node]:
        return [self, *(inner for child in self.children for inner in child.walk())]


def write(base: Path, name: str, roots: list[Node], *, shift: int = 0) -> Run:
    """`shift` moves every line, as a refactoring does."""
    writer = Written(base, f"120000-{name}")
    shard = writer.shard()
    for root in roots:
        _call(shard, root, -1, shift)
    shard.close()
    return writer.open()


def _call(shard: Shard, node: Node, parent: int, shift: int) -> None:
    call = shard.call(node.function, parent=parent, line=1 + shift)
    shard.change(call, "x", float(len(node.values)), role="input", line=1 + shift)
    for number, (name, value) in enumerate(node.values):
        shard.change(call, name, value, line=10 + number + shift)
    for child in node.children:
        _call(shard, child, call, shift)
    shard.change(call, "return", float(len(node.children)), role="output", line=1 + shift)
    shard.end(call)


NAMES = st.sampled_from("pqr")
VALUES = st.one_of(st.integers(-5, 5), st.floats(-4, 4, width=16).map(float), st.text("ab", max_size=3), st.none())


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Node:
    values = draw(st.lists(st.tuples(NAMES, VALUES), max_size=3))
    width = draw(st.integers(0, 3)) if depth else 0
    children = [draw(trees(depth - 1)) for _ in range(width)]
    return Node(draw(st.sampled_from(["f", "g", "h"])), values, children)


forests = st.lists(trees(), min_size=1, max_size=3)


def copied(roots: list[Node]) -> list[Node]:
    return copy.deepcopy(roots)


def every(roots: list[Node]) -> list[Node]:
    return [node for root in roots for node in root.walk()]

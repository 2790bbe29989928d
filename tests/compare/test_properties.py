"""Random programs with one change: a diff reports this change and nothing else."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import clew
from clew.compare.call_pairs import Forest, _call_keys, _Tree
from clew.compare.sequence import longest_common
from clew.compare.settings import Names, Settings
from clew.compare.side import Side
from clew.compare.vocabularies import Vocabularies
from compare.programs import Node, copied, every, forests, write

QUICK = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_numbers = itertools.count()


@pytest.fixture
def base(tmp_path: Path) -> Any:
    return lambda: tmp_path / str(next(_numbers))


@given(roots=forests)
@QUICK
def test_the_same_program_twice_is_equal_wherever_its_lines_are(base: Any, roots: list[Node]) -> None:
    folder = base()
    comparison = clew.diff(write(folder, "a", roots), write(folder, "b", roots, shift=7))
    assert comparison.equal
    assert not comparison
    assert comparison.first is None
    assert len(comparison.only_in_a) == len(comparison.only_in_b) == 0
    assert comparison.summary()["identical"] == comparison.compared


@given(roots=forests, data=st.data())
@QUICK
def test_a_planted_change_is_the_first_difference_and_the_only_one(base: Any, roots: list[Node], data: Any) -> None:
    holding = [node for node in every(roots) if node.values]
    assume(holding)
    changed_roots = copied(roots)
    number = data.draw(st.integers(0, len(holding) - 1))
    node = [item for item in every(changed_roots) if item.values][number]
    place = data.draw(st.integers(0, len(node.values) - 1))
    name, before = node.values[place]
    node.values[place] = name, 77.5
    folder = base()
    comparison = clew.diff(write(folder, "a", roots), write(folder, "b", changed_roots))
    assert len(comparison.differences) == 1
    first = comparison.first
    assert first is not None
    assert (first.name, first.function, first.line, first.a, first.b) == (name, node.function, 10 + place, before, 77.5)
    assert first.role == "producer"


@given(roots=forests, data=st.data())
@QUICK
def test_an_inserted_call_changes_nothing_else(base: Any, roots: list[Node], data: Any) -> None:
    changed_roots = copied(roots)
    node = data.draw(st.sampled_from(every(changed_roots)))
    place = data.draw(st.integers(0, len(node.children)))
    output = len(node.children)
    node.children.insert(place, Node("inserted", [("new", 1.0)]))
    folder = base()
    a, b = write(folder, "a", roots), write(folder, "b", changed_roots)
    comparison = clew.diff(a, b, ignore="*.return")  # what `return` holds is how many calls there were
    assert (len(comparison.differences), comparison.only_in_a.values, comparison.only_in_a.calls) == (0, 0, 0)
    assert [(missing.name, missing.function, missing.calls) for missing in comparison.only_in_b] == [
        ("inserted", node.function, 1)
    ]
    assert [difference.a for difference in clew.diff(a, b).differences] == [float(output)]


@given(roots=forests)
@QUICK
def test_a_renamed_function_is_recognised_by_its_names(base: Any, roots: list[Node]) -> None:
    changed_roots = copied(roots)
    for node in every(changed_roots):
        node.function = "fresh" if node.function == "f" else node.function
    assume(any(node.function == "fresh" for node in every(changed_roots)))
    folder = base()
    a, b = write(folder, "a", roots), write(folder, "b", changed_roots)
    assert clew.diff(a, b, map={"f": "fresh"}).equal
    comparison = clew.diff(a, b)
    assert comparison.renamed == {"f": "fresh"}
    assert comparison.equal


@given(roots=forests, others=forests)
@QUICK
def test_either_way_round_the_same_is_missing_and_as_much_differs(base: Any, roots: Any, others: Any) -> None:
    folder = base()
    a, b = write(folder, "a", roots), write(folder, "b", others)
    there, back = clew.diff(a, b, rtol=0), clew.diff(b, a, rtol=0)
    assert there.compared + there.only_in_a.values == _count(a)
    assert there.compared + there.only_in_b.values == _count(b)
    assert back.compared + back.only_in_a.values == _count(b)
    assert there.equal == back.equal


def _count(run: Any) -> int:
    return sum(len(call.changes) + 2 for call in run.calls())


# ---- the fast alignment of trees against a slow simple one


def slow_pairs(a: Node, b: Node, start: tuple[int, int], pairs: set[tuple[int, int]]) -> None:
    """Calls by function, as sequences, level by level; every pair of levels by the book."""
    pairs.add(start)
    in_a, in_b = longest_common([c.function for c in a.children], [c.function for c in b.children])
    offsets = [list(itertools.accumulate([1, *(len(c.walk()) for c in node.children)])) for node in (a, b)]
    for i, j in zip(in_a, in_b, strict=True):
        slow_pairs(a.children[i], b.children[j], (start[0] + offsets[0][i], start[1] + offsets[1][j]), pairs)


class NotThrough(Forest):
    """Without looking through functions that only one run has: the oracle does not."""

    def _open_unpaired(self, *arguments: Any) -> None:
        return None


@given(roots=forests, data=st.data())
@QUICK
def test_trees_are_paired_as_the_simple_way_pairs_them(base: Any, roots: list[Node], data: Any) -> None:
    changed_roots = copied(roots)
    for _ in range(data.draw(st.integers(0, 3))):
        node = data.draw(st.sampled_from(every(changed_roots)))
        node.children.insert(data.draw(st.integers(0, len(node.children))), Node(data.draw(st.sampled_from("fgk"))))
    folder, vocabularies, diff_settings = base(), Vocabularies(), Settings()
    a, b = (
        Side(write(folder, name, tree), vocabularies, diff_settings, Names({}))
        for name, tree in (("a", roots), ("b", changed_roots))
    )
    keys_a, keys_b = _call_keys(a, b, {})
    fast = NotThrough(_Tree(a, keys_a), _Tree(b, keys_b)).pairs()
    slow: set[tuple[int, int]] = set()
    slow_pairs(Node("", [], roots), Node("", [], changed_roots), (0, 0), slow)
    fast_pairs = set(zip(*(part.tolist() for part in fast), strict=True))
    assert len(fast_pairs) == len(fast[0])
    # A longest common subsequence need not be unique; how many found a partner on each level must agree at the top.
    top_a, top_b = np.flatnonzero(a.parent == 0), np.flatnonzero(b.parent == 0)
    assert len([p for p in fast_pairs if p[0] in top_a and p[1] in top_b]) == len(
        [p for p in slow if p[0] in top_a and p[1] in top_b]
    )
    if not _ambiguous(roots, changed_roots):
        assert fast_pairs == slow


def _ambiguous(a: list[Node], b: list[Node]) -> bool:
    """Whether siblings share a function anywhere: then there may be several ways that are as good."""
    return any(
        len({child.function for child in node.children}) < len(node.children)
        for roots in (a, b)
        for node in [Node("", [], roots), *every(roots)]
    )

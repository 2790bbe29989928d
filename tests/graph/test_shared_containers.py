"""Containers that stand in many places: work in proportion to how many there are, and one stays one.

`x = [x, x]`, 40 times over, is 40 lists, and a walk that visits each place would never end.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.graph.bundle.fingerprints import fingerprint

DEPTH = 40
KINDS: dict[str, Callable[[Any], Any]] = {
    "list": lambda x: [x, x],
    "tuple": lambda x: (x, x),
    "dict": lambda x: {"a": x, "b": x},
    "deque": lambda x: deque([x, x]),
    "mixed": lambda x: ({"k": [x]}, x),
}
SETS: dict[str, Callable[[Any], Any]] = {
    "frozensets": lambda x: frozenset([x, (x, 1)]),
    "sets in objects": lambda x: Held({x, (x, 1)}),
}


class Held:
    def __init__(self, held: Any) -> None:
        self.held = held


def nested(kind: str, inside: Any, depth: int = DEPTH) -> Any:
    for _ in range(depth):
        inside = KINDS[kind](inside)
    return inside


trees = {kind: nested(kind, (1,)) for kind in KINDS}
tree: Any = trees["list"]


@clew.op
def halves_are_one(text: str, given: Any) -> tuple[str, bool]:
    first, second = given.values() if isinstance(given, dict) else given
    return text, first is second


@clew.op
def from_state(text: str) -> tuple[str, bool]:
    return text, tree[0] is tree[1]


@clew.op
class Keeping:
    def __init__(self, given: Any) -> None:
        self.given = given

    def __call__(self, text: str) -> tuple[str, bool]:
        return text, self.given[0] is self.given[1]


keeping = Keeping(tree)


def with_constant(text: str) -> Any:
    return halves_are_one(text, tree)


def with_input(text: str, given: Any) -> Any:
    return halves_are_one(text, given)


def with_state(text: str) -> Any:
    return from_state(text)


def with_object(text: str) -> Any:
    return keeping(text)


def with_loop(texts: list[str]) -> Any:
    found = []
    for text in texts:
        found.append((text, len(tree)))
    return found


def with_recorded(text: str) -> Any:
    inside = [text]
    for _ in range(DEPTH):
        inside = [inside, inside]
    return halves_are_one("x", inside)


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "deque"])
def test_a_constant_is_recorded_saved_loaded_and_drawn(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "tree", trees[kind])
    graph = clew.record(with_constant, "a")
    graph.save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    for each in (graph, loaded):
        assert each.run({"text": "b"}) == ("b", True)
        assert len(str(each) + repr(each) + each.to_dot() + each.to_mermaid() + str(each._repr_svg_())) < 100_000
    assert (tmp_path / "bundle" / "graph.json").stat().st_size < 100_000


@pytest.mark.parametrize("kind", ["tuple", "mixed"])
def test_an_input_is_kept_as_an_example(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_SELFTEST", "1")
    graph = clew.record(with_input, "a", trees[kind])
    graph.save(tmp_path / "bundle")
    assert (tmp_path / "bundle" / "examples.json").stat().st_size < 100_000
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    assert loaded.run({"text": "b", "given": trees[kind]}) == graph.run({"text": "b", "given": trees[kind]})


@pytest.mark.parametrize("pipeline", [with_state, with_object])
def test_what_operators_hold_is_one_in_the_bundle_too(pipeline: Any, tmp_path: Path) -> None:
    clew.record(pipeline, "a").save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True).run({"text": "b"}) == ("b", True)


def test_a_loop_beside_it_is_one_step() -> None:
    assert clew.record(with_loop, ["a", "b"]).run({"texts": ["c"]}) == [("c", 2)]


def test_recorded_values_in_it_are_refused() -> None:
    """A template writes each place out."""
    with pytest.raises(clew.ClewError) as caught:
        clew.record(with_recorded, "a")
    assert caught.value.slug == "graph-shared"


@pytest.mark.parametrize("kind", [*KINDS, *SETS])
def test_the_self_test_looks_at_each_once(kind: str) -> None:
    value: Any = (1,)
    for _ in range(DEPTH):
        value = (KINDS | SETS)[kind](value)
    assert len(json.dumps(fingerprint(value))) < 10_000


def test_a_change_deep_in_sets_shows_in_the_self_test() -> None:
    before, after = ((1,),), ((2,),)
    for _ in range(20):
        before, after = SETS["frozensets"](before), SETS["frozensets"](after)
    assert fingerprint(before) != fingerprint(after)

"""`graph.map` beside a plain loop: whatever the items, the order in which pieces come back, and where it is stopped."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.engines.engine import Key, Outcome, Work
from clew.errors import GraphError
from clew.graph import Graph
from clew.graph.mapping import columns, output_parts
from clew.graph.mapping.map_job import Failure
from graph import mapops

fast = settings(max_examples=40, deadline=None)


class Unruly:
    """An engine that gives back what it likes first, and loses pieces."""

    piece_seconds, deaths, blames, chaos = 0.001, 3, False, random.Random(0)

    def __init__(self, work: Work, workers: int) -> None:
        self._run, self.workers, self.room = _ready(work), workers, 3 * workers
        self._pieces: list[tuple[Key, list[Any]]] = []

    def submit(self, key: Key, items: list[Any]) -> None:
        self._pieces.append((key, items))

    def collect(self, wait: bool) -> list[Outcome]:
        if not self._pieces or (not wait and self.chaos.random() < 0.5):
            return []
        key, items = self._pieces.pop(self.chaos.randrange(len(self._pieces)))
        lost = self.chaos.random() < 0.2 and not (key[2] - key[1] == 1 and self.chaos.random() < 0.9)
        return [Outcome(key, None, "lost") if lost else Outcome(key, self._run(items))]

    def close(self) -> None:
        self._pieces.clear()


_ready = cache(lambda work: work.prepare())


def kept(pipeline: Any, example: Any, folder: Path) -> Graph:
    return clew.load(clew.record(pipeline, example).save(folder / pipeline.__name__), trusted=True)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    folder = tmp_path_factory.mktemp("graphs")
    examples = {mapops.inverted: 1, mapops.summed: [[1.0, 2.0]], mapops.opened: {"is": 1}}
    return {pipeline.__name__: kept(pipeline, example, folder) for pipeline, example in examples.items()}


@fast
@given(st.lists(st.integers(-3, 3)), st.booleans(), st.sampled_from([None, 1, 3]), st.integers(1, 4), st.integers())
def test_every_item_has_its_result_or_its_failure_once(
    graphs: dict[str, Graph], items: list[int], ordered: bool, batch: int | None, workers: int, seed: int
) -> None:
    graph = graphs["summed" if batch else "inverted"]
    engine = type("Seeded", (Unruly,), {"chaos": random.Random(seed)})
    results = graph.map(iter(items), engine=engine, ordered=ordered, batch=batch, workers=workers)
    found = list(results.indexed())
    assert sorted(index for index, _ in found) == list(range(len(items)))
    assert not ordered or found == sorted(found, key=lambda pair: pair[0])
    for index, value in found:
        item, failed = items[index], isinstance(value, Failure)
        if failed:
            assert (value.index, value.input) == (index, item)
            assert "lost" in value.error or item == 0 or (batch and item < 0)
        else:
            assert value == 1 / item if not batch else 1 <= value["sum"] - item <= batch
    assert sorted(one.index for one in results.failures) == sorted(i for i, v in found if isinstance(v, Failure))


# ---- into a file

number = st.none() | st.integers(-(2**50), 2**50) | st.floats(allow_nan=False)
text = st.none() | st.text(max_size=3)
array = st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(np.array)
record = st.dictionaries(st.sampled_from(["a", "b", "index", "error", ""]), number, min_size=1, max_size=3)
nested = st.dictionaries(st.sampled_from("xy"), st.lists(st.dictionaries(st.sampled_from("pq"), number), max_size=2))
ALIKE = [
    number,
    text,
    array,
    record,
    nested,
    st.none() | record,
    st.lists(number),
    st.tuples(number, text),
    st.just({}),
]
anything = st.one_of(
    *ALIKE, st.booleans(), st.binary(max_size=2), st.dates(), st.datetimes(), st.decimals(), st.integers()
)


def written(graph: Graph, values: Iterable[Any], path: Path, stops: list[int], chaos: random.Random) -> list[Any]:
    """What is in the file after jobs that were stopped, by themselves or from outside, after so many items."""
    items = [{"is": value} for value in values]

    def until(stop: int) -> Iterator[Any]:
        yield from items[:stop]
        raise OSError("cut")

    for stop in stops:
        with pytest.raises(GraphError, match="cut"), pytest.MonkeyPatch.context() as patch:
            if chaos.random() < 0.5:  # as after kill -9
                patch.setattr(output_parts.Output, "stop", output_parts.Output._release)
            graph.map(until(stop), output=path, **_options(chaos))
    done = graph.map(items, output=path, **_options(chaos))
    assert [name.name for name in path.parent.iterdir()] == [path.name]
    found = list(done.indexed())
    assert [index for index, _ in found] == list(range(len(items)))
    return [value for _, value in found]


def _options(chaos: random.Random) -> dict[str, Any]:
    class Seeded(Unruly):
        deaths = 1000

    Seeded.chaos = chaos
    ways: list[dict[str, Any]] = [{"workers": 1}, {"engine": Seeded, "workers": 2, "ordered": chaos.random() < 0.5}]
    return {"progress": False, **chaos.choice(ways)}


def alike(given: Any, found: Any) -> bool:
    """The same but for what columns do: sequences are lists, some numbers floats, dictionaries have all keys."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, dict):
        found = dict.fromkeys(given) if found is None else found  # a row of nulls: both are that
        return isinstance(found, dict) and all(alike(given.get(key), found.get(key)) for key in {*given, *found})
    if isinstance(given, list | tuple):
        found = [None] * len(given) if found is None and type(given) is tuple else found
        return isinstance(found, list | tuple) and len(given) == len(found) and all(map(alike, given, found))
    if isinstance(given, float) and math.isnan(given):
        return isinstance(found, float) and math.isnan(found)
    both_numbers = {type(given), type(found)} <= {int, float, Decimal}
    return given == found and (both_numbers or type(given) is type(found))


stops = st.lists(st.integers(0, 12), max_size=3)
NAMES = st.sampled_from(["out.parquet", "out.arrow"])


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(ALIKE).flatmap(lambda kind: st.lists(kind, max_size=12)), stops, NAMES, st.integers())
def test_a_file_holds_what_a_loop_gives_wherever_the_job_was_stopped(
    graphs: dict[str, Graph], values: list[Any], stops: list[int], name: str, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_parts, "ROWS", 3)
        patch.setattr(columns, "_BYTES", 64)
        patch.setattr(output_parts.os, "fsync", lambda file: None)
        found = written(graphs["opened"], values, Path(folder) / name, stops, random.Random(seed))
    for value, result in zip(values, found, strict=True):
        assert alike(value, result), (value, result)


@settings(max_examples=80, deadline=None)
@given(st.lists(anything, max_size=12), stops, NAMES, st.integers())
def test_a_result_of_another_kind_is_itself_or_a_failure(
    graphs: dict[str, Graph], values: list[Any], stops: list[int], name: str, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_parts, "ROWS", 3)
        patch.setattr(columns, "_BYTES", 64)
        patch.setattr(output_parts.os, "fsync", lambda file: None)
        found = written(graphs["opened"], values, Path(folder) / name, stops, random.Random(seed))
    for value, result in zip(values, found, strict=True):
        assert isinstance(result, Failure) or alike(value, result), (value, result)

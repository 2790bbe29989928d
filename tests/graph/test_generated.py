"""Whatever a pipeline does, its graph gives what the pipeline gives, or says that it does not hold."""

from __future__ import annotations

import copy
import importlib
import itertools
import linecache
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import clew
from clew.errors import GraphError, GuardError
from clew.graph.recording.session import ConstantWarning
from clew.values import capture
from graph.generated import arguments, loops, pipelines, setups

COUNT = 60
NUMBERS = itertools.count()


def _made(source: str) -> Any:
    """The pipeline of some source, as a notebook's cell would have it."""
    name = f"<generated-{hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "generated"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `7 is None`
        exec(compile(source, name, "exec"), scope)
    return scope["pipeline"]


def _outcome(function: Any, given: dict[str, Any]) -> Any:
    """What comes out, and what became of the arguments; or what was raised."""
    given = copy.deepcopy(given)
    try:
        return capture([function(**given), given]).digest
    except GuardError:
        return None
    except Exception as error:
        return type(error)


_random_pipelines = settings(
    max_examples=COUNT,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # what fails is small enough, and looking for less takes minutes
    suppress_health_check=list(HealthCheck),
)


@_random_pipelines
@given(pipelines(), arguments(longest=3), st.lists(arguments(), min_size=4, max_size=4))
def test_a_graph_gives_what_its_pipeline_gives_or_says_that_it_does_not_hold(
    source: str, example: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    pipeline = _made(source)
    plain = _outcome(pipeline, example)
    if isinstance(plain, type):
        return  # the pipeline itself fails
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            graph = clew.record(pipeline, **copy.deepcopy(example))
        except (GraphError, ConstantWarning):
            return  # refused, or said to be otherwise
    assert _outcome(graph, example) == plain, graph.source
    for other in [*others, example]:
        got, wanted = _outcome(graph, other), _outcome(pipeline, other)
        assert got is None or got == wanted or isinstance(got, type), f"{other}\n{graph.source}"


@_random_pipelines
@given(loops(), arguments(longest=3), st.lists(arguments(longest=12), min_size=5, max_size=5))
def test_a_graph_of_loops_gives_what_its_pipeline_gives_for_other_lengths(
    source: str, example: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    pipeline = _made(source)
    if isinstance(_outcome(pipeline, example), type):
        return
    graph = clew.record(pipeline, **copy.deepcopy(example))
    for other in others:
        assert _outcome(graph, other) == _outcome(pipeline, other), f"{source}\n{example}\n{other}\n{graph.source}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CLEW_SELFTEST", "0")  # it is compared here
    return tmp_path


@settings(
    max_examples=COUNT // 2,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(pipelines(state=True), setups(), arguments(), st.lists(arguments(), min_size=4, max_size=4))
def test_a_bundle_gives_what_its_graph_gives_with_the_state_of_its_module(
    folder: Path, source: str, setup: list[str], example: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    name = f"generated_{next(NUMBERS)}"
    (folder / f"{name}.py").write_text(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.invalidate_caches()
        app = importlib.import_module(name)
        for line in setup:
            exec(line, {"app": app})
        try:
            graph = clew.record(app.pipeline, **copy.deepcopy(example))
            graph.save(folder / f"bundle_{name}")
        except Exception:
            return  # the pipeline itself fails, or is refused
        loaded = clew.load(folder / f"bundle_{name}", trusted=True)
    for other in [example, *others, example]:  # one after the other: both go on from the same state
        assert _outcome(loaded, other) == _outcome(graph, other), f"{setup}\n{other}\n{graph.source}"

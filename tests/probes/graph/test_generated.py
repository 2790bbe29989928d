"""Whatever a pipeline does, its graph gives what the pipeline gives, or says that it does not hold."""

from __future__ import annotations

import copy
import linecache
import warnings
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from probes.graph.generated import arguments, pipelines

import clew
from clew.errors import GraphError, GuardError
from clew.values import capture


COUNT = 60


def _made(source: str) -> Any:
    """The pipeline of some source, as a notebook's cell would have it."""
    name = f"<generated-{hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "generated"}
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


@settings(max_examples=COUNT, deadline=None, suppress_health_check=list(HealthCheck))
@given(pipelines(), arguments(), st.lists(arguments(), min_size=4, max_size=4))
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
        except GraphError:
            return  # refused, with a reason
    assert _outcome(graph, example) == plain, graph.source
    for other in [*others, example]:
        got, wanted = _outcome(graph, other), _outcome(pipeline, other)
        assert got is None or got == wanted or isinstance(got, type), f"{other}\n{graph.source}"

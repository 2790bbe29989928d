"""Whatever a pipeline does, its graph gives what the pipeline gives, or says that it does not hold."""

from __future__ import annotations

import copy
import linecache
import warnings
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import clew
from clew.errors import GraphError, GuardError
from clew.probes.graph.session import ConstantWarning
from clew.values import capture
from probes.graph.generated import arguments, pipelines

COUNT = 60


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


@settings(
    max_examples=COUNT,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # what fails is small enough, and looking for less takes minutes
    suppress_health_check=list(HealthCheck),
)
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
        except (GraphError, ConstantWarning):
            return  # refused, or said to be otherwise
    assert _outcome(graph, example) == plain, graph.source
    for other in [*others, example]:
        got, wanted = _outcome(graph, other), _outcome(pipeline, other)
        assert got is None or got == wanted or isinstance(got, type), f"{other}\n{graph.source}"

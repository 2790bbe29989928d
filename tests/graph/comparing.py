"""A graph beside the pipeline it was recorded from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import clew
from clew.errors import GuardError
from clew.graph import Graph
from clew.values import capture


def same(a: Any, b: Any) -> bool:
    return capture(a).digest == capture(b).digest


def recorded(pipeline: Callable[..., Any], example: Any) -> Graph:
    return clew.record(pipeline, [copy.deepcopy(example)])


def holds(pipeline: Callable[..., Any], example: Any, *others: Any) -> Graph:
    """The graph of the example, which gives for the others, too, what the pipeline gives; twice: it keeps nothing."""
    graph = recorded(pipeline, example)
    for given in (example, *others, example, *others):
        wanted, got = pipeline(copy.deepcopy(given)), graph(copy.deepcopy(given))
        assert same(wanted, got), f"{given!r}: {wanted!r} != {got!r}\n{graph.source}"
    return graph


def refuses(graph: Graph, given: Any) -> str:
    """What the graph says of an input it does not hold for."""
    try:
        got = graph(copy.deepcopy(given))
    except GuardError as error:
        return str(error)
    raise AssertionError(f"{got!r} came out\n{graph.source}")

"""Recording a pipeline of operators into a graph: `clew.op`, `clew.record`, `clew.load`."""

from __future__ import annotations

from clew.graph.mapping.one_operator import map, starmap, submit

from .bundle import load
from .graph import Graph, record
from .operators import op

__all__ = ["Graph", "load", "map", "op", "record", "starmap", "submit"]

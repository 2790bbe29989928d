"""Recording a pipeline of operators into a graph: `clew.op`, `clew.record`."""

from __future__ import annotations

from .graph import Graph, record
from .mapped import map, submit
from .operators import op

__all__ = ["Graph", "map", "op", "record", "submit"]

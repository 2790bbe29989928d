"""Recording a pipeline of operators into a graph: `clew.op`, `clew.record`."""

from __future__ import annotations

from .graph import Graph, record
from .operators import op

__all__ = ["Graph", "op", "record"]

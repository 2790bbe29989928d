"""A graph as a drawing needs it: nodes and edges, plain data. It is kept in a run whose steps were stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.graph.nodes import Block, Guard, Step, refs_in

from .boxes import Box, boxes

if TYPE_CHECKING:
    from clew.graph.graph import Graph


def drawing(graph: Graph) -> dict[str, Any]:
    """Nodes, each with the module it belongs to, and edges, each with the argument it leads into."""
    found = boxes(graph)
    steps = {f"v{step.id}": step for step in _steps(graph._block)}
    known = {box.key for box in found}
    edges = []
    for box in found:
        names = _argument_names(steps.get(box.key))
        edges += [{"from": need, "to": box.key, "label": names.get(need, "")} for need in box.needs if need in known]
    return {"name": graph.name, "nodes": [_node(box, steps.get(box.key)) for box in found], "edges": edges}


def _steps(block: Block) -> list[Step]:
    found = [event for event in block.events if not isinstance(event, Guard)]
    for _, branch in block.branches:
        found += _steps(branch)
    return found


def _node(box: Box, step: Step | None) -> dict[str, Any]:
    file, line = (step.where.file, step.where.line) if step is not None else ("", 0)
    return {
        "id": box.key,
        "label": box.text,
        "kind": box.kind,
        "group": _group(step) if step is not None else "",
        "file": file,
        "line": line,
    }


def _group(step: Step) -> str:
    """The module of an operator or function; of Python's own operations, that of the line they are written at."""
    module = _module(step)
    return Path(step.where.file).stem if module in ("", "__main__", "builtins") else module


def _module(step: Step) -> str:
    if step.kind == "operator":
        return str(getattr(step.target.target, "__module__", None) or type(step.target.target).__module__)
    return str(step.target).partition(":")[0] if step.kind == "function" else ""


def _argument_names(step: Step | None) -> dict[str, str]:
    """By value: the name of the (first) argument that it goes into, where that has one."""
    names: dict[str, str] = {}
    for name, given in step.kwargs.items() if step is not None else ():
        for ref in refs_in(given):
            names.setdefault(f"v{ref.id}", name)
    return names

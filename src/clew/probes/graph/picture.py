"""A graph to look at: as Mermaid and DOT text, as SVG, and as lines in a terminal. Everything is escaped."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from .nodes import Block, Guard, Input, Step, refs_in

if TYPE_CHECKING:
    from .graph import Graph

_CHAR, _LINE, _GAP_X, _GAP_Y = 7, 26, 24, 34  # pixels


@dataclass
class Box:
    """One thing in the picture."""

    key: str
    text: str
    kind: str  # input, operator, step, guard, output
    hint: str = ""
    needs: list[str] = field(default_factory=list)


def boxes(graph: Graph) -> list[Box]:
    """Everything, each after what it needs."""
    found = [Box(f"v{given.id}", given.name, "input") for given in graph._inputs]
    _add(graph._block, found, [], graph._inputs)
    return found


def _add(block: Block, found: list[Box], after: list[str], inputs: list[Input]) -> None:
    for event in block.events:
        if isinstance(event, Guard):
            continue
        found.append(_step(event, after))
    if block.decision is not None:
        guard = block.decision
        key = f"g{len(found)}"
        found.append(Box(key, guard.condition or guard.kind, "guard", str(guard.where), [f"v{guard.ref}", *after]))
        for expected, branch in block.branches:
            way = f"w{len(found)}"
            found.append(Box(way, f"{guard.kind} {expected!r}"[:60], "guard", str(guard.where), [key]))
            _add(branch, found, [way], inputs)
        return
    needs = [f"v{ref.id}" for ref in refs_in(block.output)]
    found.append(Box(f"o{len(found)}", "output", "output", "", [*dict.fromkeys(needs), *after]))


def _step(step: Step, after: list[str]) -> Box:
    needs = [f"v{id}" for id in sorted(step.refs)]
    kind = "operator" if step.kind == "operator" else "step"
    return Box(f"v{step.id}", label(step), kind, f"{step.where} → {step.type}", needs or after)


def label(step: Step) -> str:
    """A step in a word."""
    if step.kind == "operator":
        return str(step.target.name)
    if step.kind == "item":
        return "[…]"
    if step.kind in ("method", "attribute"):
        return f".{step.target}" + ("()" if step.kind == "method" else "")
    return str(step.target).rpartition(":")[2]


def mermaid(graph: Graph) -> str:
    """For Markdown: a flowchart."""
    shapes = {
        "input": ("([", "])"),
        "operator": ("[", "]"),
        "step": ("(", ")"),
        "guard": ("{", "}"),
        "output": ("([", "])"),
    }
    lines = ["flowchart TD"]
    for box in boxes(graph):
        left, right = shapes[box.kind]
        text = box.text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
        lines.append(f'    {box.key}{left}"{text}"{right}')
        lines += [f"    {need} --> {box.key}" for need in box.needs]
    return "\n".join(lines)


def dot(graph: Graph) -> str:
    """For Graphviz."""
    shapes = {"input": "ellipse", "operator": "box", "step": "plaintext", "guard": "diamond", "output": "ellipse"}
    lines = ["digraph pipeline {"]
    for box in boxes(graph):
        text = box.text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        lines.append(f'    {box.key} [label="{text}", shape={shapes[box.kind]}];')
        lines += [f"    {need} -> {box.key};" for need in box.needs]
    return "\n".join([*lines, "}"])


def text(graph: Graph) -> str:
    """For a terminal: one line a step, with what it needs."""
    named = {box.key: box for box in boxes(graph)}
    numbers = {key: str(number) for number, key in enumerate(named, 1)}
    lines = [repr(graph)]
    for key, box in named.items():
        needs = ", ".join(numbers[need] for need in box.needs if need in numbers)
        came = f"  ← {needs}" if needs else ""
        lines.append(f"{numbers[key]:>4}  {box.text}{came}" + (f"    {box.hint}" if box.hint else ""))
    return "\n".join(lines)


def svg(graph: Graph) -> str:
    """A drawing: each thing below what it needs."""
    found = boxes(graph)
    rows = _rows(found)
    places: dict[str, tuple[float, float, float]] = {}
    widths = [sum(_width(box) + _GAP_X for box in row) for row in rows]
    total = max(widths, default=100) + _GAP_X
    for depth, row in enumerate(rows):
        x = (total - widths[depth]) / 2 + _GAP_X / 2
        for box in row:
            places[box.key] = (x, 10 + depth * (_LINE + _GAP_Y), _width(box))
            x += _width(box) + _GAP_X
    height = 20 + len(rows) * (_LINE + _GAP_Y)
    edges = [_edge(places[need], places[box.key]) for box in found for need in box.needs if need in places]
    drawn = [_drawn(box, *places[box.key]) for box in found]
    size = f'width="{total:.0f}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return head + "".join(edges) + "".join(drawn) + "</svg>"


def _rows(found: list[Box]) -> list[list[Box]]:
    depth: dict[str, int] = {}
    rows: list[list[Box]] = []
    for box in found:
        level = max((depth[need] + 1 for need in box.needs if need in depth), default=0)
        depth[box.key] = level
        while len(rows) <= level:
            rows.append([])
        rows[level].append(box)
    return rows


def _width(box: Box) -> float:
    return max(40, len(box.text[:40]) * _CHAR + 18)


def _edge(start: tuple[float, float, float], end: tuple[float, float, float]) -> str:
    x1, y1 = start[0] + start[2] / 2, start[1] + _LINE
    x2, y2 = end[0] + end[2] / 2, end[1]
    middle = (y1 + y2) / 2
    path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{path}" fill="none" stroke="#999"/>'


def _drawn(box: Box, x: float, y: float, width: float) -> str:
    colours = {"input": "#dbeafe", "operator": "#dcfce7", "step": "#f5f5f4", "guard": "#fef3c7", "output": "#dbeafe"}
    shown = box.text if len(box.text) <= 40 else box.text[:39] + "…"
    title = f"<title>{escape(f'{box.text}  {box.hint}'.strip())}</title>"
    frame = f'x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_LINE}" rx="6"'
    rectangle = f'<rect {frame} fill="{colours[box.kind]}" stroke="#888"/>'
    label = f'<text x="{x + width / 2:.0f}" y="{y + 17:.0f}" text-anchor="middle" fill="#222">{escape(shown)}</text>'
    return f"<g>{title}{rectangle}{label}</g>"

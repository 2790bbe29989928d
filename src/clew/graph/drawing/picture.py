"""A graph to look at: as Mermaid and DOT text, as SVG, and as lines in a terminal. Everything is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .boxes import Box, boxes

if TYPE_CHECKING:
    from clew.graph.graph import Graph

_CHAR, _LINE, _GAP_X, _GAP_Y = 7, 26, 24, 34  # pixels
_LONGEST = 40  # characters of a box in the drawing; the rest is in its title
_ALIGNED = 48  # characters of a line that others are brought in line with
_COLOURS = {"input": "#dbeafe", "operator": "#dcfce7", "step": "#f5f5f4", "guard": "#fef3c7", "output": "#dbeafe"}


class Picture(str):
    """A graph as lines, for a terminal; a notebook shows the drawing."""

    drawing: str = ""

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str:
        return self.drawing


def shown(graph: Graph) -> Picture:
    picture = Picture(text(graph))
    picture.drawing = svg(graph)
    return picture


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
        lines.append(f'    {box.key}{left}"{_entities(box.text)}"{right}')
        lines += [f"    {need} --> {box.key}" for need in box.needs]
    return "\n".join(lines)


def _entities(said: str) -> str:
    """Text that Mermaid takes as it is: it reads Markdown, and numbers for characters."""
    return "".join(one if one.isalnum() or one in " _.,=+-/·…" else f"#{ord(one)};" for one in " ".join(said.split()))


def dot(graph: Graph) -> str:
    """For Graphviz."""
    shapes = {"input": "ellipse", "operator": "box", "step": "plaintext", "guard": "diamond", "output": "ellipse"}
    lines = ["digraph pipeline {"]
    for box in boxes(graph):
        said = " ".join(box.text.split()).replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'    {box.key} [label="{said}", shape={shapes[box.kind]}];')
        lines += [f"    {need} -> {box.key};" for need in box.needs]
    return "\n".join([*lines, "}"])


def text(graph: Graph) -> str:
    """For a terminal: one line a step, with what it needs."""
    named = {box.key: box for box in boxes(graph)}
    numbers = {key: str(number) for number, key in enumerate(named, 1)}
    said = {}
    for key, box in named.items():
        needs = ", ".join(numbers[need] for need in box.needs if need in numbers)
        said[key] = " ".join(box.text.split()) + (f"  ← {needs}" if needs else "")
    width = max((len(line) for line in said.values() if len(line) <= _ALIGNED), default=0)
    lines = [f"{numbers[key]:>4}  {line:<{width}}    {named[key].hint}".rstrip() for key, line in said.items()]
    notes = [f"      {note}" for note in graph.notes]
    return "\n".join([repr(graph), *lines, *notes])


# ---- the drawing -----------------------------------------------------------------------------------------------------

_Places = dict[str, tuple[float, float, float]]  # left, top and width of each box


def svg(graph: Graph) -> str:
    """A drawing: each thing below what it needs."""
    found = boxes(graph)
    rows = _rows(found)
    places = _places(rows)
    width = max((x + size for x, _, size in places.values()), default=100) + _GAP_X
    height = 20 + len(rows) * (_LINE + _GAP_Y)
    edges = [_edge(places[need], places[box.key]) for box in found for need in box.needs if need in places]
    drawn = [_drawn(box, *places[box.key]) for box in found]
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return head + _ARROW + "".join(edges) + "".join(drawn) + "</svg>"


_ARROW = (
    '<defs><marker id="clew-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="#888"/></marker></defs>'
)


def _rows(found: list[Box]) -> list[list[Box]]:
    depth: dict[str, int] = {}
    rows: list[list[Box]] = []
    for box in found:
        level = max((depth[need] + 1 for need in (*box.needs, *box.below) if need in depth), default=0)
        depth[box.key] = level
        while len(rows) <= level:
            rows.append([])
        rows[level].append(box)
    return rows


def _places(rows: list[list[Box]]) -> _Places:
    """Each box below the middle of what it needs, as far as its neighbours leave room."""
    places: _Places = {}
    for depth, row in enumerate(rows):
        wished = {box.key: _middle(box, places) for box in row}
        row.sort(key=lambda box: wished[box.key])
        lefts: list[float] = []
        for box in row:
            least = lefts[-1] + _width(row[len(lefts) - 1]) + _GAP_X if lefts else float("-inf")
            lefts.append(max(least, wished[box.key] - _width(box) / 2))
        pushed = sum(left + _width(box) / 2 - wished[box.key] for left, box in zip(lefts, row, strict=True)) / len(row)
        for left, box in zip(lefts, row, strict=True):
            places[box.key] = (left - pushed, 10 + depth * (_LINE + _GAP_Y), _width(box))
    first = min((left for left, _, _ in places.values()), default=0) - _GAP_X / 2
    return {key: (left - first, top, width) for key, (left, top, width) in places.items()}


def _middle(box: Box, places: _Places) -> float:
    known = [places[need] for need in (*box.needs, *box.below) if need in places]
    return sum(x + width / 2 for x, _, width in known) / len(known) if known else 0.0


def _width(box: Box) -> float:
    return max(40, min(len(box.text), _LONGEST) * _CHAR + 18)


def _edge(start: tuple[float, float, float], end: tuple[float, float, float]) -> str:
    x1, y1 = start[0] + start[2] / 2, start[1] + _LINE
    x2, y2 = end[0] + end[2] / 2, end[1]
    middle = (y1 + y2) / 2
    path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{path}" fill="none" stroke="#999" marker-end="url(#clew-arrow)"/>'


def _drawn(box: Box, x: float, y: float, width: float) -> str:
    said = box.text if len(box.text) <= _LONGEST else box.text[: _LONGEST - 1] + "…"
    title = f"<title>{_escaped(f'{box.text}  {box.hint}'.strip())}</title>"
    frame = f'x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_LINE}" rx="6"'
    rectangle = f'<rect {frame} fill="{_COLOURS[box.kind]}" stroke="#888"/>'
    written = f'<text x="{x + width / 2:.0f}" y="{y + 17:.0f}" text-anchor="middle" fill="#222">{_escaped(said)}</text>'
    return f"<g>{title}{rectangle}{written}</g>"


def _escaped(said: str) -> str:
    """For XML, which has no place for some characters at all."""
    return escape("".join(one if one.isprintable() or one == "\n" else "�" for one in said))

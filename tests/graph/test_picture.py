"""A graph to look at."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest

import clew
from clew.errors import GraphError
from clew.graph import Graph


@clew.op
def split(text: Any) -> Any:
    return text.split()


@clew.op
class Vocabulary:
    def __init__(self, words: list[str]) -> None:
        self.words = words

    def __call__(self, words: Any) -> Any:
        return [self.words.index(word) for word in words]


LINE = """if len(words) > 2 and words[0] != '"<&>\\\\#;`|':"""
VOCABULARY = Vocabulary(["a", "b"])


def pipeline(text: Any) -> Any:
    words = split(text)
    if len(words) > 2 and words[0] != '"<&>\\#;`|':
        words = words[:2]
    return VOCABULARY(words), f"{words[0]}: {len(words)}"


@pytest.fixture
def graph() -> Graph:
    return clew.record(pipeline, ["a b", "a b a"])


def test_the_lines_say_what_is_done_with_what_and_where(graph: Graph) -> None:
    lines = graph.show().splitlines()
    assert lines[:3] == [repr(graph), "   1  text", lines[2]]
    assert re.fullmatch(r"   2  split  ← 1 +test_picture.py:\d+ → list", lines[2])
    said = [line.split("←")[0].strip().partition("  ")[2] for line in lines[1:]]
    assert said[:6] == ["text", "split", "len", "· > 2", LINE, "no"]
    assert {"yes", "[:2]", "Vocabulary", "[0]", 'f"{·}"', "output"} <= set(said)


def test_a_guard_is_in_the_picture_with_what_it_holds_for() -> None:
    shown = clew.record(pipeline, "a b").show()
    assert re.search(r"if len\(words\) > 2 .*test_picture.py:\d+, holds for: no", shown)


def test_a_notebook_draws_what_is_shown_and_the_graph_itself(graph: Graph) -> None:
    shown = graph.show()
    assert shown._repr_svg_() == graph._repr_svg_() == graph.to_svg()
    assert repr(shown) == str(shown)  # a terminal shows the lines, not a text in quotes


def test_the_drawing_is_xml_and_has_a_box_for_each_thing_and_an_arrow_for_each_need(graph: Graph) -> None:
    drawing = ElementTree.fromstring(graph.to_svg())
    place = "{http://www.w3.org/2000/svg}"
    texts = [one.text or "" for one in drawing.iter(f"{place}text")]
    assert texts.count("output") == 2
    assert LINE[:39] + "…" in texts
    arrows = [one for one in drawing.iter(f"{place}path") if one.get("marker-end")]
    assert len(arrows) == graph.to_dot().count("->") == graph.to_mermaid().count("-->")
    width, height = float(drawing.get("width", 0)), float(drawing.get("height", 0))
    boxes = [{name: float(one.get(name, 0)) for name in ("x", "y", "width")} for one in drawing.iter(f"{place}rect")]
    assert all(0 <= box["x"] and box["x"] + box["width"] <= width and 0 <= box["y"] < height for box in boxes)
    rows: dict[float, list[tuple[float, float]]] = {}
    for box in boxes:
        rows.setdefault(box["y"], []).append((box["x"], box["x"] + box["width"]))
    for row in rows.values():
        row.sort()
        assert all(right < left for (_, right), (left, _) in itertools.pairwise(row))


def test_signs_that_mean_something_to_a_reader_are_escaped(graph: Graph) -> None:
    (line, _) = [line for line in graph.to_dot().splitlines() if "shape=diamond" in line and "if len" in line]
    said = LINE.replace("\\", "\\\\").replace('"', '\\"')
    assert line.endswith(f'[label="{said}", shape=diamond];')
    for line in graph.to_mermaid().splitlines()[1:]:
        assert re.fullmatch(r'    \w+ --> \w+|    \w+(\(\[|\[|\(|\{)"[^"<>`|\\{}()\[\]]*"(\]\)|\]|\)|\})', line), line


def test_constants_of_other_types_are_named_by_their_type_alone() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("looked at")

        def __radd__(self, other: Any) -> Any:
            return other

    loud = Loud()
    assert "· + a Loud" in clew.record(lambda x: x + loud, 1).show()


def test_every_format_is_shown_by_its_name(graph: Graph) -> None:
    assert graph.show("text") == graph.show()
    wanted = [graph.to_svg(), graph.to_mermaid(), graph.to_dot()]
    assert [graph.show(format) for format in ("svg", "mermaid", "dot")] == wanted
    with pytest.raises(GraphError, match="There is 'text', 'svg', 'mermaid', 'dot'"):
        graph.show("png")

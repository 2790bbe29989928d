"""Recorded graphs, and who called whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.store.graph_files import MODULE, graph_text, write_graph
from page.asking import Page
from page.contract import misfits
from reading.writing import Written


def test_without_a_graph_it_is_which_function_called_which(page: Page, folder: Path) -> None:
    answer = page.of(folder, "graph")
    assert (answer["what"], answer["graphs"]) == ("calls", 0)
    train, layer = answer["nodes"]
    assert (train["label"], train["group"], train["calls"]) == ("train", "pkg.mod", 1)
    assert (layer["label"], layer["calls"]) == ("layer", 10)
    (edge,) = answer["edges"]
    assert (edge["from"], edge["to"], edge["label"]) == (train["id"], layer["id"], "10 × 3 ms")


def test_methods_are_grouped_by_their_class(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    shard.call("Net.forward", module="pkg.net")
    shard.call("f.<locals>.g", module="pkg.net")
    shard.close()
    nodes = Page(base).of(writer.folder, "graph")["nodes"]
    assert [(node["group"], node["label"]) for node in nodes] == [("pkg.net.Net", "forward"), ("pkg.net.f", "g")]


@pytest.fixture
def drawn(base: Path) -> Path:
    """A run with one graph of two nodes, of which one ran twice."""
    drawing = {
        "name": "pipeline",
        "nodes": [
            {"id": "v1", "label": "tokenize", "kind": "operator", "group": "text", "file": "p.py", "line": 12},
            {"id": "v2", "label": "output", "kind": "output", "group": "", "file": "", "line": 0},
        ],
        "edges": [{"from": "v1", "to": "v2", "label": "words"}, {"from": "v1", "to": "lost", "label": ""}],
    }
    key, data = graph_text(drawing)
    writer = Written(base)
    write_graph(writer.folder, key, data)
    shard = writer.shard()
    import numpy as np

    for _ in range(2):
        call = shard.call("tokenize", module=f"{MODULE}{key}.v1")
        shard.change(call, "return", np.zeros((2, 3), np.float32), role="output")
        shard.end(call)
    shard.close()
    return writer.folder


def test_a_recorded_graph_has_values_times_and_calls(base: Path, drawn: Path) -> None:
    page = Page(base)
    answer = page.of(drawn, "graph")
    assert misfits(answer, "Graph") == []
    assert (answer["what"], answer["graphs"], answer["which"]) == ("graph", 1, 0)
    tokenize, output = answer["nodes"]
    assert (tokenize["calls"], tokenize["value"]["shape"]) == (2, [2, 3])
    assert tokenize["seconds"] == pytest.approx(0.004)
    assert tokenize["place"] == {"file": "p.py", "line": 12, "function": "tokenize"}
    assert page.of(drawn, "call", call=tokenize["call"])["call"]["function"] == "tokenize"
    assert (output["value"], output["calls"], output["place"]) == (None, None, None)
    assert answer["edges"] == [{"from": "v1", "to": "v2", "label": "words float32 (2, 3) · 2 ms"}]


def test_the_edges_of_an_input_carry_what_the_graph_was_run_with(base: Path) -> None:
    place = {"group": "", "file": "", "line": 0}
    drawing = {
        "name": "pipeline",
        "nodes": [
            {"id": "v0", "label": "text", "kind": "input", **place},
            {"id": "v1", "label": "tokenize", "kind": "operator", **place},
        ],
        "edges": [{"from": "v0", "to": "v1", "label": ""}],
    }
    key, data = graph_text(drawing)
    writer = Written(base)
    write_graph(writer.folder, key, data)
    shard = writer.shard()
    for text in ("an older one", "a text much longer than fits there"):
        call = shard.call("pipeline", module=f"{MODULE}{key}")
        shard.change(call, "text", text, role="input")
        shard.end(call)
    shard.close()
    answer = Page(base).of(writer.folder, "graph")
    assert answer["nodes"][0]["value"]["text"] == "'a text much longer than fits there'"
    assert answer["edges"][0]["label"] == "'a text much longer tha…"


def test_a_graph_that_is_not_there_is_refused(base: Path, drawn: Path) -> None:
    page = Page(base)
    assert page.refused(404, f"{page.run(drawn)}/graph", which=3)["slug"] == "no-such-graph"


def test_a_damaged_graph_gives_way_to_the_calls(base: Path, drawn: Path) -> None:
    (file,) = drawn.glob("graph-*.json")
    file.write_text("{")
    assert Page(base).of(drawn, "graph")["what"] == "calls"

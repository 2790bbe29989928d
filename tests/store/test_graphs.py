"""Graphs kept beside the records of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clew.store.graph_files import graph_text, read_graphs, write_graph

DRAWING: dict[str, Any] = {
    "name": "pipeline",
    "nodes": [{"id": "v1", "label": "x", "kind": "input", "group": "", "file": "", "line": 0}],
    "edges": [],
}


def test_a_graph_comes_back_under_its_key(tmp_path: Path) -> None:
    key, data = graph_text(DRAWING)
    write_graph(tmp_path, key, data)
    write_graph(tmp_path, key, data)
    assert read_graphs(tmp_path) == {key: DRAWING}
    assert [path.name for path in tmp_path.iterdir()] == [f"graph-{key}.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": "x"}', '{"name": "x", "nodes": [{}], "edges": []}'])
def test_a_damaged_one_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "graph-0123456789ab.json").write_text(text)
    assert read_graphs(tmp_path) == {}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    key, data = graph_text(DRAWING)
    (tmp_path / "elsewhere").write_bytes(data)
    os.symlink(tmp_path / "elsewhere", tmp_path / f"graph-{key}.json")
    assert read_graphs(tmp_path) == {}

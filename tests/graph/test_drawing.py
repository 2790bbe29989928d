"""The drawing of a graph that a run keeps beside its calls."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.errors import RerunError
from clew.store.graph_files import MODULE, read_graphs


@clew.op
def clean(text: str) -> str:
    return text.strip()


@clew.op
def joined(text: str, by: str = "") -> str:
    return by.join(text)


def pipeline(text: str, by: str) -> str:
    return joined(clean(text), by=by).upper()


def test_a_run_keeps_the_graph_once_and_its_calls_name_their_nodes(tmp_path: Path) -> None:
    graph = clew.record(pipeline, " ab ", "-")
    with clew.run(path=tmp_path / "run") as run:
        graph.run({"text": "cd", "by": "+"}, record=True)
        graph.run({"text": "ef", "by": "+"}, record=True)
    ((key, drawing),) = read_graphs(run.path).items()
    labels = {node["id"]: node["label"] for node in drawing["nodes"]}
    calls = [call for call in run.calls() if call.module.startswith(MODULE + key + ".")]
    assert [labels[call.module.rpartition(".")[2]] for call in calls] == ["clean", "joined", ".upper()"] * 2
    assert [call.module for call in run.calls("pipeline")] == [MODULE + key] * 2


def test_edges_say_which_argument_they_lead_into_and_nodes_their_module(tmp_path: Path) -> None:
    graph = clew.record(pipeline, " ab ", "-")
    with clew.run(path=tmp_path / "run") as run:
        graph.run({"text": "cd", "by": "+"}, record=True)
    (drawing,) = read_graphs(run.path).values()
    labels = {node["id"]: node["label"] for node in drawing["nodes"]}
    edges = [(labels[edge["from"]], labels[edge["to"]], edge["label"]) for edge in drawing["edges"]]
    assert edges == [
        ("text", "clean", ""),
        ("by", "joined", "by"),
        ("clean", "joined", ""),
        ("joined", ".upper()", ""),
        (".upper()", "output", ""),
    ]
    groups = {node["label"]: node["group"] for node in drawing["nodes"]}
    assert groups["clean"].endswith("test_drawing")
    assert groups[".upper()"] == "test_drawing"


def test_a_stored_step_is_not_made_again_without_its_graph(tmp_path: Path) -> None:
    graph = clew.record(pipeline, " ab ", "-")
    with clew.run(path=tmp_path / "run") as run:
        graph.run({"text": "cd", "by": "+"}, record=True)
    with pytest.raises(RerunError, match="is a step of a graph"):
        run.calls("clean")[0].rerun()

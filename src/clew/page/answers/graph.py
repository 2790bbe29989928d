"""Answers with the operators of a recorded graph; without a graph, with which function called which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import UnknownNameError
from clew.page.plain_json import number
from clew.page.siblings import functions_of, times_of
from clew.page.tree_nodes import call_nodes
from clew.page.value_boxes import boxes_of_rows
from clew.reading.table import OUTPUT
from clew.store.graph_files import MODULE, read_graphs
from clew.text.brief import duration, printable, shorten

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query
    from clew.records import Function

MOST = 2_000  # functions or nodes per drawing
CARRIED = 24  # characters of a value shown on an edge


def graph(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """One of the recorded graphs, by default the first."""
    graphs = opened.cached("graphs", lambda: read_graphs(opened.folder))
    if not graphs:
        return opened.cached("called", lambda: _call_graph(opened))
    which = query.integer("which", 0)
    if which >= len(graphs):
        message = f"The run has {len(graphs)} graphs, and none numbered {which}."
        raise UnknownNameError("no-such-graph", message, "Open the page again.")
    key = list(graphs)[which]
    return opened.cached(("graph", key), lambda: _recorded_graph(opened, graphs, key))


# ---- recorded graphs


def _recorded_graph(opened: OpenedRun, graphs: dict[str, dict[str, Any]], key: str) -> dict[str, Any]:
    drawing = graphs[key]
    facts_by_node = _facts_of_steps(opened, key) | _facts_of_inputs(opened, key, drawing)
    nodes = [_graph_node(node, facts_by_node.get(node["id"], {})) for node in drawing["nodes"]]
    edge_texts = {node["id"]: _edge_text(facts_by_node.get(node["id"], {})) for node in drawing["nodes"]}
    edges = [
        {"from": edge["from"], "to": edge["to"], "label": _edge_label(edge["label"], edge_texts[edge["from"]])}
        for edge in drawing["edges"]
        if edge["from"] in edge_texts and edge["to"] in edge_texts
    ]
    which = list(graphs).index(key)
    return {"what": "graph", "graphs": len(graphs), "which": which, "nodes": nodes, "edges": edges}


def _graph_node(node: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    function = node.get("function") or node["label"]
    place = {"file": printable(node["file"]), "line": node["line"], "function": printable(function)}
    return {
        "id": node["id"],
        "label": printable(node["label"]),
        "group": printable(node["group"]),
        "kind": printable(node["kind"]),
        "place": place if node["file"] else None,
        "seconds": facts.get("seconds"),
        "calls": facts.get("calls"),
        "value": facts.get("value"),
        "call": facts.get("call"),
    }


def _edge_text(facts: dict[str, Any]) -> str:
    """The text of an edge: the value (an array by its shape), and the time to compute it."""
    value, seconds = facts.get("value"), facts.get("seconds")
    mean_duration = duration(seconds / facts["calls"]) if seconds else ""
    return " · ".join(filter(None, [_value_outline(value) if value else "", mean_duration]))


def _value_outline(value: dict[str, Any]) -> str:
    if "shape" not in value:
        return shorten(str(value["text"]), CARRIED)
    return f"{value.get('dtype', '')} ({', '.join(map(str, value['shape']))})".strip()


def _edge_label(argument: str, carried: str) -> str:
    return " ".join(filter(None, [printable(argument), carried]))


def _facts_of_steps(opened: OpenedRun, key: str) -> dict[str, dict[str, Any]]:
    """For each node id: how often it ran, for how long, its last call and its result."""
    calls, seconds = opened.tables.calls, times_of(opened).seconds
    facts_by_node: dict[str, dict[str, Any]] = {}
    for shard, offset in zip(calls.shards, calls.offsets.tolist(), strict=False):
        modules = {id: function.module for id, function in shard.reader.functions.items()}
        node_by_function = {
            id: module.removeprefix(f"{MODULE}{key}.") for id, module in modules.items() if _is_step(module, key)
        }
        for id, node in node_by_function.items():
            places = np.flatnonzero(shard.start("function") == id) + offset
            if len(places):
                facts = facts_by_node.setdefault(node, {"calls": 0, "seconds": 0.0})
                facts["calls"] += len(places)
                facts["seconds"] += float(np.nansum(seconds[places]))
                facts["call"] = opened.call_ids(places[-1:])[0]
                facts["value"] = _result_of_call(opened, int(places[-1]))
    return facts_by_node


def _facts_of_inputs(opened: OpenedRun, key: str, drawing: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """For each input id: its value in the last run of the graph."""
    calls = opened.tables.calls
    id_by_label = {node["label"]: node["id"] for node in drawing["nodes"] if node["kind"] == "input"}
    for shard, offset in reversed(list(zip(calls.shards, calls.offsets.tolist(), strict=False))):
        graph_functions = [id for id, function in shard.reader.functions.items() if function.module == f"{MODULE}{key}"]
        places = np.flatnonzero(np.isin(shard.start("function"), graph_functions)) + offset
        if len(places):
            args = call_nodes(opened, places[-1:])[0]["args"]
            return {id_by_label[arg["name"]]: {"value": arg["value"]} for arg in args if arg["name"] in id_by_label}
    return {}


def _is_step(module: str, key: str) -> bool:
    return module.startswith(f"{MODULE}{key}.")


def _result_of_call(opened: OpenedRun, place: int) -> dict[str, Any] | None:
    """The box of the result of a call."""
    shard, local = opened.tables.calls.split(place)
    calls, rows = shard.hidden(OUTPUT)
    end = int(np.searchsorted(calls, int(shard.start("call")[local]), side="right"))
    if end == 0 or calls[end - 1] != shard.start("call")[local]:
        return None
    row = rows[end - 1 : end] + int(opened.tables.table.offsets[shard.shard])
    return boxes_of_rows(opened.tables, row)[0]


# ---- which function called which


def _call_graph(opened: OpenedRun) -> dict[str, Any]:
    """A node per function and an edge per pair of caller and callee, computed over all calls at once."""
    calls = opened.tables.calls
    numbers, functions = functions_of(opened)
    parents = calls.parents
    with_parent = np.flatnonzero(parents >= 0)
    pairs = numbers[parents[with_parent]].astype(np.int64) * len(functions) + numbers[with_parent]
    distinct_pairs, edge_counts = np.unique(pairs, return_counts=True)
    node_counts = np.bincount(numbers, minlength=len(functions))
    seconds = np.nan_to_num(times_of(opened).seconds)
    node_seconds = np.bincount(numbers, weights=seconds, minlength=len(functions))
    edge_seconds = np.bincount(
        np.searchsorted(distinct_pairs, pairs), weights=seconds[with_parent], minlength=len(distinct_pairs)
    )
    slowest = np.argsort(-node_seconds, kind="stable")[:MOST]
    nodes = [
        _function_node(functions[number], number, node_counts[number], node_seconds[number])
        for number in sorted(slowest.tolist())
    ]
    node_ids = {node["id"] for node in nodes}
    edges = [
        {"from": f"f{pair // len(functions)}", "to": f"f{pair % len(functions)}", "label": _count_text(count, total)}
        for pair, count, total in zip(distinct_pairs.tolist(), edge_counts.tolist(), edge_seconds.tolist(), strict=True)
    ]
    edges = [edge for edge in edges if edge["from"] in node_ids and edge["to"] in node_ids]
    return {"what": "calls", "graphs": 0, "which": 0, "nodes": nodes, "edges": edges}


def _function_node(function: Function, id: int, calls: Any, seconds: Any) -> dict[str, Any]:
    name = printable(function.name)
    owner, _, label = name.replace("<locals>.", "").rpartition(".")
    return {
        "id": f"f{id}",
        "label": label,
        "group": ".".join(filter(None, [printable(function.module), owner])),
        "kind": "function",
        "place": {"file": printable(function.file), "line": function.line, "function": name},
        "seconds": number(seconds),
        "calls": int(calls),
        "value": None,
        "call": None,
    }


def _count_text(count: int, seconds: float) -> str:
    return f"{count:,} × {duration(seconds / count)}" if seconds else f"{count:,} ×"

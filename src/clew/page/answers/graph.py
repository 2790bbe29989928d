"""The operators of a recorded graph; or, where there is none, which function called which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.errors import UnknownNameError
from clew.history.table import OUTPUT
from clew.page.boxes import boxes_of_rows
from clew.page.branches import functions_of, times_of
from clew.page.nodes import call_nodes
from clew.page.plain import number
from clew.show.text import duration, printable, shorten
from clew.store.graphs import MODULE, read_graphs

if TYPE_CHECKING:
    from clew.page.opened import Opened
    from clew.page.query import Query
    from clew.records import Function

MOST = 2_000  # functions, or nodes, in one drawing
CARRIED = 24  # characters of a value on an edge


def graph(opened: Opened, query: Query) -> dict[str, Any]:
    """One of the recorded graphs; the first, unless another is asked for."""
    graphs = opened.cached("graphs", lambda: read_graphs(opened.folder))
    if not graphs:
        return opened.cached("called", lambda: _called(opened))
    which = query.whole("which", 0)
    if which >= len(graphs):
        what = f"The run has {len(graphs)} graphs, and none numbered {which}."
        raise UnknownNameError("no-such-graph", what, "Open the page again.")
    key = list(graphs)[which]
    return opened.cached(("graph", key), lambda: _recorded(opened, graphs, key))


# ---- recorded graphs


def _recorded(opened: Opened, graphs: dict[str, dict[str, Any]], key: str) -> dict[str, Any]:
    drawing = graphs[key]
    steps = _steps(opened, key) | _inputs(opened, key, drawing)
    nodes = [_node(node, steps.get(node["id"], {})) for node in drawing["nodes"]]
    told = {node["id"]: _went_along(steps.get(node["id"], {})) for node in drawing["nodes"]}
    edges = [
        {"from": edge["from"], "to": edge["to"], "label": _label(edge["label"], told[edge["from"]])}
        for edge in drawing["edges"]
        if edge["from"] in told and edge["to"] in told
    ]
    which = list(graphs).index(key)
    return {"what": "graph", "graphs": len(graphs), "which": which, "nodes": nodes, "edges": edges}


def _node(node: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    function = node.get("function") or node["label"]
    place = {"file": printable(node["file"]), "line": node["line"], "function": printable(function)}
    return {
        "id": node["id"],
        "label": printable(node["label"]),
        "group": printable(node["group"]),
        "kind": printable(node["kind"]),
        "place": place if node["file"] else None,
        "seconds": known.get("seconds"),
        "calls": known.get("calls"),
        "value": known.get("value"),
        "call": known.get("call"),
    }


def _went_along(known: dict[str, Any]) -> str:
    """What an edge carries, an array by its shape, and how long it took to be made."""
    value, seconds = known.get("value"), known.get("seconds")
    took = duration(seconds / known["calls"]) if seconds else ""
    return " · ".join(filter(None, [_outline(value) if value else "", took]))


def _outline(value: dict[str, Any]) -> str:
    if "shape" not in value:
        return shorten(str(value["text"]), CARRIED)
    return f"{value.get('dtype', '')} ({', '.join(map(str, value['shape']))})".strip()


def _label(argument: str, carried: str) -> str:
    return " ".join(filter(None, [printable(argument), carried]))


def _steps(opened: Opened, key: str) -> dict[str, dict[str, Any]]:
    """By id of a node: how often it ran, for how long, its last call and what that gave."""
    calls, seconds = opened.tables.calls, times_of(opened).seconds
    found: dict[str, dict[str, Any]] = {}
    for shard, offset in zip(calls.shards, calls.offsets.tolist(), strict=False):
        modules = {id: function.module for id, function in shard.reader.functions.items()}
        wanted = {id: module.removeprefix(f"{MODULE}{key}.") for id, module in modules.items() if _is_step(module, key)}
        for id, node in wanted.items():
            places = np.flatnonzero(shard.start("function") == id) + offset
            if len(places):
                known = found.setdefault(node, {"calls": 0, "seconds": 0.0})
                known["calls"] += len(places)
                known["seconds"] += float(np.nansum(seconds[places]))
                known["call"] = opened.call_ids(places[-1:])[0]
                known["value"] = _given(opened, int(places[-1]))
    return found


def _inputs(opened: Opened, key: str, drawing: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By id of an input: what the graph was last run with."""
    calls = opened.tables.calls
    wanted = {node["label"]: node["id"] for node in drawing["nodes"] if node["kind"] == "input"}
    for shard, offset in reversed(list(zip(calls.shards, calls.offsets.tolist(), strict=False))):
        whole = [id for id, function in shard.reader.functions.items() if function.module == f"{MODULE}{key}"]
        places = np.flatnonzero(np.isin(shard.start("function"), whole)) + offset
        if len(places):
            args = call_nodes(opened, places[-1:])[0]["args"]
            return {wanted[arg["name"]]: {"value": arg["value"]} for arg in args if arg["name"] in wanted}
    return {}


def _is_step(module: str, key: str) -> bool:
    return module.startswith(f"{MODULE}{key}.")


def _given(opened: Opened, place: int) -> dict[str, Any] | None:
    """What a call gave."""
    shard, local = opened.tables.calls.split(place)
    calls, rows = shard.hidden(OUTPUT)
    end = int(np.searchsorted(calls, int(shard.start("call")[local]), side="right"))
    if end == 0 or calls[end - 1] != shard.start("call")[local]:
        return None
    row = rows[end - 1 : end] + int(opened.tables.table.offsets[shard.shard])
    return boxes_of_rows(opened.tables, row)[0]


# ---- which function called which


def _called(opened: Opened) -> dict[str, Any]:
    """Over all calls at once: a node a function, an edge for each pair of caller and called."""
    calls = opened.tables.calls
    numbers, functions = functions_of(opened)
    parents = calls.parents
    inner = np.flatnonzero(parents >= 0)
    pairs = numbers[parents[inner]].astype(np.int64) * len(functions) + numbers[inner]
    found, counts = np.unique(pairs, return_counts=True)
    totals = np.bincount(numbers, minlength=len(functions))
    seconds = np.nan_to_num(times_of(opened).seconds)
    spent = np.bincount(numbers, weights=seconds, minlength=len(functions))
    between = np.bincount(np.searchsorted(found, pairs), weights=seconds[inner], minlength=len(found))
    shown = np.argsort(-spent, kind="stable")[:MOST]
    nodes = [_function(functions[one], one, totals[one], spent[one]) for one in sorted(shown.tolist())]
    known = {node["id"] for node in nodes}
    edges = [
        {"from": f"f{pair // len(functions)}", "to": f"f{pair % len(functions)}", "label": _times(count, took)}
        for pair, count, took in zip(found.tolist(), counts.tolist(), between.tolist(), strict=True)
    ]
    edges = [edge for edge in edges if edge["from"] in known and edge["to"] in known]
    return {"what": "calls", "graphs": 0, "which": 0, "nodes": nodes, "edges": edges}


def _function(function: Function, id: int, calls: Any, seconds: Any) -> dict[str, Any]:
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


def _times(count: int, seconds: float) -> str:
    return f"{count:,} × {duration(seconds / count)}" if seconds else f"{count:,} ×"

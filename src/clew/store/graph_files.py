"""Keeps graphs that were run with `record=True` beside the records of a run: `graph-<key>.json`, made for drawing.

    {"name": "pipeline",
     "nodes": [{"id": "v3", "label": "tokenize", "kind": "operator", "group": "text", "file": "p.py", "line": 12}, ...],
     "edges": [{"from": "v1", "to": "v3", "label": "text"}, ...]}

Calls of its steps have the module `clew.graph.<key>.<id of the node>`, calls of the graph `clew.graph.<key>`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

MODULE: Final = "clew.graph."
_NAME: Final = re.compile(r"graph-([0-9a-f]{12})\.json")
_DRAFT: Final = re.compile(rf"\.{_NAME.pattern}\.\d+\.\d+")
_LARGEST: Final = 64 << 20


def is_graph_file(name: str) -> bool:
    """Whether a file of this name in a run's folder is a graph, or a draft of one that a killed process has left."""
    return _NAME.fullmatch(name) is not None or _DRAFT.fullmatch(name) is not None


def graph_text(drawing: dict[str, Any]) -> tuple[str, bytes]:
    """The key of a graph, and the content of its file."""
    data = json.dumps(drawing, ensure_ascii=True).encode()
    return sha256(data).hexdigest()[:12], data


def write_graph(folder: Path, key: str, data: bytes) -> None:
    """Write the graph into a run's folder as a whole, unless it is there already because it was run before."""
    target = folder / f"graph-{key}.json"
    if target.exists():
        return
    draft = folder / f".{target.name}.{os.getpid()}.{threading.get_ident()}"
    try:
        draft.write_bytes(data)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def read_graphs(folder: Path) -> dict[str, dict[str, Any]]:
    """The graphs of a run by key; damaged ones are left out."""
    drawings = {}
    for path in sorted(folder.glob("graph-*.json")):
        match = _NAME.fullmatch(path.name)
        drawing = _read_drawing(path) if match else None
        if match and drawing is not None:
            drawings[match[1]] = drawing
    return drawings


def _read_drawing(path: Path) -> dict[str, Any] | None:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return None
        drawing = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return drawing if _is_drawing(drawing) else None


def _is_drawing(drawing: Any) -> bool:
    if not isinstance(drawing, dict) or not isinstance(drawing.get("name"), str):
        return False
    nodes, edges = drawing.get("nodes"), drawing.get("edges")
    if not isinstance(nodes, list) or not isinstance(edges, list):
        return False
    node_texts = ("id", "label", "kind", "group", "file")
    if not all(_has_texts(node, *node_texts) and type(node.get("line")) is int for node in nodes):
        return False
    return all(_has_texts(edge, "from", "to", "label") for edge in edges)


def _has_texts(entry: Any, *keys: str) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in keys)

"""Graphs kept beside the records of a run: `graph-<key>.json`, what was run with `record=True`, as a drawing needs it.

    {"name": "pipeline",
     "nodes": [{"id": "v3", "label": "tokenize", "kind": "operator", "group": "text", "file": "p.py", "line": 12}, ...],
     "edges": [{"from": "v1", "to": "v3", "label": "text"}, ...]}

The calls of its steps have the module `clew.graph.<key>.<id of the node>`, those of the graph `clew.graph.<key>`.
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
_LARGEST: Final = 64 << 20


def graph_text(drawing: dict[str, Any]) -> tuple[str, bytes]:
    """The key of a graph, and the file's content."""
    data = json.dumps(drawing, ensure_ascii=True).encode()
    return sha256(data).hexdigest()[:12], data


def write_graph(folder: Path, key: str, data: bytes) -> None:
    """Put it into a run's folder, whole or not at all; it is there already when it was run before."""
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
    """The graphs of a run, by key; one that is damaged is left out."""
    found = {}
    for path in sorted(folder.glob("graph-*.json")):
        named = _NAME.fullmatch(path.name)
        drawing = _read(path) if named else None
        if named and drawing is not None:
            found[named[1]] = drawing
    return found


def _read(path: Path) -> dict[str, Any] | None:
    try:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:
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
    texts = all(_has(node, "id", "label", "kind", "group", "file") and type(node.get("line")) is int for node in nodes)
    return texts and all(_has(edge, "from", "to", "label") for edge in edges)


def _has(something: Any, *keys: str) -> bool:
    return isinstance(something, dict) and all(isinstance(something.get(key), str) for key in keys)

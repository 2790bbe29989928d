"""The drawing of a graph, kept in the folder of the run whose calls it explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew import trouble


def keep_graph(drawing: dict[str, Any], folder: Path) -> str:
    """Put the drawing of a graph into the folder of a run; gives the module that its calls say."""
    from clew.store.graph_files import MODULE, graph_text, write_graph

    key, data = graph_text(drawing)
    try:
        write_graph(folder, key, data)
    except OSError as error:
        what = f"the drawing of a graph could not be written into {folder}"
        trouble.report(f"graph:{folder}", what, "Your program goes on; the page shows its calls without it.", error)
    return MODULE + key

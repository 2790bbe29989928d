"""What passed through a pipeline: stages, items, and what each stage made of each item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.errors import UnknownNameError
from clew.page.boxes import box_of
from clew.show.pipeline import head_lines
from clew.show.pipelinevalues import leaves
from clew.show.text import brief, printable, shorten

if TYPE_CHECKING:
    from clew.history.item import Item, Step
    from clew.history.trace import Trace
    from clew.page.opened import Opened
    from clew.page.query import Query

ITEMS, MOST = 60, 500
PICTURES = 8 << 20  # characters of pictures in one answer
FILES = 20


def pipeline(opened: Opened, query: Query) -> dict[str, Any]:
    """A trace: the last, unless another is asked for."""
    traces = opened.cached("traces", lambda: opened.run.traces)
    if not traces:
        what = "No trace was recorded in this run."
        raise UnknownNameError("no-trace", what, "A trace is made by `with clew.items(3):`.")
    which = query.whole("trace", len(traces) - 1, 0)
    if which >= len(traces):
        raise UnknownNameError("no-trace", f"The run has {len(traces)} traces, and none numbered {which}.", "")
    offset, limit = query.whole("offset", 0), query.whole("limit", ITEMS, 1, MOST)
    key = "pipeline", which, offset, limit
    return opened.cached(key, lambda: _pipeline(traces, which, offset, limit))


def _pipeline(traces: list[Trace], which: int, offset: int, limit: int) -> dict[str, Any]:
    trace = traces[which]
    stages, items = trace.stages, trace.items
    shown = items[offset : offset + limit]
    drawing = _Drawing(list(stages))
    cells = [cell for place, item in enumerate(shown) for cell in drawing.cells(place, item)]
    head = head_lines(trace)
    if len(shown) < len(items):
        last = offset + len(shown)
        head.append(f"items {offset + 1:,} to {last:,} of {len(items):,} are shown" if shown else "no more items")
    if drawing.left < 0:
        head.append(f"{PICTURES >> 20} MB of pictures are shown; the others are not drawn")
    return {
        "traces": len(traces),
        "trace": which,
        "head": head,
        "stages": [{"name": printable(name), "calls": len(stage)} for name, stage in stages.items()],
        "total": len(items),
        "offset": offset,
        "items": [_item(item) for item in shown],
        "cells": cells,
        "findings": [
            {
                "kind": one.kind,
                "stage": printable(one.stage) if one.stage else None,
                "text": one.text,
                "remedy": one.remedy,
            }
            for one in trace.check().warnings
        ],
    }


def _item(item: Item) -> dict[str, Any]:
    loss = item.loss
    return {
        "id": brief(item.id, 80),
        "source": printable(item.source),
        "loss": None if loss is None else brief(loss, 40),
        "files": [printable(file) for file in item.files[:FILES]],
    }


class _Drawing:
    """The cells of one answer, and how much room there is left for pictures."""

    def __init__(self, stages: list[str]) -> None:
        self._stages = {name: place for place, name in enumerate(stages)}
        self.left = PICTURES

    def cells(self, place: int, item: Item) -> list[dict[str, Any]]:
        return [self._cell(place, step) for step in item.steps]

    def _cell(self, place: int, step: Step) -> dict[str, Any]:
        passage = step.call._passage
        function = printable(passage.function)
        where = {"file": printable(passage.file), "line": passage.line, "function": function} if passage.file else None
        return {
            "item": place,
            "stage": self._stages[passage.stage],
            "function": function,
            "place": where,
            "seconds": None if passage.duration is None else passage.duration / 1e9,
            "where": printable(passage.where),
            "row": step.row,
            "ins": self._values(step.inputs),
            "outs": self._values(step.outputs) or _raised(passage.error),
        }

    def _values(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """What lies in them, one by one: a picture inside a row of a dataset is to be seen."""
        lone = len(values) == 1
        found = [one for name, value in values.items() for one in _opened(str(name), value, lone)]
        return [{"name": name, "value": self._box(name, value)} for name, value in found]

    def _box(self, name: str, value: Any) -> dict[str, Any]:
        box = box_of(value, draw=self.left > 0, name=name)
        self.left -= len(box.get("picture") or "")
        return box


def _opened(name: str, value: Any, lone: bool) -> list[tuple[str, Any]]:
    """The parts of a value; those of the only one are called by their keys alone."""
    parts = leaves("" if lone else name, value)
    return [(name, value)] if len(parts) == 1 and parts[0][0] in ("", name) else parts


def _raised(error: str | None) -> list[dict[str, Any]]:
    """In the place of what a stage would have given."""
    if error is None:
        return []
    text = shorten(printable(error), 400)
    return [{"name": "raised", "value": {"text": text, "type": "exception", "kept": "full"}}]

"""Answers with a pipeline trace: its stages, its items, and the inputs and outputs of each item at each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.errors import UnknownNameError
from clew.page.value_boxes import box_of
from clew.show.pipeline import head_lines
from clew.show.pipeline_values import leaves
from clew.text.brief import brief, printable, shorten

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.page.query_parameters import Query
    from clew.reading.item_path import Item, Step
    from clew.reading.trace import Trace

ITEMS, MOST = 60, 500
PICTURES = 8 << 20  # characters of pictures in one answer
FILES = 20


def pipeline(opened: OpenedRun, query: Query) -> dict[str, Any]:
    """One trace, by default the last."""
    traces = opened.cached("traces", lambda: opened.run.traces)
    if not traces:
        message = "No trace was recorded in this run."
        raise UnknownNameError("no-trace", message, "A trace is made by `with clew.items(3):`.")
    which = query.integer("trace", len(traces) - 1, 0)
    if which >= len(traces):
        raise UnknownNameError("no-trace", f"The run has {len(traces)} traces, and none numbered {which}.", "")
    offset, limit = query.integer("offset", 0), query.integer("limit", ITEMS, 1, MOST)
    key = "pipeline", which, offset, limit
    return opened.cached(key, lambda: _trace_answer(traces, which, offset, limit))


def _trace_answer(traces: list[Trace], which: int, offset: int, limit: int) -> dict[str, Any]:
    trace = traces[which]
    stages, items = trace.stages, trace.items
    shown = items[offset : offset + limit]
    drawing = _Drawing(list(stages))
    cells = [cell for place, item in enumerate(shown) for cell in drawing.cells(place, item)]
    head = head_lines(trace)
    if len(shown) < len(items):
        last = offset + len(shown)
        head.append(f"items {offset + 1:,} to {last:,} of {len(items):,} are shown" if shown else "no more items")
    if drawing.room < 0:
        head.append(f"{PICTURES >> 20} MB of pictures are shown; the others are not drawn")
    return {
        "traces": len(traces),
        "trace": which,
        "head": head,
        "stages": [{"name": printable(name), "calls": len(stage)} for name, stage in stages.items()],
        "total": len(items),
        "offset": offset,
        "items": [_item_row(item) for item in shown],
        "cells": cells,
        "findings": [
            {
                "kind": finding.kind,
                "stage": printable(finding.stage) if finding.stage else None,
                "text": finding.text,
                "remedy": finding.remedy,
            }
            for finding in trace.check().warnings
        ],
    }


def _item_row(item: Item) -> dict[str, Any]:
    loss = item.loss
    return {
        "id": brief(item.id, 80),
        "source": printable(item.source),
        "loss": None if loss is None else brief(loss, 40),
        "files": [printable(file) for file in item.files[:FILES]],
    }


class _Drawing:
    """Makes the cells of one answer, and counts the room left for pictures."""

    def __init__(self, stages: list[str]) -> None:
        self._stages = {name: place for place, name in enumerate(stages)}
        self.room = PICTURES

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
            "ins": self._named_boxes(step.inputs),
            "outs": self._named_boxes(step.outputs) or _error_box(passage.error),
        }

    def _named_boxes(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """The boxes of all parts of the values, so that pictures inside a row of a dataset are shown."""
        lone = len(values) == 1
        parts = [part for name, value in values.items() for part in _parts_of(str(name), value, lone)]
        return [{"name": name, "value": self._box(name, value)} for name, value in parts]

    def _box(self, name: str, value: Any) -> dict[str, Any]:
        box = box_of(value, draw=self.room > 0, name=name)
        self.room -= len(box.get("picture") or "")
        return box


def _parts_of(name: str, value: Any, lone: bool) -> list[tuple[str, Any]]:
    """The named parts of a value; for a lone value, names are only their keys."""
    parts = leaves("" if lone else name, value)
    return [(name, value)] if len(parts) == 1 and parts[0][0] in ("", name) else parts


def _error_box(error: str | None) -> list[dict[str, Any]]:
    """The exception of a call, shown in place of its outputs."""
    if error is None:
        return []
    text = shorten(printable(error), 400)
    return [{"name": "raised", "value": {"text": text, "type": "exception", "kept": "full"}}]

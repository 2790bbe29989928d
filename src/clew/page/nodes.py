"""Calls and changes as the tree shows them, many at once from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.history.call import Call
from clew.history.table import INPUT, ITEM, OUTPUT, STEP
from clew.page.boxes import box_of, box_of_id, box_of_row, boxes_of_ids, boxes_of_rows
from clew.page.branches import times_of
from clew.page.opened import step_text
from clew.page.plain import number
from clew.show.text import printable, shorten

if TYPE_CHECKING:
    from clew.history.calls import ShardCalls
    from clew.history.lazy import Rows
    from clew.page.opened import Opened

    Node = dict[str, Any]

ERROR = 2_000  # characters of an exception
_MAIN = "MainThread"
_HIDDEN = (STEP, INPUT, OUTPUT, ITEM)


def call_nodes(opened: Opened, places: Rows, fits: Any = None, *, alone: bool = False) -> list[Node]:
    """The nodes of these calls. `alone`: each is looked at for itself, with statistics and pictures."""
    calls = opened.tables.calls
    out: list[Node] = [{}] * len(places)
    where = np.searchsorted(calls.offsets, places, side="right") - 1
    for number_ in np.unique(where).tolist():
        at = np.flatnonzero(where == number_)
        shard = calls.shards[number_]
        found = _of_shard(opened, shard, places[at] - calls.offsets[number_], alone)
        for index, node in zip(at.tolist(), found, strict=True):
            node["fits"] = True if fits is None else bool(fits[places[index]])
            out[index] = node
    return out


def _of_shard(opened: Opened, shard: ShardCalls, local: Rows, alone: bool) -> list[Node]:
    view = opened.tables
    offset = int(view.calls.offsets[shard.shard])
    ids = shard.start("call")[local]
    seconds = times_of(opened).seconds[local + offset]
    began = (shard.start("time")[local] - view.start_ns) / 1e9
    functions = [shard.reader.functions[id] for id in shard.start("function")[local].tolist()]
    errors, results = _endings(opened, shard, ids, alone)
    args = _arguments(opened, shard, local, alone)
    threads, stages = _texts(shard.starts, local, "thread_name"), _texts(shard.starts, local, "stage")
    steps, inside = view.steps.of_calls(shard.shard, local), _inside(opened, shard, local)
    ranks, numbers = shard.start("rank")[local].tolist(), shard.start("thread")[local].tolist()
    return [
        {
            "kind": "call",
            "id": f"{shard.reader.name}:{id}",
            "function": printable(functions[index].name),
            "file": printable(functions[index].file),
            "line": functions[index].line,
            "start": number(began[index]),
            "duration": number(seconds[index]),
            "error": errors[index],
            "thread": _thread(threads[index], numbers[index]),
            "rank": ranks[index],
            "step": step_text(steps[index]),
            "stage": None if stages[index] is None else printable(stages[index]),
            "args": args[index],
            "result": results[index],
            "inside": int(inside[index]),
        }
        for index, id in enumerate(ids.tolist())
    ]


def _thread(name: str | None, id: int) -> str:
    return "" if name == _MAIN else printable(name) if name else str(id)


def _texts(columns: Any, rows: Rows, name: str) -> list[str | None]:
    """Cells of a column of texts, without making the others."""
    wanted, back = np.unique(rows, return_inverse=True)
    texts: list[str | None] = columns.take(wanted).column(name)[back].tolist()
    return texts


def _inside(opened: Opened, shard: ShardCalls, local: Rows) -> Rows:
    """How many calls and changes there are in each."""
    ids = shard.start("call")[local]
    total = shard.count_children(local) + shard.count_rows(ids)
    for code in _HIDDEN:
        calls, _ = shard.hidden(code)
        total = total - (np.searchsorted(calls, ids, side="right") - np.searchsorted(calls, ids, side="left"))
    elsewhere = opened.tables.calls.children_elsewhere
    offset = int(opened.tables.calls.offsets[shard.shard])
    more = [len(elsewhere.get(place + offset, ())) for place in local.tolist()] if elsewhere else 0
    return np.asarray(total + more, dtype=np.int64)


def hidden_rows(shard: ShardCalls, ids: Rows, code: int) -> tuple[list[int], Rows]:
    """Of each call how many rows carry this, and those rows one after the other."""
    calls, rows = shard.hidden(code)
    begin, end = np.searchsorted(calls, ids, side="left"), np.searchsorted(calls, ids, side="right")
    counts = (end - begin).tolist()
    chosen = [rows[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    return counts, np.concatenate([np.empty(0, dtype=np.int64), *chosen])


def _arguments(opened: Opened, shard: ShardCalls, local: Rows, alone: bool) -> list[list[dict[str, Any]]]:
    view = opened.tables
    counts, rows = hidden_rows(shard, shard.start("call")[local], INPUT)
    rows = rows + int(view.table.offsets[shard.shard])
    names = view.table.names_of(rows)
    boxes = _boxes(opened, rows, names, alone)
    written = shard.start("args")[local].tolist()
    out, at = [], 0
    for index, count in enumerate(counts):
        pairs = zip(names[at : at + count], boxes[at : at + count], strict=True)
        found = [{"name": name, "value": box} for name, box in pairs]
        at += count
        if not found and written[index] >= 0:  # a probe that keeps all arguments as one value
            given = Call(view, int(local[index] + view.calls.offsets[shard.shard])).args.items()
            found = [
                {"name": str(name), "value": box_of(value, alone=alone, draw=alone, name=str(name))}
                for name, value in given
            ]
        out.append(found)
    return out


def _boxes(opened: Opened, rows: Rows, names: list[str], alone: bool) -> list[dict[str, Any]]:
    if not alone:
        return boxes_of_rows(opened.tables, rows)
    return [box_of_row(opened.tables, row, name) for row, name in zip(rows.tolist(), names, strict=True)]


def _endings(opened: Opened, shard: ShardCalls, ids: Rows, alone: bool) -> tuple[list[Any], list[Any]]:
    """The exception each call ended with, and what it gave; None for neither."""
    view = opened.tables
    ends = shard.ends(ids)
    over = np.flatnonzero(ends >= 0)
    errors: list[Any] = [None] * len(ids)
    for index, text in zip(over.tolist(), _texts(shard.finished, ends[over], "error"), strict=True):
        errors[index] = None if text is None else shorten(printable(text), ERROR)
    results: list[Any] = [None] * len(ids)
    written = [(index, int(shard.finished.result[ends[index]])) for index in over.tolist()]
    written = [(index, id) for index, id in written if id >= 0]
    found = [id for _, id in written]
    boxes = [box_of_id(view, shard.shard, id) for id in found] if alone else boxes_of_ids(view, shard.shard, found)
    for (index, _), box in zip(written, boxes, strict=True):
        results[index] = box
    counts, rows = hidden_rows(shard, ids, OUTPUT)
    having = [index for index, count in enumerate(counts) if count]
    last = np.cumsum(counts)[having] - 1
    rows = rows[last] + int(view.table.offsets[shard.shard])
    for index, box in zip(having, _boxes(opened, rows, ["return"] * len(having), alone), strict=True):
        results[index] = box
    return errors, results


def change_nodes(opened: Opened, rows: Rows) -> list[Node]:
    """The nodes of these changes."""
    view = opened.tables
    names, lines, steps = view.table.series_of(rows), view.table.lines(rows), view.steps.at(rows)
    places = view.table.ordinals(rows).tolist()
    boxes = boxes_of_rows(view, rows)
    return [
        {
            "kind": "change",
            "name": names[index],
            "line": lines[index],
            "step": step_text(steps[index]),
            "index": places[index],
            "value": boxes[index],
        }
        for index in range(len(rows))
    ]

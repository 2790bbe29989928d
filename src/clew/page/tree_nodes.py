"""Makes the tree's nodes for calls and changes, many at once from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.page.open_run import step_text
from clew.page.plain_json import number
from clew.page.siblings import times_of
from clew.page.value_boxes import box_of, box_of_id, box_of_row, boxes_of_ids, boxes_of_rows
from clew.reading.call import Call
from clew.reading.table import INPUT, ITEM, OUTPUT, STEP
from clew.text.brief import printable, shorten

if TYPE_CHECKING:
    from clew.page.open_run import OpenedRun
    from clew.reading.calls import ShardCalls
    from clew.reading.lazy import Rows

    Node = dict[str, Any]

ERROR = 2_000  # characters of an exception
_MAIN = "MainThread"
_HIDDEN = (STEP, INPUT, OUTPUT, ITEM)


def call_nodes(opened: OpenedRun, places: Rows, fits: Any = None, *, detailed: bool = False) -> list[Node]:
    """The nodes of these calls. `detailed`: with statistics and pictures."""
    calls = opened.tables.calls
    out: list[Node] = [{}] * len(places)
    shards = np.searchsorted(calls.offsets, places, side="right") - 1
    for shard_number in np.unique(shards).tolist():
        indices = np.flatnonzero(shards == shard_number)
        shard = calls.shards[shard_number]
        shard_nodes = _call_nodes_of_shard(opened, shard, places[indices] - calls.offsets[shard_number], detailed)
        for index, node in zip(indices.tolist(), shard_nodes, strict=True):
            node["fits"] = True if fits is None else bool(fits[places[index]])
            out[index] = node
    return out


def _call_nodes_of_shard(opened: OpenedRun, shard: ShardCalls, local: Rows, detailed: bool) -> list[Node]:
    view = opened.tables
    offset = int(view.calls.offsets[shard.shard])
    ids = shard.start("call")[local]
    seconds = times_of(opened).seconds[local + offset]
    began = (shard.start("time")[local] - view.start_ns) / 1e9
    functions = [shard.reader.functions[id] for id in shard.start("function")[local].tolist()]
    errors, results = _errors_and_results(opened, shard, ids, detailed)
    args = _argument_nodes(opened, shard, local, detailed)
    threads, stages = _text_cells(shard.starts, local, "thread_name"), _text_cells(shard.starts, local, "stage")
    steps, child_counts = view.steps.of_calls(shard.shard, local), _count_children(opened, shard, local)
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
            "thread": _thread_name(threads[index], numbers[index]),
            "rank": ranks[index],
            "step": step_text(steps[index]),
            "stage": None if stages[index] is None else printable(stages[index]),
            "args": args[index],
            "result": results[index],
            "inside": int(child_counts[index]),
        }
        for index, id in enumerate(ids.tolist())
    ]


def _thread_name(name: str | None, id: int) -> str:
    return "" if name == _MAIN else printable(name) if name else str(id)


def _text_cells(columns: Any, rows: Rows, name: str) -> list[str | None]:
    """Cells of a column of texts, without decoding the others."""
    distinct_rows, inverse = np.unique(rows, return_inverse=True)
    texts: list[str | None] = columns.take(distinct_rows).column(name)[inverse].tolist()
    return texts


def _count_children(opened: OpenedRun, shard: ShardCalls, local: Rows) -> Rows:
    """The number of calls and changes in each call."""
    ids = shard.start("call")[local]
    total = shard.count_children(local) + shard.count_rows(ids)
    for role in _HIDDEN:
        calls, _ = shard.hidden(role)
        total = total - (np.searchsorted(calls, ids, side="right") - np.searchsorted(calls, ids, side="left"))
    elsewhere = opened.tables.calls.children_elsewhere
    offset = int(opened.tables.calls.offsets[shard.shard])
    in_other_processes = [len(elsewhere.get(place + offset, ())) for place in local.tolist()] if elsewhere else 0
    return np.asarray(total + in_other_processes, dtype=np.int64)


def hidden_rows(shard: ShardCalls, ids: Rows, role: int) -> tuple[list[int], Rows]:
    """For each call the number of hidden rows of this role, and all these rows one after the other."""
    calls, rows = shard.hidden(role)
    begin, end = np.searchsorted(calls, ids, side="left"), np.searchsorted(calls, ids, side="right")
    counts = (end - begin).tolist()
    parts = [rows[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    return counts, np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _argument_nodes(opened: OpenedRun, shard: ShardCalls, local: Rows, detailed: bool) -> list[list[dict[str, Any]]]:
    view = opened.tables
    counts, rows = hidden_rows(shard, shard.start("call")[local], INPUT)
    rows = rows + int(view.table.offsets[shard.shard])
    names = view.table.names_of(rows)
    boxes = _value_boxes(opened, rows, names, detailed)
    value_ids = shard.start("args")[local].tolist()
    out, position = [], 0
    for index, count in enumerate(counts):
        pairs = zip(names[position : position + count], boxes[position : position + count], strict=True)
        arguments = [{"name": name, "value": box} for name, box in pairs]
        position += count
        if not arguments and value_ids[index] >= 0:  # some probes keep all arguments as one value
            recorded_arguments = Call(view, int(local[index] + view.calls.offsets[shard.shard])).args.items()
            arguments = [
                {"name": str(name), "value": box_of(value, detailed=detailed, draw=detailed, name=str(name))}
                for name, value in recorded_arguments
            ]
        out.append(arguments)
    return out


def _value_boxes(opened: OpenedRun, rows: Rows, names: list[str], detailed: bool) -> list[dict[str, Any]]:
    if not detailed:
        return boxes_of_rows(opened.tables, rows)
    return [box_of_row(opened.tables, row, name) for row, name in zip(rows.tolist(), names, strict=True)]


def _errors_and_results(opened: OpenedRun, shard: ShardCalls, ids: Rows, detailed: bool) -> tuple[list[Any], list[Any]]:
    """The exception and the result of each call; None where there is none."""
    view = opened.tables
    ends = shard.ends(ids)
    ended = np.flatnonzero(ends >= 0)
    errors: list[Any] = [None] * len(ids)
    for index, text in zip(ended.tolist(), _text_cells(shard.finished, ends[ended], "error"), strict=True):
        errors[index] = None if text is None else shorten(printable(text), ERROR)
    results: list[Any] = [None] * len(ids)
    recorded_results = [(index, int(shard.finished.result[ends[index]])) for index in ended.tolist()]
    recorded_results = [(index, id) for index, id in recorded_results if id >= 0]
    result_ids = [id for _, id in recorded_results]
    boxes = (
        [box_of_id(view, shard.shard, id) for id in result_ids]
        if detailed
        else boxes_of_ids(view, shard.shard, result_ids)
    )
    for (index, _), box in zip(recorded_results, boxes, strict=True):
        results[index] = box
    counts, rows = hidden_rows(shard, ids, OUTPUT)
    with_output = [index for index, count in enumerate(counts) if count]
    last = np.cumsum(counts)[with_output] - 1
    rows = rows[last] + int(view.table.offsets[shard.shard])
    for index, box in zip(
        with_output, _value_boxes(opened, rows, ["return"] * len(with_output), detailed), strict=True
    ):
        results[index] = box
    return errors, results


def change_nodes(opened: OpenedRun, rows: Rows) -> list[Node]:
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

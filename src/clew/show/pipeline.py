"""Renders a pipeline trace as lines: the stages in order, their calls, and the inputs and outputs of each call.

    3 items, 4 stages, 14 calls in 120 ms
    stopped: the items had passed the last stage
    load  3 calls
      Images.__getitem__  item 3  worker 1  data.py:12  1.2 ms
        in   index: 3
        out  image: ndarray uint8 (32, 32, 3)  0…255  hash 1a2b3c4d

A terminal gets these lines as they are, a notebook gets the same lines as boxes that open (`pipelinehtml`). If
anything is left out, a line says so, and how to see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from clew.show.pipeline_values import Row, row_count, value_rows
from clew.show.tree import place
from clew.show.tree_lines import ERROR, MARKS, NAME, PLACE, PLAIN, REMARK, TIME, line
from clew.text.brief import brief, duration, printable, shorten

if TYPE_CHECKING:
    from clew.reading.trace import Item, Lineage, Stage, StageCall, Step, Trace
    from clew.records import Passage, TraceFacts

LINES = 160  # longer traces are folded
UNFOLDED = 3  # calls per function that stay in a folded trace
IDS = 12  # item ids that are named per call
FILES = 5
ERROR_WIDTH = 400
INDENT = "  "
_ENDINGS = {
    "running": "still running",
    "finished": "the program ran to its end",
    "stopped": "stopped: the items had passed the last stage",
}


def text(part: Any) -> str:
    """A trace, stage, call, item or lineage as text."""
    return "\n".join(INDENT * row.depth + row.line.text.rstrip() for row in rows(part))


def rows(part: Any) -> list[Row]:
    """The lines of a trace or any part of it, chosen by class name because this package does not import `history`."""
    for cls in type(part).__mro__:
        make_rows = _ROWS_BY_CLASS.get(cls.__name__)
        if make_rows is not None:
            return make_rows(part)
    return [Row(line(brief(part)))]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# ---- a trace and its stages


def _trace_rows(trace: Trace) -> list[Row]:
    stages, facts = trace.stages, trace.facts
    passages = [call._passage for stage in stages.values() for call in stage]
    out = _head_rows(len(trace.items), len(stages), passages, facts)
    has_several_sources = len({passage.source for passage in passages if passage.ids}) > 1
    if len(passages) <= LINES:  # a longer trace exceeds the limit anyway, so its values need not be read
        stage_rows = [row for stage in stages.values() for row in _stage_rows(stage, has_several_sources)]
        if len(out) + len(stage_rows) <= LINES:
            return [*out, *stage_rows]
    own_attributes = set(dir(type(trace)))
    return [
        *out,
        *(
            row
            for name, stage in stages.items()
            for row in _stage_rows(stage, has_several_sources, _stage_expression(name, own_attributes))
        ),
    ]


def head_lines(trace: Trace) -> list[str]:
    """The lines above the stages, as plain text."""
    stages = trace.stages
    passages = [call._passage for stage in stages.values() for call in stage]
    return [row.line.text for row in _head_rows(len(trace.items), len(stages), passages, trace.facts)]


def _stage_expression(stage: str, own_attributes: set[str]) -> str:
    """The expression that gives a stage: `trace.load` or `trace["to tensor"]`."""
    if stage.isidentifier() and stage not in own_attributes:
        return f"trace.{stage}"
    return f'trace["{shorten(printable(stage), 60)}"]'


def _head_rows(items: int, stages: int, passages: Sequence[Passage], facts: TraceFacts) -> list[Row]:
    """One line each: counts, how the trace ended, what was altered for it, notes, and where it is stored."""
    counted = f"{_counted(items, 'item')}, {_counted(stages, 'stage')}, {_counted(len(passages), 'call')}"
    out = [Row(line((counted, NAME), (f" in {duration(_total_seconds(passages))}" if passages else "", TIME)))]
    if facts.state == "failed":
        out.append(Row(line(("failed: ", ERROR), (_error_text(facts.error or "it is not known why"), ERROR))))
    else:
        out.append(Row(line((_ENDINGS.get(facts.state, printable(facts.state)), PLAIN))))
        out += [Row(line((f"error: {_error_text(facts.error)}", ERROR)))] if facts.error else []
    out += [Row(line(("altered: ", MARKS), printable(alteration))) for alteration in facts.altered]
    out += [Row(line(("note: ", MARKS), printable(note))) for note in facts.notes]
    out += [Row(line(("stored in ", MARKS), (printable(facts.run), PLACE)))] if facts.run else []
    return out if passages else [*out, Row(line(("nothing passed a stage", REMARK)))]


def _total_seconds(passages: Sequence[Passage]) -> float:
    ends = (passage.started + (passage.duration or 0) for passage in passages)
    return (max(ends) - min(passage.started for passage in passages)) / 1e9


def _error_text(error: str) -> str:
    return shorten(printable(error), ERROR_WIDTH)


def _lone_stage_rows(stage: Stage) -> list[Row]:
    out = _stage_rows(stage, True) if len(stage) <= LINES else []
    return out if 0 < len(out) <= LINES else _stage_rows(stage, True, "stage")


def _stage_rows(stage: Stage, has_several_sources: bool, expression: str = "") -> list[Row]:
    """A stage and its calls. With `expression`, which gives the stage, only the first calls of each function."""
    out = [Row(line((printable(stage.name), NAME), (f"  {_counted(len(stage), 'call')}", MARKS)), 0, "stage")]
    call_counts: dict[str, int] = {}
    hidden_calls: dict[str, list[int]] = {}  # by function, the indices of the calls left out
    for index, call in enumerate(stage):
        passage = call._passage
        call_counts[passage.function] = call_counts.get(passage.function, 0) + 1
        if expression and call_counts[passage.function] > UNFOLDED and passage.error is None:
            hidden_calls.setdefault(passage.function, []).append(index)
        else:
            out += _call_rows(call, 1, has_several_sources)
    folds = (
        _fold_text(function, len(numbers), f"{expression}[{numbers[0]}]") for function, numbers in hidden_calls.items()
    )
    return [*out, *(Row(line((fold, REMARK)), 1) for fold in folds)]


def _fold_text(function: str, hidden_count: int, expression: str) -> str:
    return f"… {_counted(hidden_count, 'more call')} of {printable(function)}; `print({expression})` shows the next"


# ---- a call


def _lone_call_rows(call: StageCall) -> list[Row]:
    return _call_rows(call, 0, True, f"{printable(call._passage.stage)}: ")


def _call_rows(call: StageCall, depth: int, has_several_sources: bool, prefix: str = "") -> list[Row]:
    passage = call._passage
    out = [_call_head(passage, depth, has_several_sources, prefix), *_call_notes(passage, depth + 1)]
    return [*out, *_rows_of_values(passage.inputs, passage.outputs, passage, depth + 1)]


def _call_head(
    passage: Passage, depth: int, has_several_sources: bool, prefix: str = "", row: int | None = None
) -> Row:
    """`Images.__getitem__  batch 0 (items 3, 7, 1)  worker 1  1.2 ms`."""
    pieces = [(prefix, MARKS), (printable(passage.function), NAME)]
    items_text = _items_of_call(passage, has_several_sources) if row is None else _row_of_call(passage, row)
    pieces += [(f"  {items_text}", PLAIN)] if items_text else []
    pieces += [(f"  {printable(passage.where)}", PLACE)] if passage.where else []
    pieces += [(f"  {printable(passage.mode)}", PLACE)] if passage.mode else []
    pieces += [(f"  {place(passage.file, passage.line)}", PLACE)] if passage.file else []
    took = "not ended" if passage.duration is None else duration(passage.duration / 1e9)
    return Row(line(*pieces, (f"  {took}", TIME)), depth, "call")


def _items_of_call(passage: Passage, has_several_sources: bool) -> str:
    """The items of a call: `item 3`, `items 3, 7`, `batch 0 (items 3, 7, 1)`."""
    items = _name_items(passage.ids)
    if items and has_several_sources and passage.source:
        items += f" of {printable(passage.source)}"
    if passage.batch is None:
        return items
    return f"batch {passage.batch} ({items})" if items else f"batch {passage.batch}"


def _row_of_call(passage: Passage, row: int) -> str:
    batch = "" if passage.batch is None else f"batch {passage.batch}, "
    return f"{batch}row {row} of {len(passage.ids):,}"


def _name_items(ids: tuple[Any, ...]) -> str:
    if not ids:
        return ""
    names = ", ".join(brief(id, 40) for id in ids[:IDS])
    hidden_count = len(ids) - IDS
    return ("item " if len(ids) == 1 else "items ") + names + (f", … {hidden_count:,} more" if hidden_count > 0 else "")


def _call_notes(passage: Passage, depth: int) -> list[Row]:
    out = []
    if passage.error is not None:
        out.append(Row(line(("raised ", ERROR), (_error_text(passage.error), ERROR)), depth))
    if passage.lost:
        out.append(Row(line((f"which items: not known, because {printable(passage.lost)}", REMARK)), depth))
    if passage.rows is not None:
        out.append(Row(line((f"{_rows_kept(passage)} of {passage.rows:,} rows", REMARK)), depth))
    return out + _file_rows(passage.files, depth)


def _rows_kept(passage: Passage) -> str:
    values = [*passage.inputs.values(), *passage.outputs.values()]
    counts = [len(passage.ids)] if passage.ids else [count for value in values if (count := row_count(value))]
    return f"{counts[0]:,}" if counts else "some"


def _file_rows(files: tuple[str, ...], depth: int) -> list[Row]:
    out = [Row(line(("file ", MARKS), (printable(file), PLACE)), depth) for file in files[:FILES]]
    hidden_count = len(files) - FILES
    return [*out, Row(line((f"… {hidden_count:,} more files", REMARK)), depth)] if hidden_count > 0 else out


def _rows_of_values(inputs: dict[str, Any], outputs: dict[str, Any], passage: Passage, depth: int) -> list[Row]:
    out: list[Row] = []
    for prefix, values in (("in ", inputs), ("out", outputs)):
        for name, value in values.items():
            out += value_rows(name, value, depth, passage.devices, prefix)
    return out


# ---- the path of one item


def _item_rows(item: Item) -> list[Row]:
    batch, row = item.batch, item.row
    parts = ["" if batch is None else f"batch {batch}", "" if row is None else f"row {row}"]
    location = ", ".join(filter(None, parts)) or "in no batch"
    out = [Row(line((_item_name(item), NAME), f"  {location}"))]
    loss = item.loss
    out += [] if loss is None else value_rows("loss", loss, 0, {})
    return [*out, *_file_rows(item.files, 0), *_path_rows(item)]


def _lineage_rows(lineage: Lineage) -> list[Row]:
    head = line((f"batch {lineage.batch}, row {lineage.row}", NAME), " is ", (_item_name(lineage), NAME))
    return [Row(head), *_file_rows(lineage.files, 0), *_path_rows(lineage)]


def _item_name(item: Item | Lineage) -> str:
    source = f" of {printable(item.source)}" if item.source else ""
    return f"item {brief(item.id, 60)}{source}"


def _path_rows(item: Item | Lineage) -> list[Row]:
    """The stages that an item passed, each with the calls that handled it."""
    out: list[Row] = []
    stage = None
    for step in item.steps:
        passage = step.call._passage
        if passage.stage != stage:
            stage = passage.stage
            out.append(Row(line((printable(stage), NAME)), 0, "stage"))
        out += _step_rows(step)
    return out or [Row(line(("it passed no stage", REMARK)))]


def _step_rows(step: Step) -> list[Row]:
    passage = step.call._passage
    out = [_call_head(passage, 1, False, row=step.row), *_call_notes(passage, 2)]
    return [*out, *_rows_of_values(step.inputs, step.outputs, passage, 2)]


_ROWS_BY_CLASS: dict[str, Callable[[Any], list[Row]]] = {
    "Trace": _trace_rows,
    "Stage": _lone_stage_rows,
    "StageCall": _lone_call_rows,
    "Item": _item_rows,
    "Lineage": _lineage_rows,
}

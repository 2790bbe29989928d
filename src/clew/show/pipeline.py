"""A trace of a pipeline as lines: stages in order, the calls of each, and what every call got and gave.

    3 items, 4 stages, 14 calls in 120 ms
    stopped: the items had passed the last stage
    load  3 calls
      Images.__getitem__  item 3  worker 1  data.py:12  1.2 ms
        in   index: 3
        out  image: ndarray uint8 (32, 32, 3)  0…255  hash 1a2b3c4d

A terminal gets these lines as they are, a notebook the same lines as boxes that open (`pipelinehtml`). Nothing is left
out without a line that says so, and how to see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from clew.show.marks import ERROR, MARKS, NAME, PLACE, PLAIN, SAID, TIME, line
from clew.show.pipelinevalues import Row, row_count, value_rows
from clew.show.text import brief, duration, printable, shorten
from clew.show.tree import place

if TYPE_CHECKING:
    from clew.history.trace import Item, Lineage, Stage, StageCall, Step, Trace
    from clew.records import Passage, TraceFacts

LINES = 160  # a longer trace is folded
UNFOLDED = 3  # calls of each function that stay
IDS = 12  # named of one call
FILES = 5
ERROR_WIDTH = 400
INDENT = "  "
_ENDINGS = {
    "running": "still running",
    "finished": "the program ran to its end",
    "stopped": "stopped: the items had passed the last stage",
}


def text(shown: Any) -> str:
    """A trace, a stage, a call, an item or a lineage, as text."""
    return "\n".join(INDENT * row.depth + row.line.text.rstrip() for row in rows(shown))


def rows(shown: Any) -> list[Row]:
    """The lines of anything a trace consists of. Known by the name of its class: this room knows no history."""
    for kind in type(shown).__mro__:
        found = _SHOWN.get(kind.__name__)
        if found is not None:
            return found(shown)
    return [Row(line(brief(shown)))]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# ---- a trace and its stages


def _trace_rows(trace: Trace) -> list[Row]:
    stages, facts = trace.stages, trace.facts
    passages = [call._passage for stage in stages.values() for call in stage]
    out = _head(len(trace.items), len(stages), passages, facts)
    several = len({passage.source for passage in passages if passage.ids}) > 1
    if len(passages) <= LINES:  # else it is too long whatever the values look like, and they need not be looked at
        whole = [row for stage in stages.values() for row in _stage_rows(stage, several)]
        if len(out) + len(whole) <= LINES:
            return [*out, *whole]
    known = set(dir(type(trace)))
    return [*out, *(row for name, stage in stages.items() for row in _stage_rows(stage, several, _way(name, known)))]


def head_lines(trace: Trace) -> list[str]:
    """What stands above the stages, as plain text."""
    stages = trace.stages
    passages = [call._passage for stage in stages.values() for call in stage]
    return [row.line.text for row in _head(len(trace.items), len(stages), passages, trace.facts)]


def _way(stage: str, known: set[str]) -> str:
    """How to get at a stage: `trace.load`, or `trace["to tensor"]`."""
    if stage.isidentifier() and stage not in known:
        return f"trace.{stage}"
    return f'trace["{shorten(printable(stage), 60)}"]'


def _head(items: int, stages: int, passages: Sequence[Passage], facts: TraceFacts) -> list[Row]:
    """How many, how it ended, what was changed for it, and what else is to be known: a line each."""
    counted = f"{_count(items, 'item')}, {_count(stages, 'stage')}, {_count(len(passages), 'call')}"
    out = [Row(line((counted, NAME), (f" in {duration(_took(passages))}" if passages else "", TIME)))]
    if facts.state == "failed":
        out.append(Row(line(("failed: ", ERROR), (_error(facts.error or "it is not known why"), ERROR))))
    else:
        out.append(Row(line((_ENDINGS.get(facts.state, printable(facts.state)), PLAIN))))
        out += [Row(line((f"error: {_error(facts.error)}", ERROR)))] if facts.error else []
    out += [Row(line(("altered: ", MARKS), printable(one))) for one in facts.altered]
    out += [Row(line(("note: ", MARKS), printable(one))) for one in facts.notes]
    out += [Row(line(("stored in ", MARKS), (printable(facts.run), PLACE)))] if facts.run else []
    return out if passages else [*out, Row(line(("nothing passed a stage", SAID)))]


def _took(passages: Sequence[Passage]) -> float:
    ends = (passage.started + (passage.duration or 0) for passage in passages)
    return (max(ends) - min(passage.started for passage in passages)) / 1e9


def _error(error: str) -> str:
    return shorten(printable(error), ERROR_WIDTH)


def _lone_stage_rows(stage: Stage) -> list[Row]:
    out = _stage_rows(stage, True) if len(stage) <= LINES else []
    return out if 0 < len(out) <= LINES else _stage_rows(stage, True, "stage")


def _stage_rows(stage: Stage, several: bool, folded: str = "") -> list[Row]:
    """A stage and its calls. `folded`: only the first calls of each function, and this is how to get at the stage."""
    out = [Row(line((printable(stage.name), NAME), (f"  {_count(len(stage), 'call')}", MARKS)), 0, "stage")]
    seen: dict[str, int] = {}
    left: dict[str, list[int]] = {}  # by function, the calls that are left out
    for number, call in enumerate(stage):
        passage = call._passage
        seen[passage.function] = seen.get(passage.function, 0) + 1
        if folded and seen[passage.function] > UNFOLDED and passage.error is None:
            left.setdefault(passage.function, []).append(number)
        else:
            out += _call_rows(call, 1, several)
    folds = (_folded(function, len(numbers), f"{folded}[{numbers[0]}]") for function, numbers in left.items())
    return [*out, *(Row(line((fold, SAID)), 1) for fold in folds)]


def _folded(function: str, left: int, way: str) -> str:
    return f"… {_count(left, 'more call')} of {printable(function)}; `print({way})` shows the next"


# ---- a call


def _lone_call_rows(call: StageCall) -> list[Row]:
    return _call_rows(call, 0, True, f"{printable(call._passage.stage)}: ")


def _call_rows(call: StageCall, depth: int, several: bool, before: str = "") -> list[Row]:
    passage = call._passage
    out = [_call_head(passage, depth, several, before), *_call_notes(passage, depth + 1)]
    return [*out, *_values(passage.inputs, passage.outputs, passage, depth + 1)]


def _call_head(passage: Passage, depth: int, several: bool, before: str = "", row: int | None = None) -> Row:
    """`Images.__getitem__  batch 0 (items 3, 7, 1)  worker 1  1.2 ms`."""
    pieces = [(before, MARKS), (printable(passage.function), NAME)]
    about = _about(passage, several) if row is None else _row(passage, row)
    pieces += [(f"  {about}", PLAIN)] if about else []
    pieces += [(f"  {printable(passage.where)}", PLACE)] if passage.where else []
    pieces += [(f"  {printable(passage.mode)}", PLACE)] if passage.mode else []
    pieces += [(f"  {place(passage.file, passage.line)}", PLACE)] if passage.file else []
    took = "not ended" if passage.duration is None else duration(passage.duration / 1e9)
    return Row(line(*pieces, (f"  {took}", TIME)), depth, "call")


def _about(passage: Passage, several: bool) -> str:
    """Which items: `item 3`, `items 3, 7`, `batch 0 (items 3, 7, 1)`."""
    items = _named(passage.ids)
    if items and several and passage.source:
        items += f" of {printable(passage.source)}"
    if passage.batch is None:
        return items
    return f"batch {passage.batch} ({items})" if items else f"batch {passage.batch}"


def _row(passage: Passage, row: int) -> str:
    batch = "" if passage.batch is None else f"batch {passage.batch}, "
    return f"{batch}row {row} of {len(passage.ids):,}"


def _named(ids: tuple[Any, ...]) -> str:
    if not ids:
        return ""
    named = ", ".join(brief(id, 40) for id in ids[:IDS])
    left = len(ids) - IDS
    return ("item " if len(ids) == 1 else "items ") + named + (f", … {left:,} more" if left > 0 else "")


def _call_notes(passage: Passage, depth: int) -> list[Row]:
    out = []
    if passage.error is not None:
        out.append(Row(line(("raised ", ERROR), (_error(passage.error), ERROR)), depth))
    if passage.lost:
        out.append(Row(line((f"which items: not known, because {printable(passage.lost)}", SAID)), depth))
    if passage.rows is not None:
        out.append(Row(line((f"{_rows_kept(passage)} of {passage.rows:,} rows", SAID)), depth))
    return out + _files(passage.files, depth)


def _rows_kept(passage: Passage) -> str:
    values = [*passage.inputs.values(), *passage.outputs.values()]
    counts = [len(passage.ids)] if passage.ids else [found for value in values if (found := row_count(value))]
    return f"{counts[0]:,}" if counts else "some"


def _files(files: tuple[str, ...], depth: int) -> list[Row]:
    out = [Row(line(("file ", MARKS), (printable(file), PLACE)), depth) for file in files[:FILES]]
    left = len(files) - FILES
    return [*out, Row(line((f"… {left:,} more files", SAID)), depth)] if left > 0 else out


def _values(inputs: dict[str, Any], outputs: dict[str, Any], passage: Passage, depth: int) -> list[Row]:
    out: list[Row] = []
    for before, values in (("in ", inputs), ("out", outputs)):
        for name, value in values.items():
            out += value_rows(name, value, depth, passage.devices, before)
    return out


# ---- the way of one item


def _item_rows(item: Item) -> list[Row]:
    batch, row = item.batch, item.row
    where = ["" if batch is None else f"batch {batch}", "" if row is None else f"row {row}"]
    told = ", ".join(filter(None, where)) or "in no batch"
    out = [Row(line((_item_name(item), NAME), f"  {told}"))]
    loss = item.loss
    out += [] if loss is None else value_rows("loss", loss, 0, {})
    return [*out, *_files(item.files, 0), *_way_rows(item)]


def _lineage_rows(lineage: Lineage) -> list[Row]:
    head = line((f"batch {lineage.batch}, row {lineage.row}", NAME), " is ", (_item_name(lineage), NAME))
    return [Row(head), *_files(lineage.files, 0), *_way_rows(lineage)]


def _item_name(item: Item | Lineage) -> str:
    source = f" of {printable(item.source)}" if item.source else ""
    return f"item {brief(item.id, 60)}{source}"


def _way_rows(item: Item | Lineage) -> list[Row]:
    """The stages it passed, each with the calls it was in."""
    out: list[Row] = []
    stage = None
    for step in item.steps:
        passage = step.call._passage
        if passage.stage != stage:
            stage = passage.stage
            out.append(Row(line((printable(stage), NAME)), 0, "stage"))
        out += _step_rows(step)
    return out or [Row(line(("it passed no stage", SAID)))]


def _step_rows(step: Step) -> list[Row]:
    passage = step.call._passage
    out = [_call_head(passage, 1, False, row=step.row), *_call_notes(passage, 2)]
    return [*out, *_values(step.inputs, step.outputs, passage, 2)]


_SHOWN: dict[str, Callable[[Any], list[Row]]] = {
    "Trace": _trace_rows,
    "Stage": _lone_stage_rows,
    "StageCall": _lone_call_rows,
    "Item": _item_rows,
    "Lineage": _lineage_rows,
}

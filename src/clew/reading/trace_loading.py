"""Builds the traces of a run: turns annotated calls into passages, in order and under the names of their items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clew.reading.annotations import check_annotation
from clew.reading.call import Call
from clew.reading.table import INPUT, ITEM, OUTPUT
from clew.reading.trace import Trace
from clew.records import Passage, TraceFacts, passage_from

if TYPE_CHECKING:
    from clew.reading.run import Run

_COLLATE = "collate"


def traces_of(run: Run) -> list[Trace]:
    """The traces of a run, in the order they began."""
    annotated_calls, damage = _annotated_calls(run)
    facts: dict[str, TraceFacts] = {}
    for _, annotation in annotated_calls:
        if "facts" in annotation and "trace" in annotation:
            facts[annotation["trace"]] = _facts(annotation["facts"], run)
        elif "trace" in annotation:
            facts.setdefault(annotation["trace"], TraceFacts(state="unknown", run=str(run.path)))
    for trace_facts in facts.values():
        trace_facts.notes += damage
    return [Trace(_loader(run, key, trace_facts)) for key, trace_facts in facts.items()]


def _loader(run: Run, key: str, facts: TraceFacts) -> Any:
    return lambda: (with_later_knowledge(passages_of(run, key)), facts)


def _facts(fields: dict[str, Any], run: Run) -> TraceFacts:
    facts = TraceFacts(**fields)
    facts.notes = list(facts.notes)  # a copy: notes are added, and the list belongs to the record
    facts.run = str(run.path)
    if facts.state == "running" and run.status != "running":
        facts.state = "killed"
    return facts


def passages_of(run: Run, key: str) -> list[Passage]:
    """The passages of one trace, in the order their calls began."""
    annotations = {
        place: annotation
        for place, annotation in _annotated_calls(run)[0]
        if annotation.get("trace") == key and "facts" not in annotation
    }
    return [_passage(Call(run.tables, place), annotation, annotations) for place, annotation in annotations.items()]


def _annotated_calls(run: Run) -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    """The calls with an annotation (place, last annotation), in the order they began, and problems found in them."""
    view = run.tables
    invalid_names: dict[str, None] = {}
    last_annotations: dict[int, dict[str, Any]] = {}
    for shard_number, shard in enumerate(view.table.shards):
        if not any(site.role == "item" for site in shard.sites.values()):
            continue
        rows = view.table.hidden_rows(shard_number, ITEM)
        for row in rows.tolist():
            annotation = view.table.value(row + int(view.table.offsets[shard_number]))
            place = view.calls.place(shard_number, int(view.table.column(shard_number, "call")[row]))
            if place is not None and isinstance(annotation, dict):
                last_annotations[place], invalid_fields = check_annotation(annotation)
                invalid_names.update(dict.fromkeys(invalid_fields))
    problems = (
        [f"damaged: what calls noted makes no sense, and is left out: {', '.join(invalid_names)}"]
        if invalid_names
        else []
    )
    return sorted(last_annotations.items(), key=lambda pair: view.calls.began(pair[0])), problems


def _passage(call: Call, annotation: dict[str, Any], annotations: dict[int, Any]) -> Passage:
    view = call._view
    rows = call._all_rows()
    names = view.table.names_at(rows)
    inputs, outputs = rows[names == INPUT], rows[names == OUTPUT]
    duration = call.duration
    parent = call.parent
    while parent is not None and parent._place not in annotations:
        parent = parent.parent
    return passage_from(
        annotation,
        stage=call.stage or "",
        function=call.function,
        inputs=dict(zip(view.table.names_of(inputs), view.table.values(inputs), strict=True)),
        outputs=dict(zip(view.table.names_of(outputs), view.table.values(outputs), strict=True)),
        started=int(call._start("time")),
        duration=annotation.get("took", None if duration is None else round(duration * 1e9)),
        error=call.error,
        file=call.file,
        line=call.line,
        key=(call.shard, call.id),
        parent=(parent.shard, parent.id) if parent is not None else None,
    )


def with_later_knowledge(passages: list[Passage]) -> list[Passage]:
    """Sort passages by time, and apply to all what only later ones know: ids given by `id=`, and the row order of the
    collate function."""
    passages = sorted(passages, key=lambda passage: passage.started)
    orders, names = _orders(passages), _names(passages)
    passages = [_reordered(passage, orders) for passage in passages]
    return [_renamed(passage, names) for passage in passages] if names else passages


def _names(passages: list[Passage]) -> dict[tuple[str, str], Any]:
    """By source and index: the id that the user's `id=` gave the item."""
    return {(p.source, repr(p.ids[0])): p.called for p in passages if p.called is not None and len(p.ids) == 1}


def _renamed(passage: Passage, names: dict[tuple[str, str], Any]) -> Passage:
    ids, input_ids = (
        [names.get((passage.source, repr(id)), id) for id in original_ids]
        for original_ids in (passage.ids, passage.given)
    )
    return replace(passage, ids=tuple(ids), given=tuple(input_ids))


def _orders(passages: list[Passage]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """By source and batch: the items in the row order of the collate function."""
    return {
        (passage.source, passage.batch): passage.ids
        for passage in passages
        if passage.stage == _COLLATE and passage.batch is not None and passage.by_row
    }


def _reordered(passage: Passage, orders: dict[tuple[str, int], tuple[Any, ...]]) -> Passage:
    if passage.batch is None or not passage.by_row or passage.stage in ("sampler", "dataset"):
        return passage
    order = orders.get((passage.source, passage.batch))
    if order is None or order == passage.ids or sorted(map(repr, order)) != sorted(map(repr, passage.ids)):
        return passage
    return replace(passage, ids=order)

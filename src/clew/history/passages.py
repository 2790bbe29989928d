"""The traces of a run: which calls are passages of a stage, put in order and given the names of their items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clew.history.call import Call
from clew.history.noted import checked
from clew.history.table import INPUT, ITEM, OUTPUT
from clew.history.trace import Trace
from clew.records import Passage, TraceFacts, passage_from

if TYPE_CHECKING:
    from clew.history.run import Run

_COLLATE = "collate"


def traces_of(run: Run) -> list[Trace]:
    """The traces of a run, in the order they began."""
    marked, damage = _marked(run)
    facts: dict[str, TraceFacts] = {}
    for _, noted in marked:
        if "facts" in noted and "trace" in noted:
            facts[noted["trace"]] = _facts(noted["facts"], run)
        elif "trace" in noted:
            facts.setdefault(noted["trace"], TraceFacts(state="unknown", run=str(run.path)))
    for known in facts.values():
        known.notes += damage
    return [Trace(_load(run, key, known)) for key, known in facts.items()]


def _load(run: Run, key: str, known: TraceFacts) -> Any:
    return lambda: (settled(passages_of(run, key)), known)


def _facts(told: dict[str, Any], run: Run) -> TraceFacts:
    facts = TraceFacts(**told)
    facts.notes = list(facts.notes)  # which are added to, and are the record's own
    facts.run = str(run.path)
    if facts.state == "running" and run.status != "running":
        facts.state = "killed"
    return facts


def passages_of(run: Run, key: str) -> list[Passage]:
    """What passed the stages of one trace."""
    found = {place: noted for place, noted in _marked(run)[0] if noted.get("trace") == key and "facts" not in noted}
    return [_passage(Call(run.tables, place), noted, found) for place, noted in found.items()]


def _marked(run: Run) -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    """The calls that say which items they are about (place, what was noted last), in the order they began; and what is
    wrong with what they say."""
    view = run.tables
    wrong: dict[str, None] = {}
    last: dict[int, dict[str, Any]] = {}
    for number, shard in enumerate(view.table.shards):
        if not any(site.role == "item" for site in shard.sites.values()):
            continue
        rows = view.table.rows_that_are(number, ITEM)
        for row in rows.tolist():
            noted = view.table.value(row + int(view.table.offsets[number]))
            place = view.calls.place(number, int(view.table.column(number, "call")[row]))
            if place is not None and isinstance(noted, dict):
                last[place], fields = checked(noted)
                wrong.update(dict.fromkeys(fields))
    damage = [f"damaged: what calls noted makes no sense, and is left out: {', '.join(wrong)}"] if wrong else []
    return sorted(last.items(), key=lambda pair: view.calls.began(pair[0])), damage


def _passage(call: Call, noted: dict[str, Any], known: dict[int, Any]) -> Passage:
    view = call._view
    rows = call._all_rows()
    names = view.table.names_at(rows)
    inputs, outputs = rows[names == INPUT], rows[names == OUTPUT]
    duration = call.duration
    parent = call.parent
    while parent is not None and parent._place not in known:
        parent = parent.parent
    return passage_from(
        noted,
        stage=call.stage or "",
        function=call.function,
        inputs=dict(zip(view.table.names_of(inputs), view.table.values(inputs), strict=True)),
        outputs=dict(zip(view.table.names_of(outputs), view.table.values(outputs), strict=True)),
        started=int(call._start("time")),
        duration=noted.get("took", None if duration is None else round(duration * 1e9)),
        error=call.error,
        file=call.file,
        line=call.line,
        key=(call.shard, call.id),
        parent=(parent.shard, parent.id) if parent is not None else None,
    )


def settled(passages: list[Passage]) -> list[Passage]:
    """The same in order of time, with what only a later passage knew told to all: names given by `id=`, and the order
    in which a collate function has put its rows."""
    passages = sorted(passages, key=lambda passage: passage.started)
    orders, names = _orders(passages), _names(passages)
    passages = [_reordered(passage, orders) for passage in passages]
    return [_renamed(passage, names) for passage in passages] if names else passages


def _names(passages: list[Passage]) -> dict[tuple[str, str], Any]:
    """By source and index: what the user's `id=` calls the item."""
    return {(p.source, repr(p.ids[0])): p.called for p in passages if p.called is not None and len(p.ids) == 1}


def _renamed(passage: Passage, names: dict[tuple[str, str], Any]) -> Passage:
    ids, given = ([names.get((passage.source, repr(id)), id) for id in found] for found in (passage.ids, passage.given))
    return replace(passage, ids=tuple(ids), given=tuple(given))


def _orders(passages: list[Passage]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """By source and batch: the items in the order of the rows, as collate gave them."""
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

"""Finds items that were silently dropped, passed twice or None, and rows that a call dropped or added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from clew.reading.checks.evidence import (
    Evidence,
    is_collate,
    is_model,
    key_of,
    make_finding,
    merged,
    samples_of,
    unique,
)
from clew.reading.checks.finding import Finding, Level, counted, item_names
from clew.reading.checks.leaves import Leaf
from clew.reading.rows import is_sequence
from clew.records import Passage


def dropped_or_repeated_items(evidence: Evidence) -> Iterator[Finding]:
    yield from _none_items(evidence)
    reported_functions: set[tuple[str, str]] = set()
    for source in dict.fromkeys(passage.source for passage in evidence.passages):
        passages = [passage for passage in evidence.passages if passage.source == source]
        for finding in _dropped_items(evidence, passages):
            reported_functions.add((finding.stage, finding.function))
            yield finding
        yield from _duplicate_items(evidence, passages)
    # Row counts are omitted where missing items are already named.
    yield from (
        finding
        for finding in merged(_rows_lost(evidence))
        if (finding.stage, finding.function) not in reported_functions
    )


# ---- None


def _none_items(evidence: Evidence) -> Iterator[Finding]:
    """Report items that are None where others are not, or that a dataset gave as None."""
    groups: dict[tuple[str, str], list[Passage]] = {}
    for passage in evidence.passages:
        if passage.outputs and len(passage.ids) == 1 and not passage.by_row:
            groups.setdefault((passage.stage, passage.function), []).append(passage)
    reported_items: set[Any] = set()
    for passages in groups.values():
        none_passages = [passage for passage in passages if all(value is None for value in passage.outputs.values())]
        if not none_passages or (len(none_passages) == len(passages) and not _gives_items(none_passages[0])):
            continue
        items = [
            item for item in unique(passage.ids[0] for passage in none_passages) if key_of(item) not in reported_items
        ]
        reported_items.update(map(key_of, items))  # later stages can only pass the None on
        if items:
            text = f"{item_names(items)} {'is' if len(items) == 1 else 'are'} None."
            yield make_finding(
                "none-item", none_passages[0], text, "Leave such items out, or see why there is nothing.", items=items
            )
    for passage in evidence.passages:
        samples = None if passage.error else samples_of(passage)  # a clash reports it
        if samples is None or len(samples) != len(passage.ids):
            continue
        places = [place for place, sample in enumerate(samples) if sample is None]
        items = [passage.ids[place] for place in places if key_of(passage.ids[place]) not in reported_items]
        if items:
            yield make_finding("none-item", passage, f"{item_names(items)}: the sample is None.", items=items)


def _gives_items(passage: Passage) -> bool:
    return passage.function.endswith(("__getitem__", "__next__", "__iter__")) or passage.stage == "dataset"


# ---- rows


def _rows_lost(evidence: Evidence) -> Iterator[Finding]:
    for passage in evidence.passages:
        if not passage.by_row or passage.rows is not None or passage.error or not passage.outputs:
            continue
        samples = samples_of(passage)
        if samples is not None:
            yield from _lost_in_collate(evidence, passage, len(samples))
        elif not is_collate(passage):
            yield from _lost_in_call(evidence, passage)


def _lost_in_collate(evidence: Evidence, passage: Passage, count: int) -> Iterator[Finding]:
    """Report only if all outputs have the same smaller row count: joined, packed or time-first data differs anyway."""
    shapes = [leaf.shape for leaf in evidence.outputs(passage) if leaf.library and leaf.shape]
    row_counts = {shape[0] for shape in shapes}
    has_list = any(is_sequence(value) and len(value) == count for value in passage.outputs.values())
    if len(row_counts) == 1 and not has_list and all(count not in shape for shape in shapes):
        (row_count,) = row_counts
        if row_count < count:
            text = f"{counted(count, 'sample')} went in, and a batch of {counted(row_count, 'row')} came out."
            yield make_finding("rows-dropped", passage, text, "See which samples the collate function leaves out.")


def _lost_in_call(evidence: Evidence, passage: Passage) -> Iterator[Finding]:
    """Report a call whose outputs have rows of the same shape, but fewer or more of them."""
    outputs = [leaf for leaf in evidence.outputs(passage) if leaf.library and leaf.shape]
    for leaf in evidence.inputs(passage):
        if not leaf.library or not leaf.shape or len(leaf.shape) < 2 or leaf.shape[0] != len(passage.ids):
            continue
        if is_model(passage) or any(_has_as_many_rows(leaf, output) for output in outputs):
            return  # a model may reshape a batch as it likes
        output = next((output for output in outputs if (output.shape or ())[1:] == leaf.shape[1:]), None)
        if output is not None and output.shape:
            text = f"{counted(leaf.shape[0], 'row')} went in, and {output.shape[0]:,} came out."
            level: Level = "note" if leaf.library == "pandas" else "warning"  # tables are filtered on purpose
            kind = "rows-dropped" if output.shape[0] < leaf.shape[0] else "rows-added"
            yield make_finding(kind, passage, text, "" if level == "note" else "See which rows, and why.", level=level)
            return


def _has_as_many_rows(leaf: Leaf, candidate: Leaf) -> bool:
    return bool(leaf.shape and candidate.shape) and leaf.shape[:1] == candidate.shape[:1]  # type: ignore[index]


# ---- drops


def _dropped_items(evidence: Evidence, passages: Sequence[Passage]) -> Iterator[Finding]:
    """Report items that end at a stage from which later items of the same worker went on."""
    stages = _stages_of_items(evidence, passages)
    entered = _first_single_passages(passages)
    failed_items = {
        key_of(item) for passage in passages if passage.error or passage.duration is None for item in passage.ids
    }
    incomplete_stages = {passage.stage for passage in evidence.passages if passage.lost or not passage.ids}
    dropped: dict[str, list[Passage]] = {}
    for lane in _by_worker(entered).values():
        stages_after: dict[str, dict[str, None]] = {}  # for later items: the stages that followed each stage
        for passage in reversed(lane):
            key = key_of(passage.ids[0])
            missed_stages = stages_after.get(stages[key][-1], {})
            if (
                missed_stages
                and key not in failed_items
                and not incomplete_stages.intersection(missed_stages)
                and not missed_stages.keys() & set(stages[key])
            ):
                dropped.setdefault(next(iter(missed_stages)), []).append(passage)
            for place, stage in enumerate(stages[key]):
                stages_after.setdefault(stage, {}).update(dict.fromkeys(stages[key][place + 1 :]))
                stages_after[stage].pop(stage, None)
    for stage, lost_passages in dropped.items():
        yield _finding_of_drop(evidence, passages, stage, lost_passages, len(entered))


def _stages_of_items(evidence: Evidence, passages: Sequence[Passage]) -> dict[Any, list[str]]:
    """The stages of each item in order, without nested ones, which an item may skip."""
    stages_by_item: dict[Any, list[str]] = {}
    for passage in passages:
        enclosing_items = {key_of(item) for above in evidence.ancestors(passage) for item in above.ids}
        for key in map(key_of, passage.ids):
            stages = stages_by_item.setdefault(key, [])
            if key not in enclosing_items or not stages:
                stages.append(passage.stage)
    return stages_by_item


def _first_single_passages(passages: Sequence[Passage]) -> list[Passage]:
    """The first passage of each item on its own. Samplers are skipped: they draw for several workers at a time."""
    first: dict[Any, Passage] = {}
    for passage in passages:
        if len(passage.ids) == 1:
            first.setdefault(key_of(passage.ids[0]), passage)
    return list(first.values())


def _by_worker(entered: Sequence[Passage]) -> dict[str, list[Passage]]:
    lanes: dict[str, list[Passage]] = {}
    for passage in entered:
        lanes.setdefault(passage.where, []).append(passage)
    return lanes


def _finding_of_drop(
    evidence: Evidence, passages: Sequence[Passage], stage: str, lost_passages: list[Passage], count: int
) -> Finding:
    items = unique(passage.ids[0] for passage in reversed(lost_passages))
    before = lost_passages[0].stage
    names = item_names(items).partition(" ")[2]
    text = f"{len(items):,} of {count:,} items ({names}) passed `{before}` and not `{stage}`, as later ones did."
    first = next(passage for passage in passages if passage.stage == stage)
    level: Level = "warning"
    if evidence.facts.state != "finished" and _is_reordered(passages, stage):
        level, text = "note", f"{text} The order changes on the way: they may have waited in a buffer at the end."
    remedy = "If they are filtered on purpose, nothing is wrong; else see what leaves them out."
    return replace(make_finding("items-dropped", first, text, remedy, level=level, items=items), items=items)


def _is_reordered(passages: Sequence[Passage], stage: str) -> bool:
    arrived = list(
        dict.fromkeys(key_of(item) for passage in passages if passage.stage == stage for item in passage.ids)
    )
    lanes = _by_worker(_first_single_passages(passages))
    for lane in lanes.values():
        places = {key_of(passage.ids[0]): place for place, passage in enumerate(lane)}
        lane_places = [places[key] for key in arrived if key in places]
        if lane_places != sorted(lane_places):
            return True
    return False


# ---- duplicates


def _duplicate_items(evidence: Evidence, passages: Sequence[Passage]) -> Iterator[Finding]:
    level: Level = "note" if any("weighted" in passage.function.lower() for passage in evidence.passages) else "warning"
    batches = _batches(passages)
    for passage in batches:
        counts = Counter(map(key_of, passage.ids))
        items = unique(item for item in passage.ids if counts[key_of(item)] > 1)
        if items:
            number = "the batch" if passage.batch is None else f"batch {passage.batch}"
            text = f"{item_names(items)} {'is' if len(items) == 1 else 'are'} more than once in {number}."
            remedy = "If the sampler draws with replacement, nothing is wrong; else see what repeats them."
            yield make_finding("duplicate-items", passage, text, remedy, level=level, items=items)
            return
    repeated = _items_in_several_batches(batches)
    if repeated:
        first = next(passage for passage in batches if any(key_of(item) == key_of(repeated[0]) for item in passage.ids))
        text = (
            f"{item_names(repeated)} {'is' if len(repeated) == 1 else 'are'} in more than one batch of the same round."
        )
        remedy = "An iterable dataset with workers has to give each worker its own part; else see what repeats them."
        yield make_finding("duplicate-items", first, text, remedy, level=level, items=repeated)


def _batches(passages: Sequence[Passage]) -> list[Passage]:
    """One passage for each batch: the earliest at the stage that saw the most batches."""
    counts: dict[str, set[int]] = {}
    for passage in passages:
        if passage.by_row and passage.batch is not None and passage.ids:
            counts.setdefault(passage.stage, set()).add(passage.batch)
    if not counts:
        return []
    stage = max(counts, key=lambda name: len(counts[name]))
    first: dict[int, Passage] = {}
    for passage in passages:
        if passage.stage == stage and passage.by_row and passage.batch is not None and passage.ids:
            first.setdefault(passage.batch, passage)
    return [first[number] for number in sorted(first)]


def _items_in_several_batches(batches: Sequence[Passage]) -> tuple[Any, ...]:
    """Items that repeat before a round is over; a full second round over the same items is an epoch."""
    rounds: list[set[Any]] = [set()]
    repeated: list[Any] = []
    for passage in batches:
        keys = [key_of(item) for item in passage.ids]
        if rounds[-1].intersection(keys):
            repeated += [item for item in passage.ids if key_of(item) in rounds[-1]]
            rounds.append(set())
        rounds[-1].update(keys)
    full_rounds, last_round = rounds[:-1], rounds[-1]
    are_epochs = all(round_ == full_rounds[0] for round_ in full_rounds) and (
        not full_rounds or last_round <= full_rounds[0]
    )
    return () if are_epochs else unique(repeated)

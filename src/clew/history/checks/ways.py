"""The ways of items: dropped without a word, passed twice, None, and rows that went missing in a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from clew.history.checks.finding import Finding, Level, counted, item_names
from clew.history.checks.leaf import Leaf
from clew.history.checks.seen import Seen, found, is_collate, is_model, key_of, merged, samples_of, unique
from clew.history.rows import is_sequence
from clew.records import Passage


def ways(seen: Seen) -> Iterator[Finding]:
    yield from _nones(seen)
    told: set[tuple[str, str]] = set()
    for source in dict.fromkeys(passage.source for passage in seen.passages):
        passages = [passage for passage in seen.passages if passage.source == source]
        for one in _drops(seen, passages):
            told.add((one.stage, one.function))
            yield one
        yield from _duplicates(seen, passages)
    # Which items are missing says more than how many.
    yield from (one for one in merged(_rows_lost(seen)) if (one.stage, one.function) not in told)


# ---- None


def _nones(seen: Seen) -> Iterator[Finding]:
    """An item that is None, where others are not, or where a dataset gave it."""
    groups: dict[tuple[str, str], list[Passage]] = {}
    for passage in seen.passages:
        if passage.outputs and len(passage.ids) == 1 and not passage.by_row:
            groups.setdefault((passage.stage, passage.function), []).append(passage)
    told: set[Any] = set()
    for passages in groups.values():
        empty = [passage for passage in passages if all(value is None for value in passage.outputs.values())]
        if not empty or (len(empty) == len(passages) and not _gives_items(empty[0])):
            continue
        items = [item for item in unique(one.ids[0] for one in empty) if key_of(item) not in told]
        told.update(map(key_of, items))  # the stages it passes then have nothing else to give
        if items:
            told_of = f"{item_names(items)} {'is' if len(items) == 1 else 'are'} None."
            yield found(
                "none-item", empty[0], told_of, "Leave such items out, or see why there is nothing.", items=items
            )
    for passage in seen.passages:
        samples = None if passage.error else samples_of(passage)  # a clash tells it otherwise
        if samples is None or len(samples) != len(passage.ids):
            continue
        places = [place for place, sample in enumerate(samples) if sample is None]
        items = [passage.ids[place] for place in places if key_of(passage.ids[place]) not in told]
        if items:
            yield found("none-item", passage, f"{item_names(items)}: the sample is None.", items=items)


def _gives_items(passage: Passage) -> bool:
    return passage.function.endswith(("__getitem__", "__next__", "__iter__")) or passage.stage == "dataset"


# ---- rows


def _rows_lost(seen: Seen) -> Iterator[Finding]:
    for passage in seen.passages:
        if not passage.by_row or passage.rows is not None or passage.error or not passage.outputs:
            continue
        samples = samples_of(passage)
        if samples is not None:
            yield from _lost_in_collate(seen, passage, len(samples))
        elif not is_collate(passage):
            yield from _lost_in_call(seen, passage)


def _lost_in_collate(seen: Seen, passage: Passage, count: int) -> Iterator[Finding]:
    """Only if all it gave has the same lesser number of rows: what is joined, packed or put time first has others."""
    shapes = [leaf.shape for leaf in seen.outputs(passage) if leaf.library and leaf.shape]
    rows = {shape[0] for shape in shapes}
    lists = any(is_sequence(value) and len(value) == count for value in passage.outputs.values())
    if len(rows) == 1 and not lists and all(count not in shape for shape in shapes):
        (given,) = rows
        if given < count:
            text = f"{counted(count, 'sample')} went in, and a batch of {counted(given, 'row')} came out."
            yield found("rows-dropped", passage, text, "See which samples the collate function leaves out.")


def _lost_in_call(seen: Seen, passage: Passage) -> Iterator[Finding]:
    """Rows of the same form, but fewer or more of them."""
    given = [leaf for leaf in seen.outputs(passage) if leaf.library and leaf.shape]
    for leaf in seen.inputs(passage):
        if not leaf.library or not leaf.shape or len(leaf.shape) < 2 or leaf.shape[0] != len(passage.ids):
            continue
        if is_model(passage) or any(_as_many(leaf, other) for other in given):
            return  # a model may make of a batch what it likes
        other = next((other for other in given if (other.shape or ())[1:] == leaf.shape[1:]), None)
        if other is not None and other.shape:
            text = f"{counted(leaf.shape[0], 'row')} went in, and {other.shape[0]:,} came out."
            level: Level = "note" if leaf.library == "pandas" else "warning"  # tables are filtered on purpose
            kind = "rows-dropped" if other.shape[0] < leaf.shape[0] else "rows-added"
            yield found(kind, passage, text, "" if level == "note" else "See which rows, and why.", level=level)
            return


def _as_many(leaf: Leaf, other: Leaf) -> bool:
    return bool(leaf.shape and other.shape) and leaf.shape[:1] == other.shape[:1]  # type: ignore[index]


# ---- drops


def _drops(seen: Seen, passages: Sequence[Passage]) -> Iterator[Finding]:
    """Items that end at a stage from which items that came after them, in the same worker, went on."""
    stages = _stages_of_items(seen, passages)
    entered = _entered(passages)
    failed = {key_of(item) for one in passages if one.error or one.duration is None for item in one.ids}
    untold = {passage.stage for passage in seen.passages if passage.lost or not passage.ids}
    dropped: dict[str, list[Passage]] = {}
    for lane in _lanes(entered).values():
        after: dict[str, dict[str, None]] = {}  # the stages that came after each stage, for items further on
        for passage in reversed(lane):
            key = key_of(passage.ids[0])
            missed = after.get(stages[key][-1], {})
            if (
                missed
                and key not in failed
                and not untold.intersection(missed)
                and not missed.keys() & set(stages[key])
            ):
                dropped.setdefault(next(iter(missed)), []).append(passage)
            for place, stage in enumerate(stages[key]):
                after.setdefault(stage, {}).update(dict.fromkeys(stages[key][place + 1 :]))
                after[stage].pop(stage, None)
    for stage, lost in dropped.items():
        yield _dropped(seen, passages, stage, lost, len(entered))


def _stages_of_items(seen: Seen, passages: Sequence[Passage]) -> dict[Any, list[str]]:
    """The stages of each item in order, without those inside another one: an item may do without these."""
    ways: dict[Any, list[str]] = {}
    for passage in passages:
        outer = {key_of(item) for above in seen.ancestors(passage) for item in above.ids}
        for key in map(key_of, passage.ids):
            way = ways.setdefault(key, [])
            if key not in outer or not way:
                way.append(passage.stage)
    return ways


def _entered(passages: Sequence[Passage]) -> list[Passage]:
    """The first passage of each item in which it was alone: a sampler draws many at a time, for several workers."""
    first: dict[Any, Passage] = {}
    for passage in passages:
        if len(passage.ids) == 1:
            first.setdefault(key_of(passage.ids[0]), passage)
    return list(first.values())


def _lanes(entered: Sequence[Passage]) -> dict[str, list[Passage]]:
    lanes: dict[str, list[Passage]] = {}
    for passage in entered:
        lanes.setdefault(passage.where, []).append(passage)
    return lanes


def _dropped(seen: Seen, passages: Sequence[Passage], stage: str, lost: list[Passage], count: int) -> Finding:
    items = unique(passage.ids[0] for passage in reversed(lost))
    before = lost[0].stage
    some = item_names(items).partition(" ")[2]
    text = f"{len(items):,} of {count:,} items ({some}) passed `{before}` and not `{stage}`, as later ones did."
    first = next(passage for passage in passages if passage.stage == stage)
    level: Level = "warning"
    if seen.facts.state != "finished" and _is_reordered(passages, stage):
        level, text = "note", f"{text} The order changes on the way: they may have waited in a buffer at the end."
    remedy = "If they are filtered on purpose, nothing is wrong; else see what leaves them out."
    return replace(found("items-dropped", first, text, remedy, level=level, items=items), items=items)


def _is_reordered(passages: Sequence[Passage], stage: str) -> bool:
    arrived = list(dict.fromkeys(key_of(item) for one in passages if one.stage == stage for item in one.ids))
    lanes = _lanes(_entered(passages))
    for lane in lanes.values():
        places = {key_of(passage.ids[0]): place for place, passage in enumerate(lane)}
        mine = [places[key] for key in arrived if key in places]
        if mine != sorted(mine):
            return True
    return False


# ---- duplicates


def _duplicates(seen: Seen, passages: Sequence[Passage]) -> Iterator[Finding]:
    level: Level = "note" if any("weighted" in one.function.lower() for one in seen.passages) else "warning"
    batches = _batches(passages)
    for passage in batches:
        often = Counter(map(key_of, passage.ids))
        items = unique(item for item in passage.ids if often[key_of(item)] > 1)
        if items:
            number = "the batch" if passage.batch is None else f"batch {passage.batch}"
            text = f"{item_names(items)} {'is' if len(items) == 1 else 'are'} more than once in {number}."
            remedy = "If the sampler draws with replacement, nothing is wrong; else see what repeats them."
            yield found("duplicate-items", passage, text, remedy, level=level, items=items)
            return
    several = _in_several(batches)
    if several:
        first = next(one for one in batches if any(key_of(item) == key_of(several[0]) for item in one.ids))
        text = f"{item_names(several)} {'is' if len(several) == 1 else 'are'} in more than one batch of the same round."
        remedy = "An iterable dataset with workers has to give each worker its own part; else see what repeats them."
        yield found("duplicate-items", first, text, remedy, level=level, items=several)


def _batches(passages: Sequence[Passage]) -> list[Passage]:
    """One passage for each batch: those of the stage that saw most of them, the earliest one."""
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


def _in_several(batches: Sequence[Passage]) -> tuple[Any, ...]:
    """Items that come again before the round is over: a second round over the same items is an epoch."""
    rounds: list[set[Any]] = [set()]
    again: list[Any] = []
    for passage in batches:
        keys = [key_of(item) for item in passage.ids]
        if rounds[-1].intersection(keys):
            again += [item for item in passage.ids if key_of(item) in rounds[-1]]
            rounds.append(set())
        rounds[-1].update(keys)
    full, last = rounds[:-1], rounds[-1]
    epochs = all(one == full[0] for one in full) and (not full or last <= full[0])
    return () if epochs else unique(again)

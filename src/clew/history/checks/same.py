"""Batches in which everything is the same: rows, numbers, labels."""

from __future__ import annotations

from collections.abc import Iterator

from clew.history.checks.finding import Finding, counted
from clew.history.checks.leaf import Leaf, figure
from clew.history.checks.seen import Seen, found, is_collate, is_loss, key_of, merged, name_of, principal
from clew.records import Passage

_WIDE = 16  # numbers in a row that are not the same in two items by chance
_MANY = 8  # rows for which fewer will do
_DISTINCT = 3  # different numbers in a row, and rows, from which on even a short row is not the same by chance
_LABELS = 4  # rows of a batch from which on it is strange that all have one label


def same(seen: Seen) -> Iterator[Finding]:
    yield from merged(_equal_rows(seen))
    yield from _constants(seen)
    yield from _equal_labels(seen)


def _batches(seen: Seen) -> Iterator[tuple[Passage, list[Leaf]]]:
    """What collate gave, and what models were given."""
    models = {id(passage) for passage in seen.models()}
    for passage in seen.passages:
        if id(passage) in models:
            yield passage, seen.inputs(passage)
        elif is_collate(passage):
            yield passage, seen.outputs(passage)


def _equal_rows(seen: Seen) -> Iterator[Finding]:
    told: set[int | None] = set()
    for passage, leaves in _batches(seen):
        leaf = principal(leaves)
        if leaf is None or (passage.batch is not None and passage.batch in told) or not _all_rows_equal(passage, leaf):
            continue
        told.add(passage.batch)
        text = f"all rows of {name_of(leaf, 'the batch')} ({leaf.told()}) are equal"
        text = f"{text}, though they are of {len(passage.ids)} different items." if passage.ids else f"{text}."
        yield found("rows-all-equal", passage, text, "See whether the dataset gives the same sample for every index.")


def _all_rows_equal(passage: Passage, leaf: Leaf) -> bool:
    shape = leaf.shape or ()
    if len(shape) < 2 or shape[0] < 2 or leaf.summary.min == leaf.summary.max:
        return False
    if len({key_of(item) for item in passage.ids}) < len(passage.ids):
        return False  # an item twice is another finding
    array = leaf.array()
    if array is None or not all(bool((row == array[0]).all()) for row in array[1:]):
        return False
    if leaf.size // shape[0] >= _WIDE or shape[0] >= _MANY:
        return True
    return shape[0] >= _DISTINCT and len(set(array[0].reshape(-1).tolist())) >= _DISTINCT


def _constants(seen: Seen) -> Iterator[Finding]:
    """Of each function, if all it was given or gave is one number: a single black picture is nothing strange."""
    groups: dict[tuple[str, str], list[tuple[Passage, Leaf]]] = {}
    for passage, leaves in _batches(seen):
        leaf = principal(leaves)
        if leaf is not None and leaf.summary.min is not None:
            groups.setdefault((passage.stage, passage.function), []).append((passage, leaf))
    for group in groups.values():
        lows = {leaf.summary.min for _, leaf in group} | {leaf.summary.max for _, leaf in group}
        rows = sum(leaf.shape[0] for _, leaf in group if leaf.shape)
        size = sum(leaf.size for _, leaf in group)
        if len(lows) == 1 and rows > 1 and size >= _WIDE and not any(leaf.broken for _, leaf in group):
            passage, leaf = group[0]
            text = f"every number of {name_of(leaf, 'the batch')} ({leaf.told()}) is {figure(leaf.summary.min or 0.0)}"
            text = f"{text}, in all {counted(len(group), 'call')}."
            items = tuple(item for one, _ in group for item in one.ids)
            remedy = "See which stage makes them so: a division of integers, a fill, a scale applied twice."
            yield found("constant-input", passage, text, remedy, items=items)
            return  # the stages after it are given the same


def _equal_labels(seen: Seen) -> Iterator[Finding]:
    """A hint: it may be a sorted dataset that nobody shuffles."""
    for wanted in (is_loss, is_collate):
        of_batches = [_labels(seen, passage) for passage in seen.passages if wanted(passage)]
        batches = [leaf for leaf in of_batches if leaf is not None]
        if not batches:
            continue
        passage = next(passage for passage in seen.passages if wanted(passage) and _labels(seen, passage) is not None)
        if all(leaf.summary.min is not None and leaf.summary.min == leaf.summary.max for leaf in batches):
            values = list(dict.fromkeys(figure(leaf.summary.min or 0.0) for leaf in batches))
            if len(values) == 1:
                rows = sum(leaf.shape[0] for leaf in batches if leaf.shape)
                text = f"all {counted(rows, 'label')} seen are {values[0]}."
            else:
                text = f"each of {len(batches)} batches has one label only: {', '.join(values[:8])}."
            yield found("labels-all-equal", passage, text, "Are the items shuffled?", level="note")
        return


def _labels(seen: Seen, passage: Passage) -> Leaf | None:
    leaves = seen.inputs(passage) if is_loss(passage) else seen.outputs(passage)
    found_ = [leaf for leaf in leaves if leaf.is_integer and len(leaf.shape or ()) == 1 and leaf.library]
    named = [leaf for leaf in found_ if any(word in leaf.path.lower() for word in ("label", "target"))]
    fitting = named or (found_ if len(found_) == 1 else [])
    return next((leaf for leaf in fitting if (leaf.shape or (0,))[0] >= _LABELS), None)

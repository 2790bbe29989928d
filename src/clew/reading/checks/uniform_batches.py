"""Finds batches in which all rows, numbers or labels are equal."""

from __future__ import annotations

from collections.abc import Iterator

from clew.reading.checks.evidence import Evidence, is_collate, is_loss, key_of, make_finding, merged, name_of, principal
from clew.reading.checks.finding import Finding, counted
from clew.reading.checks.leaves import Leaf, figure
from clew.records import Passage

_WIDE = 16  # so many numbers per row do not agree in two items by chance
_MANY = 8  # with so many rows, fewer numbers suffice
_DISTINCT = 3  # with so many rows and distinct numbers in a row, even short rows do not agree by chance
_LABELS = 4  # in a batch of so many rows, a single label is suspicious


def uniform_batches(evidence: Evidence) -> Iterator[Finding]:
    yield from merged(_equal_rows(evidence))
    yield from _constants(evidence)
    yield from _equal_labels(evidence)


def _batches(evidence: Evidence) -> Iterator[tuple[Passage, list[Leaf]]]:
    """The outputs of collate functions and the inputs of models."""
    models = {id(passage) for passage in evidence.models()}
    for passage in evidence.passages:
        if id(passage) in models:
            yield passage, evidence.inputs(passage)
        elif is_collate(passage):
            yield passage, evidence.outputs(passage)


def _equal_rows(evidence: Evidence) -> Iterator[Finding]:
    reported_batches: set[int | None] = set()
    for passage, leaves in _batches(evidence):
        leaf = principal(leaves)
        if (
            leaf is None
            or (passage.batch is not None and passage.batch in reported_batches)
            or not _all_rows_equal(passage, leaf)
        ):
            continue
        reported_batches.add(passage.batch)
        text = f"all rows of {name_of(leaf, 'the batch')} ({leaf.type_text()}) are equal"
        text = f"{text}, though they are of {len(passage.ids)} different items." if passage.ids else f"{text}."
        yield make_finding(
            "rows-all-equal", passage, text, "See whether the dataset gives the same sample for every index."
        )


def _all_rows_equal(passage: Passage, leaf: Leaf) -> bool:
    shape = leaf.shape or ()
    if len(shape) < 2 or shape[0] < 2 or leaf.summary.min == leaf.summary.max:
        return False
    if len({key_of(item) for item in passage.ids}) < len(passage.ids):
        return False  # a repeated item is another finding
    array = leaf.array()
    if array is None or not all(bool((row == array[0]).all()) for row in array[1:]):
        return False
    if leaf.size // shape[0] >= _WIDE or shape[0] >= _MANY:
        return True
    return shape[0] >= _DISTINCT and len(set(array[0].reshape(-1).tolist())) >= _DISTINCT


def _constants(evidence: Evidence) -> Iterator[Finding]:
    """Report functions whose batches all hold one number; a single black picture is not suspicious."""
    groups: dict[tuple[str, str], list[tuple[Passage, Leaf]]] = {}
    for passage, leaves in _batches(evidence):
        leaf = principal(leaves)
        if leaf is not None and leaf.summary.min is not None:
            groups.setdefault((passage.stage, passage.function), []).append((passage, leaf))
    for group in groups.values():
        values = {leaf.summary.min for _, leaf in group} | {leaf.summary.max for _, leaf in group}
        rows = sum(leaf.shape[0] for _, leaf in group if leaf.shape)
        size = sum(leaf.size for _, leaf in group)
        if len(values) == 1 and rows > 1 and size >= _WIDE and not any(leaf.broken for _, leaf in group):
            passage, leaf = group[0]
            value = figure(leaf.summary.min or 0.0)
            text = f"every number of {name_of(leaf, 'the batch')} ({leaf.type_text()}) is {value}"
            text = f"{text}, in all {counted(len(group), 'call')}."
            items = tuple(item for member, _ in group for item in member.ids)
            remedy = "See which stage makes them so: a division of integers, a fill, a scale applied twice."
            yield make_finding("constant-input", passage, text, remedy, items=items)
            return  # later stages receive the same values


def _equal_labels(evidence: Evidence) -> Iterator[Finding]:
    """Only a note: the dataset may be sorted and deliberately not shuffled."""
    for has_labels in (is_loss, is_collate):
        of_batches = [_label_leaf(evidence, passage) for passage in evidence.passages if has_labels(passage)]
        batches = [leaf for leaf in of_batches if leaf is not None]
        if not batches:
            continue
        passage = next(
            passage
            for passage in evidence.passages
            if has_labels(passage) and _label_leaf(evidence, passage) is not None
        )
        if all(leaf.summary.min is not None and leaf.summary.min == leaf.summary.max for leaf in batches):
            values = list(dict.fromkeys(figure(leaf.summary.min or 0.0) for leaf in batches))
            if len(values) == 1:
                rows = sum(leaf.shape[0] for leaf in batches if leaf.shape)
                text = f"all {counted(rows, 'label')} seen are {values[0]}."
            else:
                text = f"each of {len(batches)} batches has one label only: {', '.join(values[:8])}."
            yield make_finding("labels-all-equal", passage, text, "Are the items shuffled?", level="note")
        return


def _label_leaf(evidence: Evidence, passage: Passage) -> Leaf | None:
    leaves = evidence.inputs(passage) if is_loss(passage) else evidence.outputs(passage)
    candidates = [leaf for leaf in leaves if leaf.is_integer and len(leaf.shape or ()) == 1 and leaf.library]
    named = [leaf for leaf in candidates if any(name_part in leaf.path.lower() for name_part in ("label", "target"))]
    fitting = named or (candidates if len(candidates) == 1 else [])
    return next((leaf for leaf in fitting if (leaf.shape or (0,))[0] >= _LABELS), None)

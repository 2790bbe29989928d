"""Finds NaN and Inf: the stage at which they appear, and whether those in the data reach the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from clew.reading.checks.evidence import Evidence, is_loss, is_model, key_of, make_finding, name_of, unique
from clew.reading.checks.finding import Finding, Level, item_names, repetition
from clew.reading.checks.leaves import Leaf
from clew.reading.rows import is_sequence
from clew.records import Passage


def missing_values(evidence: Evidence) -> Iterator[Finding]:
    """Yield the earliest finding first: the others may follow from it."""
    groups: list[tuple[list[Passage], Callable[[Evidence, list[Passage]], Finding | None]]]
    groups = [(passages, _finding_of_makers) for passages in _calls_that_made_nan(evidence)]
    groups += [(passages, _finding_of_receivers) for passages in _calls_that_received_nan(evidence)]
    for passages, describe in sorted(groups, key=lambda group: group[0][0].started):
        finding = describe(evidence, passages)
        if finding is not None:
            yield finding


def _calls_that_made_nan(evidence: Evidence) -> Iterable[list[Passage]]:
    """Calls that turned finite inputs into NaN or Inf, grouped by function; only the innermost ones."""
    broken = [passage for passage in evidence.passages if _made_broken(evidence, passage)]
    makers = _without_forwarders(evidence, broken)
    outer = {id(above) for passage in makers for above in evidence.ancestors(passage)}
    groups: dict[tuple[str, str], list[Passage]] = {}
    for passage in makers:
        if id(passage) not in outer:
            groups.setdefault((passage.stage, passage.function), []).append(passage)
    return groups.values()


def _without_forwarders(evidence: Evidence, makers: list[Passage]) -> list[Passage]:
    """Drop calls that have no numeric inputs (a loader) and only pass on items that were broken before."""
    broken_items: set[Any] = set()
    remaining = []
    for passage in makers:
        items = set(map(key_of, _bad_items(evidence, passage)))
        if _has_numeric_inputs(evidence, passage) or not items or not items <= broken_items:
            remaining.append(passage)
        broken_items |= items
    return remaining


def _made_broken(evidence: Evidence, passage: Passage) -> bool:
    gave_broken = _bad_leaf(evidence.outputs(passage)) is not None
    return gave_broken and not any(leaf.broken for leaf in evidence.inputs(passage))


def _bad_leaf(leaves: list[Leaf]) -> Leaf | None:
    return next((leaf for leaf in leaves if leaf.broken and not _is_mask(leaf)), None)


def _is_mask(leaf: Leaf) -> bool:
    """Whether it is an attention mask: -Inf at masked positions and one number elsewhere, which is intended."""
    summary = leaf.summary
    only_below = not summary.nan and summary.min == float("-inf") and summary.max != float("inf")
    return only_below and (summary.std in (None, 0.0) or "mask" in leaf.path.lower())


def _finding_of_makers(evidence: Evidence, passages: list[Passage]) -> Finding:
    first = passages[0]
    leaf = _bad_leaf(evidence.outputs(first))
    assert leaf is not None  # all of these calls gave a broken leaf
    bad_items = unique(item for passage in passages for item in _bad_items(evidence, passage))
    items = _bad_items(evidence, first)
    description = _describe(leaf, "what it gave", first, items)
    repeated = repetition(len(passages) - 1)
    if _has_numeric_inputs(evidence, first):
        level: Level = "note" if is_model(first) and _only_below(leaf) else "warning"
        text = f"{description}, and all it was given is finite.{repeated}"
        return make_finding("nan-appears", first, text, _remedy(evidence, first), level=level, items=bad_items)
    text = f"{description}, from the data itself{_model_clause(evidence, first)}.{repeated}"
    remedy, level = "Leave these items out, or fill the gaps before the model.", _level_of_data(evidence, first)
    return make_finding("nan-in-data", first, text, remedy, level=level, items=bad_items)


def _describe(leaf: Leaf, fallback: str, passage: Passage, items: Sequence[Any]) -> str:
    counts = [f"{count:,} {name}" for name, count in (("NaN", leaf.summary.nan), ("Inf", leaf.summary.inf)) if count]
    return f"{name_of(leaf, fallback)} ({leaf.type_text()}) has {' and '.join(counts)}{_items_clause(passage, items)}"


def _items_clause(passage: Passage, items: Sequence[Any]) -> str:
    if not items:
        return ""
    clause = f" for {item_names(items)}"
    if not passage.by_row:
        return clause
    row = [*map(key_of, passage.ids)].index(key_of(items[0]))
    return f"{clause} (row {row} of batch {passage.batch})" if passage.batch is not None else f"{clause} (row {row})"


def _remedy(evidence: Evidence, passage: Passage) -> str:
    """What to do; a model whose weights are NaN gives NaN for any input."""
    steps = [step for step in evidence.passages if step.stage == "optimizer" and step.started < passage.started]
    if is_model(passage) and any(leaf.broken for step in steps for leaf in evidence.inputs(step)):
        return "The optimizer stepped with gradients that are not finite before: the model's weights are broken."
    return "Look for a division by 0, a logarithm or a root there."


def _only_below(leaf: Leaf) -> bool:
    return not leaf.summary.nan and leaf.summary.max != float("inf")


def _has_numeric_inputs(evidence: Evidence, passage: Passage) -> bool:
    """Whether the inputs hold data, rather than only an index or a path to read it from."""
    return any(map(_is_data, evidence.inputs(passage)))


def _is_data(leaf: Leaf) -> bool:
    return leaf.is_array or leaf.library == "pandas" or leaf.dtype in ("float", "list of numbers")


def _bad_items(evidence: Evidence, passage: Passage, *, of_inputs: bool = False) -> Sequence[Any]:
    if len(passage.ids) < 2 or not passage.by_row:
        return passage.ids
    count = len(passage.ids)
    rows: set[int] = set()
    for leaf in evidence.inputs(passage) if of_inputs else evidence.outputs(passage):
        if leaf.broken and leaf.shape and leaf.shape[0] == count:
            rows.update(_bad_rows(leaf))
    for value in (passage.inputs if of_inputs else passage.outputs).values():
        if is_sequence(value) and len(value) == count:
            rows.update(row for row, item in enumerate(value) if any(leaf.broken for leaf in evidence.leaves(item)))
    return [passage.ids[row] for row in sorted(rows)] or passage.ids


def _bad_rows(leaf: Leaf) -> list[int]:
    import numpy as np

    array = leaf.array()
    if array is None or array.dtype.kind not in "fc" or not array.size:
        return []
    fine = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return [int(row) for row in np.flatnonzero(~fine)]


# ---- NaN that no stage gave: made by code between two stages, or part of the first stage's inputs


def _calls_that_received_nan(evidence: Evidence) -> Iterable[list[Passage]]:
    groups: dict[tuple[str, str], list[Passage]] = {}
    broken_items: set[Any] = set()
    for passage in evidence.passages:
        # The inputs of a nested call are covered by the outer call.
        outermost = next(evidence.ancestors(passage), None) is None
        inputs = _unmasked_inputs(evidence, passage)
        if outermost and not broken_items & _keys(passage) and any(leaf.broken for leaf in inputs):
            groups.setdefault((passage.stage, passage.function), []).append(passage)
        if _bad_leaf([*inputs, *evidence.outputs(passage)]) is not None:
            broken_items.update(_keys(passage))
    return groups.values()


def _keys(passage: Passage) -> set[Any]:
    return {(passage.source, key_of(item)) for item in passage.ids} or {None}


def _finding_of_receivers(evidence: Evidence, passages: list[Passage]) -> Finding | None:
    first = passages[0]
    leaf = next(leaf for leaf in _unmasked_inputs(evidence, first) if leaf.broken)
    items = _bad_items(evidence, first, of_inputs=True)
    bad_items = unique(item for passage in passages for item in _bad_items(evidence, passage, of_inputs=True))
    description, repeated = _describe(leaf, "what it was given", first, items), repetition(len(passages) - 1)
    giver = _last_giver(evidence, first)
    if giver is None and _level_of_data(evidence, first) == "note":
        return None  # gaps that a later stage fills; the change notes show them
    if giver is None:
        text = f"{description}, from the data itself.{repeated}"
        return make_finding("nan-in-data", first, text, "Leave these items out, or fill the gaps.", items=bad_items)
    text = f"{description}, and what `{giver.stage}` gave is finite: they appear between the two.{repeated}"
    remedy = "Look for a division by 0, a logarithm or a root there."
    if first.stage == "optimizer":
        remedy = "The backward pass made them: look for a root, a logarithm or a division near 0, or for overflow."
    level: Level = "warning" if any(_harms(evidence, passage) for passage in passages) else "note"
    return make_finding("nan-appears", first, text, remedy, level=level, items=bad_items)


def _last_giver(evidence: Evidence, passage: Passage) -> Passage | None:
    """The last passage before this one that gave numbers for the same items."""
    keys = _keys(passage)
    earlier = [
        candidate for candidate in evidence.passages if candidate.started < passage.started and keys & _keys(candidate)
    ]
    return next((candidate for candidate in reversed(earlier) if any(map(_is_data, evidence.outputs(candidate)))), None)


# ---- what becomes of NaN that were in the data


def _level_of_data(evidence: Evidence, first: Passage) -> Level:
    """A warning if NaN reach the end or the model, else a note: many tables have gaps that a later stage fills."""
    reached = [
        passage for passage in evidence.models() if any(leaf.broken for leaf in _unmasked_inputs(evidence, passage))
    ]
    if any(_harms(evidence, passage) for passage in reached):
        return "warning"
    if any(is_model(passage) or is_loss(passage) for passage in evidence.passages):
        return "note"
    last = [passage for passage in evidence.passages if passage.stage == evidence.passages[-1].stage]
    return (
        "warning"
        if any(leaf.broken and leaf.is_array for passage in last for leaf in evidence.outputs(passage))
        else "note"
    )


def _unmasked_inputs(evidence: Evidence, passage: Passage) -> list[Leaf]:
    return [leaf for leaf in evidence.inputs(passage) if not _is_mask(leaf)]


def _harms(evidence: Evidence, passage: Passage) -> bool:
    return not passage.outputs or any(leaf.broken for leaf in evidence.outputs(passage))


def _model_clause(evidence: Evidence, first: Passage) -> str:
    if any(leaf.broken for passage in evidence.models() for leaf in _unmasked_inputs(evidence, passage)):
        return ", and NaN or Inf go into the model"
    return ""

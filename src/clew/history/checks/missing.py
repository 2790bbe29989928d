"""NaN and Inf: the stage at which they appear, and whether those of the data go into the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from clew.history.checks.finding import Finding, Level, counted, item_names
from clew.history.checks.leaf import Leaf
from clew.history.checks.seen import Seen, found, is_loss, is_model, key_of, name_of, unique
from clew.history.rows import is_sequence
from clew.records import Passage


def missing(seen: Seen) -> Iterator[Finding]:
    """What came first comes first: the rest may follow from it."""
    groups: list[tuple[list[Passage], Callable[[Seen, list[Passage]], Finding | None]]]
    groups = [(passages, _found) for passages in _appearing(seen)]
    groups += [(passages, _came_in) for passages in _coming_in(seen)]
    for passages, told in sorted(groups, key=lambda group: group[0][0].started):
        finding = told(seen, passages)
        if finding is not None:
            yield finding


def _appearing(seen: Seen) -> Iterable[list[Passage]]:
    """Where finite numbers went in and others came out; inside the innermost call of which that is true."""
    guilty = _without_passed_on(seen, [passage for passage in seen.passages if _made_broken(seen, passage)])
    outer = {id(above) for passage in guilty for above in seen.ancestors(passage)}
    told: dict[tuple[str, str], list[Passage]] = {}
    for passage in guilty:
        if id(passage) not in outer:
            told.setdefault((passage.stage, passage.function), []).append(passage)
    return told.values()


def _without_passed_on(seen: Seen, guilty: list[Passage]) -> list[Passage]:
    """Those that were given no numbers (a loader) and gave what was broken before have only passed it on."""
    broken: set[Any] = set()
    left = []
    for passage in guilty:
        items = set(map(key_of, _bad_items(seen, passage)))
        if _numbers_came_in(seen, passage) or not items or not items <= broken:
            left.append(passage)
        broken |= items
    return left


def _made_broken(seen: Seen, passage: Passage) -> bool:
    return _bad_leaf(seen.outputs(passage)) is not None and not any(leaf.broken for leaf in seen.inputs(passage))


def _bad_leaf(leaves: list[Leaf]) -> Leaf | None:
    return next((leaf for leaf in leaves if leaf.broken and not _is_mask(leaf)), None)


def _is_mask(leaf: Leaf) -> bool:
    """Minus infinity where attention must not look, and the same number everywhere else, is meant so."""
    summary = leaf.summary
    only_below = not summary.nan and summary.min == float("-inf") and summary.max != float("inf")
    return only_below and (summary.std in (None, 0.0) or "mask" in leaf.path.lower())


def _found(seen: Seen, passages: list[Passage]) -> Finding:
    first = passages[0]
    leaf = _bad_leaf(seen.outputs(first))
    assert leaf is not None  # or it would not be here
    bad = unique(item for passage in passages for item in _bad_items(seen, passage))
    items = _bad_items(seen, first)
    what = f"{name_of(leaf, 'what it gave')} ({leaf.told()}) has {_counts(leaf)}{_of_items(first, items)}"
    more = _more(passages)
    if _numbers_came_in(seen, first):
        level: Level = "note" if is_model(first) and _only_below(leaf) else "warning"
        text = f"{what}, and all it was given is finite.{more}"
        return found("nan-appears", first, text, _remedy(seen, first), level=level, items=bad)
    text, level = f"{what}, from the data itself{_then(seen, first)}.{more}", _level_of_data(seen, first)
    return found(
        "nan-in-data", first, text, "Leave these items out, or fill the gaps before the model.", level=level, items=bad
    )


def _of_items(passage: Passage, items: Sequence[Any]) -> str:
    if not items:
        return ""
    where = f" for {item_names(items)}"
    if not passage.by_row:
        return where
    row = [*map(key_of, passage.ids)].index(key_of(items[0]))
    return f"{where} (row {row} of batch {passage.batch})" if passage.batch is not None else f"{where} (row {row})"


def _more(passages: Sequence[Passage]) -> str:
    return f" So in {counted(len(passages) - 1, 'more call')}." if len(passages) > 1 else ""


def _remedy(seen: Seen, passage: Passage) -> str:
    """A model whose weights are NaN makes NaN of anything."""
    before = [one for one in seen.passages if one.stage == "optimizer" and one.started < passage.started]
    if is_model(passage) and any(leaf.broken for one in before for leaf in seen.inputs(one)):
        return "The optimizer stepped with gradients that are not finite before: the model's weights are broken."
    return "Look for a division by 0, a logarithm or a root there."


def _counts(leaf: Leaf) -> str:
    told = [f"{count:,} {name}" for name, count in (("NaN", leaf.summary.nan), ("Inf", leaf.summary.inf)) if count]
    return " and ".join(told)


def _only_below(leaf: Leaf) -> bool:
    return not leaf.summary.nan and leaf.summary.max != float("inf")


def _numbers_came_in(seen: Seen, passage: Passage) -> bool:
    """Whether it was given data, and not only an index or a path to read them from."""
    return any(map(_is_data, seen.inputs(passage)))


def _is_data(leaf: Leaf) -> bool:
    return leaf.is_array or leaf.library == "pandas" or leaf.dtype in ("float", "list of numbers")


def _bad_items(seen: Seen, passage: Passage, *, given: bool = False) -> Sequence[Any]:
    if len(passage.ids) < 2 or not passage.by_row:
        return passage.ids
    count = len(passage.ids)
    rows: set[int] = set()
    for leaf in seen.inputs(passage) if given else seen.outputs(passage):
        if leaf.broken and leaf.shape and leaf.shape[0] == count:
            rows.update(_bad_rows(leaf))
    for value in (passage.inputs if given else passage.outputs).values():
        if is_sequence(value) and len(value) == count:
            rows.update(row for row, item in enumerate(value) if any(leaf.broken for leaf in seen.leaves(item)))
    return [passage.ids[row] for row in sorted(rows)] or passage.ids


def _bad_rows(leaf: Leaf) -> list[int]:
    import numpy as np

    array = leaf.array()
    if array is None or array.dtype.kind not in "fc" or not array.size:
        return []
    fine = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return [int(row) for row in np.flatnonzero(~fine)]


# ---- NaN that no stage gave: made by code between two stages, or handed to the first one


def _coming_in(seen: Seen) -> Iterable[list[Passage]]:
    told: dict[tuple[str, str], list[Passage]] = {}
    broken: set[Any] = set()
    for passage in seen.passages:
        # What a call inside another was given is the business of the outer one.
        outermost = next(seen.ancestors(passage), None) is None
        if outermost and not broken & _keys(passage) and any(leaf.broken for leaf in _data(seen, passage)):
            told.setdefault((passage.stage, passage.function), []).append(passage)
        if _bad_leaf([*_data(seen, passage), *seen.outputs(passage)]) is not None:
            broken.update(_keys(passage))
    return told.values()


def _keys(passage: Passage) -> set[Any]:
    return {(passage.source, key_of(item)) for item in passage.ids} or {None}


def _came_in(seen: Seen, passages: list[Passage]) -> Finding | None:
    first = passages[0]
    leaf = next(leaf for leaf in _data(seen, first) if leaf.broken)
    items = _bad_items(seen, first, given=True)
    bad = unique(item for passage in passages for item in _bad_items(seen, passage, given=True))
    what = f"{name_of(leaf, 'what it was given')} ({leaf.told()}) has {_counts(leaf)}{_of_items(first, items)}"
    before = _handed_on_by(seen, first)
    if before is None and _level_of_data(seen, first) == "note":
        return None  # gaps that are filled: what changed tells of them
    if before is None:
        text = f"{what}, from the data itself.{_more(passages)}"
        return found("nan-in-data", first, text, "Leave these items out, or fill the gaps.", items=bad)
    text = f"{what}, and what `{before.stage}` gave is finite: they appear between the two.{_more(passages)}"
    remedy = "Look for a division by 0, a logarithm or a root there."
    if first.stage == "optimizer":
        remedy = "The backward pass made them: look for a root, a logarithm or a division near 0, or for overflow."
    level: Level = "warning" if any(_harmed(seen, passage) for passage in passages) else "note"
    return found("nan-appears", first, text, remedy, level=level, items=bad)


def _handed_on_by(seen: Seen, passage: Passage) -> Passage | None:
    """The last one before it that gave numbers of the same items."""
    keys = _keys(passage)
    earlier = [one for one in seen.passages if one.started < passage.started and keys & _keys(one)]
    return next((one for one in reversed(earlier) if any(map(_is_data, seen.outputs(one)))), None)


# ---- what becomes of NaN that were in the data


def _level_of_data(seen: Seen, first: Passage) -> Level:
    """A warning if they go through to the end, or harm the model: many a table has gaps that a later stage fills."""
    reached = [passage for passage in seen.models() if any(leaf.broken for leaf in _data(seen, passage))]
    if any(_harmed(seen, passage) for passage in reached):
        return "warning"
    if any(is_model(passage) or is_loss(passage) for passage in seen.passages):
        return "note"
    last = [passage for passage in seen.passages if passage.stage == seen.passages[-1].stage]
    return "warning" if any(leaf.broken and leaf.is_array for one in last for leaf in seen.outputs(one)) else "note"


def _data(seen: Seen, passage: Passage) -> list[Leaf]:
    return [leaf for leaf in seen.inputs(passage) if not _is_mask(leaf)]


def _harmed(seen: Seen, passage: Passage) -> bool:
    return not passage.outputs or any(leaf.broken for leaf in seen.outputs(passage))


def _then(seen: Seen, first: Passage) -> str:
    if any(leaf.broken for passage in seen.models() for leaf in _data(seen, passage)):
        return ", and NaN or Inf go into the model"
    return ""

"""Finds training and evaluation data, or two datasets, that leave the same pipeline in different ranges.

A few items prove little: one picture may be dark and another bright. So only differences that no choice of items
explains are reported. For images: one group is in the range of bytes; or has no negative numbers while every item of
the other has; or stays in -1…1 while every item of the other goes beyond. For other data: every item of one group is
scaled differently from every item of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.reading.checks.evidence import Evidence, is_loss, is_model, make_finding, principal
from clew.reading.checks.finding import Finding, counted
from clew.reading.checks.leaves import Leaf, figure, range_text
from clew.records import Passage

_FEW = 3  # items required per group, for data other than images
_GAP = 3.0  # the factor by which all items of one group must be wider than all of the other
_NEGATIVE = -0.1
_UNIT = 1.05  # interpolation may slightly exceed 1
_BRIGHT = 16.0
_BEYOND = 1.5  # no picture in the range -1…1 reaches this


@dataclass(slots=True)
class _Item:
    low: float
    high: float
    mean: float
    std: float


@dataclass(slots=True)
class _Group:
    name: str
    passage: Passage  # the first
    items: list[_Item] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    dtypes: set[str] = field(default_factory=set)
    axes: set[int] = field(default_factory=set)
    images: bool = True

    def add(self, passage: Passage, leaf: Leaf) -> None:
        self.ids += passage.ids
        self.dtypes.add(leaf.dtype)
        shape = leaf.shape or ()
        batched = passage.by_row and len(passage.ids) == shape[0]
        self.axes.add(len(shape) - batched)
        self.images = self.images and _looks_like_image(shape[1:] if batched else shape)
        self.items += _items(leaf, batched)

    @property
    def low(self) -> float:
        return min(item.low for item in self.items)

    @property
    def high(self) -> float:
        return max(item.high for item in self.items)

    def describe(self) -> str:
        mean = sum(item.mean for item in self.items) / len(self.items)
        std = sum(item.std for item in self.items) / len(self.items)
        figures = f"{range_text(self.low, self.high)}, mean {figure(mean)}, std {figure(std)}"
        return f"{self.name} {figures} ({counted(len(self.items), 'item')})"


def differing_ranges(evidence: Evidence) -> Iterator[Finding]:
    """Compare the model's inputs by its mode; without both modes, compare sources at the last stage they share."""
    models: dict[str, list[Passage]] = {}
    for passage in evidence.models():
        models.setdefault(passage.function, []).append(passage)
    functions_in_both_modes = [
        calls for calls in models.values() if {"train", "eval"} <= {passage.mode for passage in calls}
    ]
    for calls in functions_in_both_modes:
        yield from _compare_groups(
            [(passage, passage.mode, principal(evidence.inputs(passage))) for passage in calls if passage.mode]
        )
    if functions_in_both_modes:
        return
    for function in _last_shared_function(evidence):
        calls = [passage for passage in evidence.passages if (passage.stage, passage.function) == function]
        yield from _compare_groups(
            [(passage, f"`{passage.source}`", principal(evidence.outputs(passage))) for passage in calls]
        )


def _last_shared_function(evidence: Evidence) -> list[tuple[str, str]]:
    sources: dict[tuple[str, str], set[str]] = {}
    for passage in evidence.passages:
        if passage.source and passage.outputs and not is_loss(passage) and not _is_in_model(evidence, passage):
            sources.setdefault((passage.stage, passage.function), set()).add(passage.source)
    shared = [function for function, sources_seen in sources.items() if len(sources_seen) > 1]
    order = {stage: place for place, stage in enumerate(evidence.stages)}
    outer = {(passage.stage, passage.function) for passage in evidence.passages if passage.parent is None}
    shared = [function for function in shared if function in outer] or shared
    return sorted(shared, key=lambda function: order[function[0]])[-1:]


def _is_in_model(evidence: Evidence, passage: Passage) -> bool:
    return is_model(passage) or any(map(is_model, evidence.ancestors(passage)))


def _compare_groups(calls: Sequence[tuple[Passage, str, Leaf | None]]) -> Iterator[Finding]:
    groups_by_name: dict[str, _Group] = {}
    for passage, name, leaf in calls:
        if leaf is not None and leaf.summary.min is not None:
            groups_by_name.setdefault(name, _Group(name, passage)).add(passage, leaf)
    filled = [group for group in groups_by_name.values() if group.items]
    for place, group in enumerate(filled):
        for candidate in filled[place + 1 :]:
            if group.axes == candidate.axes and _differ(group, candidate):
                text = f"the ranges differ: {group.describe()}; {candidate.describe()}."
                remedy = "Give both the same normalisation, with the same figures."
                yield make_finding("ranges-differ", candidate.passage, text, remedy, items=[*group.ids, *candidate.ids])


def _differ(group: _Group, candidate: _Group) -> bool:
    if group.images and candidate.images:
        return _images_differ(group, candidate) or _images_differ(candidate, group)
    if group.dtypes != candidate.dtypes or min(len(group.items), len(candidate.items)) < _FEW:
        return False
    return _is_far_above(group.items, candidate.items) or _is_far_above(candidate.items, group.items)


def _images_differ(group: _Group, candidate: _Group) -> bool:
    """Whether the group is bytes and the candidate is not; or has no negative numbers while every item of the candidate
    has; or stays in -1…1 while every item of the candidate goes far beyond."""
    if group.low >= 0 and group.high > _BRIGHT and 0 < candidate.high < group.high / 8:
        return True
    count = min(len(group.items), len(candidate.items))
    if count < 2 or group.low < -_UNIT or group.high > _UNIT:
        return False
    if group.low >= 0:
        return all(item.low < _NEGATIVE for item in candidate.items)
    return count >= _FEW and all(max(-item.low, item.high) > _BEYOND for item in candidate.items)


def _is_far_above(wide: Sequence[_Item], narrow: Sequence[_Item]) -> bool:
    """Whether every item of the first has a far larger spread, or a far higher mean, than every item of the second."""
    if min(item.std for item in wide) > _GAP * max(item.std for item in narrow) > 0:
        return True
    largest_std = max(item.std for item in [*wide, *narrow])
    return largest_std > 0 and min(item.mean for item in wide) - max(item.mean for item in narrow) > _GAP * largest_std


def _looks_like_image(shape: tuple[int, ...]) -> bool:
    """Whether this is the shape of one image, with channels first or last."""
    if len(shape) != 3:
        return False
    first, last = shape[0] in (1, 3, 4) and min(shape[1:]) >= 8, shape[2] in (1, 3, 4) and min(shape[:2]) >= 8
    return first or last


def _items(leaf: Leaf, batched: bool) -> list[_Item]:
    array = leaf.array() if batched else None
    if array is not None and array.size and not leaf.broken:
        import numpy as np

        flat = array.reshape(len(array), -1)
        lows, highs = flat.min(axis=1), flat.max(axis=1)
        means, stds = flat.mean(axis=1, dtype=np.float64), flat.std(axis=1, dtype=np.float64)
        rows = zip(lows.tolist(), highs.tolist(), means.tolist(), stds.tolist(), strict=True)
        return [_Item(*map(float, row)) for row in rows]
    summary = leaf.summary
    if summary.min is None or summary.max is None or summary.mean is None:
        return []
    return [_Item(summary.min, summary.max, summary.mean, summary.std or 0.0)]

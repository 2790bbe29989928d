"""Training and evaluation, or two datasets, whose items come out of the same pipeline in different ranges.

A few items say little, and two pictures may well be a dark and a bright one. So only what no choice of items explains
is told: images of which one group is in the range of bytes, has no negative numbers while all of the other have, or
stays in -1…1 while all of the other go beyond; and other data of which every single item of one group is scaled
otherwise than every one of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.history.checks.finding import Finding, counted
from clew.history.checks.leaf import Leaf, figure, range_told
from clew.history.checks.seen import Seen, found, is_loss, is_model, principal
from clew.records import Passage

_FEW = 3  # items of each group, for data that are no images
_GAP = 3.0  # by which factor all of one group have to be wider than all of the other
_NEGATIVE = -0.1
_UNIT = 1.05  # a little over 1 comes of interpolation
_BRIGHT = 16.0
_BEYOND = 1.5  # where no picture of the range -1…1 comes


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

    def told(self) -> str:
        mean = sum(item.mean for item in self.items) / len(self.items)
        std = sum(item.std for item in self.items) / len(self.items)
        figures = f"{range_told(self.low, self.high)}, mean {figure(mean)}, std {figure(std)}"
        return f"{self.name} {figures} ({counted(len(self.items), 'item')})"


def groups(seen: Seen) -> Iterator[Finding]:
    """By the model's mode at the model; else by source, at the last stage before it that both passed."""
    models: dict[str, list[Passage]] = {}
    for passage in seen.models():
        models.setdefault(passage.function, []).append(passage)
    both = [calls for calls in models.values() if {"train", "eval"} <= {passage.mode for passage in calls}]
    for calls in both:
        yield from _compared([(one, one.mode, principal(seen.inputs(one))) for one in calls if one.mode])
    if both:
        return
    for function in _last_common(seen):
        calls = [passage for passage in seen.passages if (passage.stage, passage.function) == function]
        yield from _compared([(one, f"`{one.source}`", principal(seen.outputs(one))) for one in calls])


def _last_common(seen: Seen) -> list[tuple[str, str]]:
    sources: dict[tuple[str, str], set[str]] = {}
    for passage in seen.passages:
        if passage.source and passage.outputs and not is_loss(passage) and not _of_model(seen, passage):
            sources.setdefault((passage.stage, passage.function), set()).add(passage.source)
    shared = [function for function, known in sources.items() if len(known) > 1]
    order = {stage: place for place, stage in enumerate(seen.stages)}
    outer = {(one.stage, one.function) for one in seen.passages if one.parent is None}
    shared = [function for function in shared if function in outer] or shared
    return sorted(shared, key=lambda function: order[function[0]])[-1:]


def _of_model(seen: Seen, passage: Passage) -> bool:
    return is_model(passage) or any(map(is_model, seen.ancestors(passage)))


def _compared(calls: Sequence[tuple[Passage, str, Leaf | None]]) -> Iterator[Finding]:
    found_: dict[str, _Group] = {}
    for passage, name, leaf in calls:
        if leaf is not None and leaf.summary.min is not None:
            found_.setdefault(name, _Group(name, passage)).add(passage, leaf)
    known = [group for group in found_.values() if group.items]
    for place, one in enumerate(known):
        for other in known[place + 1 :]:
            if one.axes == other.axes and _differ(one, other):
                text = f"the ranges differ: {one.told()}; {other.told()}."
                remedy = "Give both the same normalisation, with the same figures."
                yield found("ranges-differ", other.passage, text, remedy, items=[*one.ids, *other.ids])


def _differ(one: _Group, other: _Group) -> bool:
    if one.images and other.images:
        return _images_differ(one, other) or _images_differ(other, one)
    if one.dtypes != other.dtypes or min(len(one.items), len(other.items)) < _FEW:
        return False
    return _apart(one.items, other.items) or _apart(other.items, one.items)


def _images_differ(one: _Group, other: _Group) -> bool:
    """Whether the first is bytes and the second is not; or the first is without negative numbers and no item of the
    second is; or the first stays in -1…1, and every item of the second goes far beyond."""
    if one.low >= 0 and one.high > _BRIGHT and 0 < other.high < one.high / 8:
        return True
    count = min(len(one.items), len(other.items))
    if count < 2 or one.low < -_UNIT or one.high > _UNIT:
        return False
    if one.low >= 0:
        return all(item.low < _NEGATIVE for item in other.items)
    return count >= _FEW and all(max(-item.low, item.high) > _BEYOND for item in other.items)


def _apart(wide: Sequence[_Item], narrow: Sequence[_Item]) -> bool:
    """Whether every item of the first is spread far wider, or lies far higher, than every item of the second."""
    if min(item.std for item in wide) > _GAP * max(item.std for item in narrow) > 0:
        return True
    spread = max(item.std for item in [*wide, *narrow])
    return spread > 0 and min(item.mean for item in wide) - max(item.mean for item in narrow) > _GAP * spread


def _looks_like_image(shape: tuple[int, ...]) -> bool:
    """One image; whether its channels come first or last."""
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

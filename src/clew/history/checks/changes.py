"""What changed in shape, type, range and missing values: inside each call, and from one call to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from clew.history.checks.finding import CHANGE, Finding, listed
from clew.history.checks.leaf import Leaf, range_told
from clew.history.checks.seen import Seen, key_of, samples_of, unique
from clew.records import Passage

_DTYPES = 3
_BACK = 16  # calls about an item, among which the one before is looked for
_LEAVES = 12  # of one value, that are compared


@dataclass(slots=True)
class Outline:
    """What several values of one path have in common: their shapes and types, and the range of all of them."""

    shapes: dict[tuple[int, ...] | None, None] = field(default_factory=dict)
    dtypes: dict[str, None] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    missing: int = 0
    single: bool = True  # nothing but plain numbers and texts

    def add(self, leaf: Leaf) -> None:
        self.shapes[None if leaf.is_column else leaf.shape] = None  # the table tells how many rows there are
        self.dtypes[leaf.dtype] = None
        self.single = self.single and not leaf.shape and not leaf.is_array
        summary = leaf.summary
        self.missing += leaf.broken
        if summary.min is not None and summary.max is not None:
            self.low = summary.min if self.low is None else min(self.low, summary.min)
            self.high = summary.max if self.high is None else max(self.high, summary.max)

    @property
    def shape(self) -> str:
        return _shapes(list(self.shapes))

    @property
    def dtype(self) -> str:
        names = list(self.dtypes)
        return listed(names[:_DTYPES]) if len(names) <= _DTYPES else f"{len(names)} types"

    @property
    def range(self) -> str:
        return range_told(self.low, self.high)

    @property
    def axes(self) -> Any:
        """The lengths of the axes in any order, if all have the same."""
        (shape, *others) = list(self.shapes)
        return None if others or not shape else sorted(shape)


def _shapes(shapes: list[tuple[int, ...] | None]) -> str:
    """`(3, 20…32, 32)` for several that differ in some lengths."""
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return ""
    if len({len(shape) for shape in known}) > 1:
        numbers = sorted({len(shape) for shape in known})
        return f"shapes of {listed([str(number) for number in numbers])} axes"
    lengths = [
        f"{min(axis)}" if len(set(axis)) == 1 else f"{min(axis)}…{max(axis)}" for axis in zip(*known, strict=True)
    ]
    return f"({', '.join(lengths)}{',' if len(lengths) == 1 else ''})"


Outlines = dict[str, Outline]


def changes(seen: Seen) -> Iterator[Finding]:
    """Into each function and out of it, and from the one before; in the order in which functions were reached."""
    steps = _steps(seen)
    for (stage, function), passages in _by_function(seen.passages).items():
        items = unique(item for passage in passages for item in passage.ids)
        here = _outlines(seen, passages, given=True)
        for (before_stage, before), earlier in steps.get((stage, function), {}).items():
            came_from = before if before_stage == stage else f"{before_stage} · {before}"
            for text in _differences(_outlines(seen, earlier, given=False), here):
                yield Finding(CHANGE, "note", stage, function, items, f"since {came_from}: {text}")
        for text in _differences(here, _outlines(seen, passages, given=False)):
            yield Finding(CHANGE, "note", stage, function, items, text)


def _by_function(passages: Iterable[Passage]) -> dict[tuple[str, str], list[Passage]]:
    groups: dict[tuple[str, str], list[Passage]] = {}
    for passage in passages:
        groups.setdefault((passage.stage, passage.function), []).append(passage)
    return groups


Steps = dict[tuple[str, str], dict[tuple[str, str], list[Passage]]]


def _steps(seen: Seen) -> Steps:
    """For each function those whose results came to it last, by the items they have in common."""
    steps: Steps = {}
    ways: dict[Any, list[Passage]] = {}
    known: set[tuple[int, int]] = set()
    for passage in seen.passages:
        outside = {id(above) for above in seen.ancestors(passage)}
        for item in passage.ids or (None,):
            way = ways.setdefault((passage.source if passage.ids else "", key_of(item)), [])
            before = _ended_before(passage, way, outside)
            way.append(passage)
            if before is None or (id(before), id(passage)) in known:
                continue
            known.add((id(before), id(passage)))
            here, there = (passage.stage, passage.function), (before.stage, before.function)
            if here != there:
                steps.setdefault(here, {}).setdefault(there, []).append(before)
    return steps


def _ended_before(passage: Passage, way: list[Passage], outside: set[int]) -> Passage | None:
    """The one that ended last, with something to hand on; a call that goes on around this one has not."""
    ended = [
        (earlier.started + earlier.duration, place)
        for place, earlier in enumerate(way[-_BACK:])
        if earlier.duration is not None and earlier.outputs and id(earlier) not in outside
    ]
    ended = [(end, place) for end, place in ended if end <= passage.started]
    return way[-_BACK:][max(ended)[1]] if ended else None


def _outlines(seen: Seen, passages: Iterable[Passage], *, given: bool) -> Outlines:
    outlines: Outlines = {}
    for passage in passages:
        samples = samples_of(passage) if given else None
        fields = {"": samples} if samples is not None else passage.inputs if given else passage.outputs
        for name, value in fields.items():
            # A single thing has no need of its name, under which the function before did not know it.
            path = "" if len(fields) == 1 else name
            for part in value if samples is not None and value is samples else [value]:
                for leaf in seen.leaves(part, path)[:_LEAVES]:
                    outlines.setdefault(leaf.path, Outline()).add(leaf)
    return outlines


def _differences(before: Outlines, after: Outlines) -> Iterator[str]:
    for path, old, new in _pairs(before, after):
        if old.single != new.single or "NoneType" in (old.dtype, new.dtype):
            continue  # an index, and what was found under it, or nothing
        told = ", ".join(_difference(old, new))
        if told:
            yield f"{path}: {told}" if path else told


def _difference(old: Outline, new: Outline) -> Iterator[str]:
    if old.shape != new.shape and not new.single:
        yield f"shape {old.shape or 'none'} → {new.shape or 'none'}"
    if old.dtype != new.dtype:
        yield f"{old.dtype} → {new.dtype}"
    if old.range != new.range and old.range and new.range and not new.single:
        yield f"range {old.range} → {new.range}"
    if old.missing != new.missing:
        yield f"NaN or Inf {old.missing:,} → {new.missing:,}"


def _pairs(before: Outlines, after: Outlines) -> list[tuple[str, Outline, Outline]]:
    """What became what: by path; else what looks the same; else what is left, if that is one."""
    old, new = dict(before), dict(after)
    pairs = [(path, old.pop(path), new.pop(path)) for path in before if path in after]
    for alike in (_same, _same_shape, _same_axes, _stacked):
        for path in list(new):
            match = next((other for other in old if alike(old[other], new[path])), None)
            if match is not None:
                pairs.append((path, old.pop(match), new.pop(path)))
    if len(old) == len(new) == 1:
        ((path, last),) = new.items()
        pairs.append((path, next(iter(old.values())), last))
    return pairs


def _same(old: Outline, new: Outline) -> bool:
    return (old.shapes, old.dtypes, old.range) == (new.shapes, new.dtypes, new.range)


def _same_shape(old: Outline, new: Outline) -> bool:
    return not new.single and old.shapes == new.shapes


def _same_axes(old: Outline, new: Outline) -> bool:
    return not new.single and new.axes is not None and old.axes == new.axes


def _stacked(old: Outline, new: Outline) -> bool:
    """The same things with one axis more: what a collate function makes of samples, under names of its own."""
    rows = {shape[1:] for shape in new.shapes if shape}
    return not new.single and old.shapes.keys() == rows and old.dtypes == new.dtypes

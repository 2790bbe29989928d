"""Reports changes of shape, type, range and missing values: inside each call, and from one call to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from clew.reading.checks.evidence import Evidence, key_of, samples_of, unique
from clew.reading.checks.finding import CHANGE, Finding, listed
from clew.reading.checks.leaves import Leaf, range_text
from clew.records import Passage

_DTYPES = 3
_BACK = 16  # preceding calls of an item that are searched for its predecessor
_LEAVES = 12  # leaves per value that are compared


@dataclass(slots=True)
class Outline:
    """The shapes, types and joint range of several values that share a path."""

    shapes: dict[tuple[int, ...] | None, None] = field(default_factory=dict)
    dtypes: dict[str, None] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    missing: int = 0
    single: bool = True  # only plain numbers and texts

    def add(self, leaf: Leaf) -> None:
        self.shapes[None if leaf.is_column else leaf.shape] = None  # the leaf of the table reports the row count
        self.dtypes[leaf.dtype] = None
        self.single = self.single and not leaf.shape and not leaf.is_array
        summary = leaf.summary
        self.missing += leaf.broken
        if summary.min is not None and summary.max is not None:
            self.low = summary.min if self.low is None else min(self.low, summary.min)
            self.high = summary.max if self.high is None else max(self.high, summary.max)

    @property
    def shape(self) -> str:
        return _shapes_text(list(self.shapes))

    @property
    def dtype(self) -> str:
        names = list(self.dtypes)
        return listed(names[:_DTYPES]) if len(names) <= _DTYPES else f"{len(names)} types"

    @property
    def range(self) -> str:
        return range_text(self.low, self.high)

    @property
    def axes(self) -> Any:
        """The sorted axis lengths, if there is only one shape."""
        (shape, *further_shapes) = list(self.shapes)
        return None if further_shapes or not shape else sorted(shape)


def _shapes_text(shapes: list[tuple[int, ...] | None]) -> str:
    """`(3, 20…32, 32)` for shapes that differ in some axes."""
    known_shapes = [shape for shape in shapes if shape is not None]
    if not known_shapes:
        return ""
    if len({len(shape) for shape in known_shapes}) > 1:
        axis_counts = sorted({len(shape) for shape in known_shapes})
        return f"shapes of {listed([str(count) for count in axis_counts])} axes"
    axes = [
        f"{min(axis)}" if len(set(axis)) == 1 else f"{min(axis)}…{max(axis)}"
        for axis in zip(*known_shapes, strict=True)
    ]
    return f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"


Outlines = dict[str, Outline]


def changes(evidence: Evidence) -> Iterator[Finding]:
    """Compare the inputs of each function with its outputs and with its predecessor's, in order of first call."""
    predecessors = _predecessors(evidence)
    for (stage, function), passages in _by_function(evidence.passages).items():
        items = unique(item for passage in passages for item in passage.ids)
        inputs = _outlines(evidence, passages, of_inputs=True)
        for (before_stage, before_function), before_passages in predecessors.get((stage, function), {}).items():
            origin = before_function if before_stage == stage else f"{before_stage} · {before_function}"
            for text in _differences(_outlines(evidence, before_passages, of_inputs=False), inputs):
                yield Finding(CHANGE, "note", stage, function, items, f"since {origin}: {text}")
        for text in _differences(inputs, _outlines(evidence, passages, of_inputs=False)):
            yield Finding(CHANGE, "note", stage, function, items, text)


def _by_function(passages: Iterable[Passage]) -> dict[tuple[str, str], list[Passage]]:
    groups: dict[tuple[str, str], list[Passage]] = {}
    for passage in passages:
        groups.setdefault((passage.stage, passage.function), []).append(passage)
    return groups


Predecessors = dict[tuple[str, str], dict[tuple[str, str], list[Passage]]]


def _predecessors(evidence: Evidence) -> Predecessors:
    """For each function the functions that handled its items directly before it, with their passages."""
    predecessors: Predecessors = {}
    passages_by_item: dict[Any, list[Passage]] = {}
    counted_pairs: set[tuple[int, int]] = set()
    for passage in evidence.passages:
        enclosing = {id(above) for above in evidence.ancestors(passage)}
        for item in passage.ids or (None,):
            item_passages = passages_by_item.setdefault((passage.source if passage.ids else "", key_of(item)), [])
            before = _ended_before(passage, item_passages, enclosing)
            item_passages.append(passage)
            if before is None or (id(before), id(passage)) in counted_pairs:
                continue
            counted_pairs.add((id(before), id(passage)))
            function, before_function = (passage.stage, passage.function), (before.stage, before.function)
            if function != before_function:
                predecessors.setdefault(function, {}).setdefault(before_function, []).append(before)
    return predecessors


def _ended_before(passage: Passage, passages: list[Passage], enclosing: set[int]) -> Passage | None:
    """The last passage that ended with outputs before this one began; calls that enclose this one do not count."""
    candidates = [
        (earlier.started + earlier.duration, index)
        for index, earlier in enumerate(passages[-_BACK:])
        if earlier.duration is not None and earlier.outputs and id(earlier) not in enclosing
    ]
    candidates = [(end, index) for end, index in candidates if end <= passage.started]
    return passages[-_BACK:][max(candidates)[1]] if candidates else None


def _outlines(evidence: Evidence, passages: Iterable[Passage], *, of_inputs: bool) -> Outlines:
    outlines: Outlines = {}
    for passage in passages:
        samples = samples_of(passage) if of_inputs else None
        fields = {"": samples} if samples is not None else passage.inputs if of_inputs else passage.outputs
        for name, value in fields.items():
            # The name of an only field is dropped: the previous function may use another one.
            path = "" if len(fields) == 1 else name
            for part in value if samples is not None and value is samples else [value]:
                for leaf in evidence.leaves(part, path)[:_LEAVES]:
                    outlines.setdefault(leaf.path, Outline()).add(leaf)
    return outlines


def _differences(before: Outlines, after: Outlines) -> Iterator[str]:
    for path, old, new in _pairs(before, after):
        if old.single != new.single or "NoneType" in (old.dtype, new.dtype):
            continue  # an index became the value stored under it, or None
        text = ", ".join(_difference(old, new))
        if text:
            yield f"{path}: {text}" if path else text


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
    """Match old to new outlines: by path, then by likeness, then the last one on each side."""
    old, new = dict(before), dict(after)
    pairs = [(path, old.pop(path), new.pop(path)) for path in before if path in after]
    for are_alike in (_is_equal, _has_same_shape, _has_same_axes, _is_stacked):
        for path in list(new):
            match = next((candidate for candidate in old if are_alike(old[candidate], new[path])), None)
            if match is not None:
                pairs.append((path, old.pop(match), new.pop(path)))
    if len(old) == len(new) == 1:
        ((path, outline),) = new.items()
        pairs.append((path, next(iter(old.values())), outline))
    return pairs


def _is_equal(old: Outline, new: Outline) -> bool:
    return (old.shapes, old.dtypes, old.range) == (new.shapes, new.dtypes, new.range)


def _has_same_shape(old: Outline, new: Outline) -> bool:
    return not new.single and old.shapes == new.shapes


def _has_same_axes(old: Outline, new: Outline) -> bool:
    return not new.single and new.axes is not None and old.axes == new.axes


def _is_stacked(old: Outline, new: Outline) -> bool:
    """Whether the new one has one axis more: a collate function stacks samples, under names of its own."""
    rows = {shape[1:] for shape in new.shapes if shape}
    return not new.single and old.shapes.keys() == rows and old.dtypes == new.dtypes

"""Finds items with different ids but equal content, such as those of workers that each give the whole dataset."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

from clew.reading.checks.evidence import Evidence, key_of, make_finding, unique
from clew.reading.checks.finding import Finding, item_names, listed
from clew.reading.checks.leaves import Leaf
from clew.records import Passage

_LEAST: Final = 16  # so many numbers are not equal by chance
_MOST: Final = 1 << 24  # larger arrays are not compared
_IN_ORDER: Final = 2  # so many items in the same order in two workers are not chance
_SPLIT: Final = "Each worker gives the whole dataset: split it by `torch.utils.data.get_worker_info()`."


def equal_items(evidence: Evidence) -> Iterator[Finding]:
    finding = _repeated_streams(evidence)
    if finding is not None:
        yield finding
        return
    firsts: dict[tuple[str, str], dict[bytes, list[Passage]]] = {}
    visited: set[object] = set()
    for passage in evidence.passages:
        key = (passage.source, key_of(passage.ids[0])) if len(passage.ids) == 1 else None
        if key is None or key in visited or passage.by_row or not passage.outputs:
            continue
        visited.add(key)
        digest = _digest(evidence.outputs(passage))
        if digest is not None:
            firsts.setdefault((passage.source, passage.function), {}).setdefault(digest, []).append(passage)
    for contents in firsts.values():
        groups = [group for group in contents.values() if len(group) > 1]
        if groups:
            yield _finding_of_groups(groups, everything=len(groups) == len(contents))


def _repeated_streams(evidence: Evidence) -> Finding | None:
    """Report workers that all give the same items in the same order, however small the items are."""
    lanes: dict[tuple[str, str], dict[str, list[Passage]]] = {}
    for passage in evidence.passages:
        if passage.where.startswith("worker") and passage.function.endswith("__iter__") and len(passage.ids) == 1:
            lanes.setdefault((passage.source, passage.function), {}).setdefault(passage.where, []).append(passage)
    for workers in lanes.values():
        first, *further = workers.values()
        if further and all(_is_same_stream(evidence, first, lane) for lane in further):
            count = min(map(len, workers.values()))
            equal = [passage for lane in workers.values() for passage in lane[:count]]
            items = [passage.ids[0] for passage in sorted(equal, key=lambda passage: passage.started)]
            text = f"{item_names(items)} are equal in content: {listed(sorted(workers))} give the same in one order."
            return make_finding("equal-items", first[0], text, _SPLIT, items=items)
    return None


def _is_same_stream(evidence: Evidence, first: list[Passage], second: list[Passage]) -> bool:
    """Compare the common length of two streams; the items within one must all differ, else equality may be chance."""
    contents = [[_contents(evidence, passage) for passage in lane] for lane in (first, second)]
    count = min(map(len, contents))
    first_contents, second_contents = (lane[:count] for lane in contents)
    return (
        count >= _IN_ORDER
        and first_contents == second_contents
        and None not in first_contents
        and len(set(first_contents)) == count
    )


def _contents(evidence: Evidence, passage: Passage) -> tuple[Any, ...] | None:
    """All outputs in a comparable form; None if some cannot be compared."""
    contents: list[Any] = []
    for leaf in evidence.outputs(passage):
        array = leaf.array()
        if array is not None and not array.dtype.hasobject and array.nbytes <= _MOST:
            contents.append((leaf.path, leaf.dtype, leaf.shape, array.tobytes()))
        elif type(leaf.value) in (str, bytes, int, type(None)):
            contents.append((leaf.path, leaf.value))
        else:
            return None
    return tuple(contents) or None


def _digest(leaves: list[Leaf]) -> bytes | None:
    """A digest of the largest array, or None if it is too small, too large or constant."""
    arrays = [leaf for leaf in leaves if leaf.shape and (leaf.is_array or leaf.dtype == "list of numbers")]
    leaf = max(arrays, key=lambda leaf: leaf.size, default=None)
    if leaf is None or not _LEAST <= leaf.size <= _MOST or leaf.summary.min == leaf.summary.max:
        return None
    array = leaf.array()
    if array is None or array.dtype.hasobject:
        return None
    return blake2b(array.tobytes(), digest_size=16, key=str((leaf.dtype, leaf.shape)).encode()[:64]).digest()


def _finding_of_groups(groups: list[list[Passage]], everything: bool) -> Finding:
    items = unique(passage.ids[0] for group in groups for passage in group)
    workers = [{passage.where for passage in group} for group in groups]
    in_several_workers = all(
        len(places) > 1 and all(place.startswith("worker") for place in places) for places in workers
    )
    text = f"{item_names(items)} are equal in content"
    if in_several_workers and everything:
        names = listed(sorted(set().union(*workers)))
        text = f"{text}: every one came from {names} alike."
        return make_finding("equal-items", groups[0][0], text, _SPLIT, items=items)
    pairs = "" if len(groups) == 1 else f", in {len(groups):,} groups"
    return make_finding("equal-items", groups[0][0], f"{text}{pairs}.", level="note", items=items)

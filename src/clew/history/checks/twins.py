"""Items of different names and the same content: workers that each give the whole dataset are found by this alone."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

from clew.history.checks.finding import Finding, item_names, listed
from clew.history.checks.leaf import Leaf
from clew.history.checks.seen import Seen, found, key_of, unique
from clew.records import Passage

_LEAST: Final = 16  # numbers that are not the same by chance
_MOST: Final = 1 << 24  # more are not compared
_IN_ORDER: Final = 2  # items of two workers, from which on it is no chance that they are the same ones
_SPLIT: Final = "Each worker gives the whole dataset: split it by `torch.utils.data.get_worker_info()`."


def twins(seen: Seen) -> Iterator[Finding]:
    again = _streams_again(seen)
    if again is not None:
        yield again
        return
    firsts: dict[tuple[str, str], dict[bytes, list[Passage]]] = {}
    known: set[object] = set()
    for passage in seen.passages:
        key = (passage.source, key_of(passage.ids[0])) if len(passage.ids) == 1 else None
        if key is None or key in known or passage.by_row or not passage.outputs:
            continue
        known.add(key)
        digest = _digest(seen.outputs(passage))
        if digest is not None:
            firsts.setdefault((passage.source, passage.function), {}).setdefault(digest, []).append(passage)
    for contents in firsts.values():
        groups = [group for group in contents.values() if len(group) > 1]
        if groups:
            yield _told(groups, everything=len(groups) == len(contents))


def _streams_again(seen: Seen) -> Finding | None:
    """Workers of which each gives what the first one gives, in the same order, however small the items are."""
    lanes: dict[tuple[str, str], dict[str, list[Passage]]] = {}
    for passage in seen.passages:
        if passage.where.startswith("worker") and passage.function.endswith("__iter__") and len(passage.ids) == 1:
            lanes.setdefault((passage.source, passage.function), {}).setdefault(passage.where, []).append(passage)
    for workers in lanes.values():
        first, *others = workers.values()
        if others and all(_is_same_stream(seen, first, one) for one in others):
            count = min(map(len, workers.values()))
            equal = [passage for lane in workers.values() for passage in lane[:count]]
            items = [passage.ids[0] for passage in sorted(equal, key=lambda passage: passage.started)]
            text = f"{item_names(items)} are equal in content: {listed(sorted(workers))} give the same in one order."
            return found("equal-items", first[0], text, _SPLIT, items=items)
    return None


def _is_same_stream(seen: Seen, one: list[Passage], other: list[Passage]) -> bool:
    """As far as both go; two equal items may be chance, but not if all of them are different ones."""
    contents = [[_contents(seen, passage) for passage in lane] for lane in (one, other)]
    count = min(map(len, contents))
    mine, theirs = (lane[:count] for lane in contents)
    return count >= _IN_ORDER and mine == theirs and None not in mine and len(set(mine)) == count


def _contents(seen: Seen, passage: Passage) -> tuple[Any, ...] | None:
    """Everything in it, as something that can be compared."""
    found_: list[Any] = []
    for leaf in seen.outputs(passage):
        array = leaf.array()
        if array is not None and not array.dtype.hasobject and array.nbytes <= _MOST:
            found_.append((leaf.path, leaf.dtype, leaf.shape, array.tobytes()))
        elif type(leaf.value) in (str, bytes, int, type(None)):
            found_.append((leaf.path, leaf.value))
        else:
            return None
    return tuple(found_) or None


def _digest(leaves: list[Leaf]) -> bytes | None:
    """Of the largest array, if it says something."""
    arrays = [leaf for leaf in leaves if leaf.shape and (leaf.is_array or leaf.dtype == "list of numbers")]
    leaf = max(arrays, key=lambda one: one.size, default=None)
    if leaf is None or not _LEAST <= leaf.size <= _MOST or leaf.summary.min == leaf.summary.max:
        return None
    array = leaf.array()
    if array is None or array.dtype.hasobject:
        return None
    return blake2b(array.tobytes(), digest_size=16, key=str((leaf.dtype, leaf.shape)).encode()[:64]).digest()


def _told(groups: list[list[Passage]], everything: bool) -> Finding:
    items = unique(passage.ids[0] for group in groups for passage in group)
    workers = [{passage.where for passage in group} for group in groups]
    apart = all(len(wheres) > 1 and all(where.startswith("worker") for where in wheres) for wheres in workers)
    text = f"{item_names(items)} are equal in content"
    if apart and everything:
        named = listed(sorted(set().union(*workers)))
        text = f"{text}: every one came from {named} alike."
        return found("equal-items", groups[0][0], text, _SPLIT, items=items)
    pairs = "" if len(groups) == 1 else f", in {len(groups):,} groups"
    return found("equal-items", groups[0][0], f"{text}{pairs}.", level="note", items=items)

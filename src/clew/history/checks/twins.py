"""Items of different names and the same content: workers that each give the whole dataset are found by this alone."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from clew.history.checks.finding import Finding, item_names, listed
from clew.history.checks.leaf import Leaf
from clew.history.checks.seen import Seen, found, key_of, unique
from clew.records import Passage

_LEAST: Final = 16  # numbers that are not the same by chance
_MOST: Final = 1 << 24  # more are not compared


def twins(seen: Seen) -> Iterator[Finding]:
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
        remedy = "Each worker gives the whole dataset: split it by `torch.utils.data.get_worker_info()`."
        return found("equal-items", groups[0][0], text, remedy, items=items)
    pairs = "" if len(groups) == 1 else f", in {len(groups):,} groups"
    return found("equal-items", groups[0][0], f"{text}{pairs}.", level="note", items=items)

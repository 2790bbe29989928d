"""Passes over a torch loader: where the program stands when one begins, and how long the loader would have been."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from clew.probes.pipeline.trace_recording import Tracing

_DEEPEST = 64

Place = tuple[tuple[CodeType, int], ...]


def place_in_program() -> Place:
    """The lines of all calls that are going on here: a second round of the same loop begins at the same ones."""
    found: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < _DEEPEST:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def length_of(things: Any) -> int | None:
    try:
        return len(things)
    except Exception:  # it has none, or the user's fails
        return None


def tell_length(tracing: Tracing, loader: DataLoader[Any], source: str) -> None:
    if tracing.wanted is None:
        return
    batches = loader.batch_sampler if loader._auto_collation else None
    size = getattr(batches, "batch_size", None)
    drawn = getattr(batches, "sampler", None) if type(batches) is BatchSampler else loader.sampler
    total = length_of(loader.dataset if isinstance(loader.dataset, IterableDataset) else drawn)
    if isinstance(loader.sampler, BatchSampler) or (batches is not None and type(batches) is not BatchSampler):
        total = None  # it counts batches, of whatever size
    if total is not None and size is not None and loader.drop_last:
        total -= total % size
    if total is not None and total <= tracing.wanted and tracing.batch_size is None:
        return
    of = f" of {total:,}" if total is not None else ""
    told = f"the loader of {source} gives {tracing.wanted:,}{of} items"
    if size is not None and tracing.batch_size not in (None, size):
        told += f", in batches of {tracing.batch_size} instead of {size}"
    elif size is not None and tracing.wanted % size:
        told += f", the last batch of {tracing.wanted % size} instead of {size}"
    tracing.altered(told)

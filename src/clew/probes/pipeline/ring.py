"""The last batch in every stage, held in memory until something fails."""

from __future__ import annotations

from collections import deque
from typing import Any

from .staged import StagedCall

BATCHES = 2  # loops of some frameworks take a batch ahead: the one that fails may be the one before the last


class Ring:
    """The calls of the last batches (or of the last items, where there are no batches)."""

    def __init__(self) -> None:
        self._calls: dict[Any, deque[StagedCall]] = {}

    def add(self, call: StagedCall) -> None:
        key = key_of(call)
        calls = self._calls.get(key)
        if calls is None:
            calls = self._calls[key] = deque()
            while len(self._calls) > BATCHES:
                del self._calls[next(iter(self._calls))]
        calls.append(call)

    @property
    def batches(self) -> set[int]:
        """The numbers of the batches it holds."""
        return {key[1] for key in self._calls if key[0] == "batch"}

    @property
    def size(self) -> int:
        """Bytes of arrays in it."""
        return sum(call.size for calls in self._calls.values() for call in calls)

    def shown(self) -> list[StagedCall]:
        """What is in it now."""
        return [call for calls in list(self._calls.values()) for call in list(calls)]

    def taken(self, failed: StagedCall | None) -> list[StagedCall]:
        """What is to be written when something has failed: the batch that failed, if that is known; else all."""
        key = key_of(failed) if failed is not None else None
        chosen = {key: self._calls[key]} if key in self._calls else self._calls
        calls = [call for found in chosen.values() for call in found]
        self._calls = {}
        return sorted(calls, key=lambda call: call.started)


def key_of(call: StagedCall) -> tuple[str, Any]:
    batch = call.meta.get("batch")
    if batch is not None:
        return "batch", batch
    return "items", (call.meta.get("source"), repr(call.meta.get("ids")))

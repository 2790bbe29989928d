"""The last batch in every stage, held in memory until something fails."""

from __future__ import annotations

from collections import deque
from typing import Any

from .flow import Who
from .passage import StagedCall

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

    def holds(self, who: Who) -> bool:
        """Whether these items, or the batch they are in, are in it."""
        return _key(who.batch, who.source, who.ids) in self._calls

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
    return _key(call.meta.get("batch"), call.meta.get("source", ""), tuple(call.meta.get("ids", ())))


def _key(batch: int | None, source: str, ids: tuple[Any, ...]) -> tuple[str, Any]:
    return ("batch", batch) if batch is not None else ("items", (source, repr(ids)))

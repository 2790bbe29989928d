"""Caches results that later answers may reuse, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, TypeVar

import numpy as np

LARGEST = 512 << 20
_SMALL = 100  # bytes counted for any object of unknown size
_SAMPLE = 50  # members of a container that are measured; the others are assumed to be similar

T = TypeVar("T")


class Cache:
    """Keeps the most recently used results within `limit` bytes; a single larger one may stay."""

    def __init__(self, limit: int = LARGEST) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result under the key; computed if it is not cached."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                cached: T = entry[0]
                return cached
        result = make()
        self._store(key, result)
        return result

    def _store(self, key: Hashable, result: Any) -> None:
        size = weight(result)
        with self._lock:
            self._drop(key)
            self._entries[key] = result, size
            self.size += size
            while self.size > self._limit and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))

    def forget(self, matches: Callable[[Any], bool]) -> None:
        """Drop every entry whose key matches."""
        with self._lock:
            for key in [key for key in self._entries if matches(key)]:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= entry[1]


def weight(value: Any) -> int:
    """The approximate size in bytes: that of arrays and texts, including those in containers."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + _SMALL
    if isinstance(value, (str, bytes)):
        return len(value) + _SMALL
    if isinstance(value, (dict, list, tuple)):
        sample = list(islice(value.values() if isinstance(value, dict) else value, _SAMPLE))
        return _SMALL + sum(map(weight, sample)) * len(value) // max(len(sample), 1)
    fields = [*getattr(type(value), "__slots__", ()), *getattr(value, "__dict__", ())]
    return _SMALL + sum(weight(getattr(value, name, None)) for name in fields if not name.startswith("_"))

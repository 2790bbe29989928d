"""What was computed for one answer and may serve the next, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, TypeVar

import numpy as np

LARGEST = 512 << 20
_SMALL = 100  # bytes counted for anything whose size is not known
_SAMPLE = 50  # members of a container that are weighed; the others are taken to be like them

T = TypeVar("T")


class Cache:
    """The latest used stay; together they are never larger than `limit`, but for a single one that is."""

    def __init__(self, limit: int = LARGEST) -> None:
        self._limit = limit
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is held under the key; made, if it is not."""
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
                found: T = held[0]
                return found
        made = make()
        self._put(key, made)
        return made

    def _put(self, key: Hashable, made: Any) -> None:
        size = weight(made)
        with self._lock:
            self._drop(key)
            self._held[key] = made, size
            self.size += size
            while self.size > self._limit and len(self._held) > 1:
                self._drop(next(iter(self._held)))

    def forget(self, belongs: Callable[[Any], bool]) -> None:
        """Let go of everything whose key belongs to something that is no more."""
        with self._lock:
            for key in [key for key in self._held if belongs(key)]:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.size -= held[1]


def weight(made: Any) -> int:
    """Bytes, as far as they count: those of arrays and texts, inside what holds them."""
    if isinstance(made, np.ndarray):
        return int(made.nbytes) + _SMALL
    if isinstance(made, (str, bytes)):
        return len(made) + _SMALL
    if isinstance(made, (dict, list, tuple)):
        some = list(islice(made.values() if isinstance(made, dict) else made, _SAMPLE))
        return _SMALL + sum(map(weight, some)) * len(made) // max(len(some), 1)
    fields = [*getattr(type(made), "__slots__", ()), *getattr(made, "__dict__", ())]
    return _SMALL + sum(weight(getattr(made, name, None)) for name in fields if not name.startswith("_"))

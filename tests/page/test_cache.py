"""What serves the next answer, bounded in bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clew.page.cache import Cache, weight


def test_what_is_held_is_not_made_again() -> None:
    cache, computed = Cache(), []
    for _ in range(3):
        cache.get("a", lambda: computed.append(1) or "x")
    assert computed == [1]


def test_the_longest_unused_goes_first() -> None:
    cache = Cache(limit=30_000)
    for key in "abc":
        cache.get(key, lambda: np.zeros(1_000))
        cache.get("a", lambda: np.ones(1_000))
    cache.get("d", lambda: np.zeros(1_000))
    computed = []
    for key in "adb":
        cache.get(key, lambda: computed.append(key) or np.zeros(1))
    assert computed == ["b"]
    assert cache.size <= 30_000


def test_one_that_is_too_large_is_still_given() -> None:
    cache = Cache(limit=10)
    assert cache.get("a", lambda: np.arange(100)).sum() == 4950


def test_entries_of_vanished_runs_are_dropped() -> None:
    cache = Cache()
    cache.get(("run", 1), lambda: 1)
    cache.get(("other", 1), lambda: 1)
    cache.forget(lambda key: key[0] == "run")
    assert cache.get(("run", 1), lambda: 2) == 2
    assert cache.get(("other", 1), lambda: 2) == 1


def test_arrays_weigh_what_they_are_wherever_they_are_held() -> None:
    @dataclass(slots=True)
    class Held:
        x: np.ndarray

    for held in (np.zeros(1_000), [np.zeros(1_000)], {"a": (np.zeros(1_000),)}, Held(np.zeros(1_000))):
        assert 8_000 <= weight(held) < 9_000

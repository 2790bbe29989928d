"""A NumPy array of 4 MB that one line in ten changes: how quickly is it known that nothing has changed?"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Measure, compare, duration, table, timed, times

ROUNDS = 20
LINES = 10
TITLE = "A 4 MB array, changed by one line in ten"


def nothing(array: Any) -> None:
    """A call that might change the array, and does not."""


def work(array: Any, rounds: int) -> None:
    for i in range(rounds):
        array[i] += 1.0
        nothing(array)
        nothing(array)
        nothing(array)
        nothing(array)
        nothing(array)
        nothing(array)
        nothing(array)
        nothing(array)
        nothing(array)


def by_hand(same: Callable[[Any, Any], bool]) -> Callable[[Any, int], Any]:
    """One comparison with a kept copy after each line, and a new copy when it differs."""

    def work_by_hand(array: Any, rounds: int) -> list[Any]:
        kept = [array.copy()]
        for i in range(rounds):
            array[i] += 1.0
            if not same(array, kept[-1]):
                kept.append(array.copy())
            for _ in range(LINES - 1):
                nothing(array)
                if not same(array, kept[-1]):
                    kept.append(array.copy())
        return kept

    return work_by_hand


_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def memory_comparison(a: Any, b: Any) -> bool:
    return bool(_memcmp(a.ctypes.data, b.ctypes.data, a.nbytes) == 0)


def _measure(function: Callable[[Any, int], Any]) -> Measure:
    import numpy as np

    array = np.random.default_rng(0).random(4 * 2**20 // 8)
    return lambda: timed(lambda: function(array, ROUNDS)) / (ROUNDS * LINES)


def memcmp() -> Measure:
    return _measure(by_hand(memory_comparison))


def array_equal() -> Measure:
    import numpy as np

    return _measure(by_hand(np.array_equal))


def clew_stored() -> Measure:
    """The function alone, its run open, while what it has recorded is being written."""
    import numpy as np

    import clew

    watched = clew.watch("array")(work)
    array = np.random.default_rng(0).random(4 * 2**20 // 8)

    def measure() -> float:
        with clew.run("bench") as run:
            seconds = timed(lambda: watched(array, ROUNDS))
        shutil.rmtree(str(run.path))
        return seconds / (ROUNDS * LINES)

    return measure


CONTENDERS = {
    "memcmp a line, by hand": memcmp,
    "np.array_equal a line, by hand": array_equal,
    "clew, stored": clew_stored,
}
NOTES = {"clew, stored": "≤ 1 ×"}


def report(repeats: int, pythons: list[str]) -> str:
    result = compare(__name__, CONTENDERS, repeats=repeats)
    first = next(iter(CONTENDERS))
    rows = [
        (name, duration(result.median(name)), times(result.ratio(name, first)), NOTES.get(name, ""))
        for name in CONTENDERS
    ]
    return table(["", "a line", "memcmp", "to reach"], rows)

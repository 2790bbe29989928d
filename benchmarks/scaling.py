"""How the cost grows: with the number of watched names, the size of a watched list, and the number of changes."""

from __future__ import annotations

import linecache
import shutil
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Contender, Measure, compare, duration, table, timed, times

TITLE = "How the cost grows"

NAMES = (1, 2, 5, 10, 20, 50)
ITEMS = (10, 100, 1_000, 10_000, 100_000)
CHANGES = (10_000, 100_000, 1_000_000, 10_000_000)
MOST = max(NAMES)
ROUNDS = 20_000
FILE = "<benchmarks.scaling>"


def many_names() -> Callable[[int], Any]:
    """A loop that binds fifty names, of which some will be watched."""
    lines = ["def loop(rounds):", "    for i in range(rounds):", *(f"        x{n} = i + {n}.5" for n in range(MOST))]
    source = "\n".join(lines) + "\n"
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)  # where clew finds the source
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, FILE, "exec"), scope)
    function: Callable[[int], Any] = scope["loop"]
    return function


def change_items(items: list[int], rounds: int) -> None:
    for i in range(rounds):
        len(items)
        items[i % 10] = i


def add_up(rounds: int) -> float:
    total = 0.0
    for _ in range(rounds):
        total = total + 0.5
    return total


def stored(function: Callable[..., Any], names: tuple[str, ...], *args: Any, per: int) -> Measure:
    """From opening the run to its being closed, divided by the amount of work."""
    import clew

    watched = clew.watch(*names)(function)

    def measure() -> float:
        runs = []

        def whole_run() -> None:
            with clew.run("bench") as run:
                watched(*args)
            runs.append(run)

        seconds = timed(whole_run)
        shutil.rmtree(str(runs[0].path))
        return seconds / per

    return measure


def names(count: int) -> Contender:
    return lambda: stored(many_names(), tuple(f"x{n}" for n in range(count)), ROUNDS, per=ROUNDS)


def unwatched() -> Measure:
    loop = many_names()
    return lambda: timed(lambda: loop(ROUNDS)) / ROUNDS


def size(count: int) -> Contender:
    rounds = max(20, 200_000 // count // 10)
    return lambda: stored(change_items, ("items",), list(range(count)), rounds, per=2 * rounds)


def number(count: int) -> Contender:
    return lambda: stored(add_up, ("total",), count, per=count)


CONTENDERS: dict[str, Contender] = {
    "names 0": unwatched,
    **{f"names {count}": names(count) for count in NAMES},
    **{f"items {count}": size(count) for count in ITEMS},
    **{f"changes {count}": number(count) for count in CHANGES},
}


def report(repeats: int, pythons: list[str]) -> str:
    return "\n\n".join([_names(repeats), _items(repeats), _changes(max(3, repeats // 2))])


def _names(repeats: int) -> str:
    result = compare(__name__, [f"names {n}" for n in (0, *NAMES)], repeats=repeats)
    base = result.median("names 0")
    rows = [
        (n, times(result.ratio(f"names {n}", "names 0")), duration((result.median(f"names {n}") - base) / n))
        for n in NAMES
    ]
    return table([f"names watched, of {MOST} that a loop binds", "untraced", "more, a change"], rows)


def _items(repeats: int) -> str:
    result = compare(__name__, [f"items {n}" for n in ITEMS], repeats=repeats)
    rows = [(f"{n:,}", duration(result.median(f"items {n}")), duration(result.median(f"items {n}") / n)) for n in ITEMS]
    return table(["items of a watched list that every second line changes", "a line", "a line and item"], rows)


def _changes(repeats: int) -> str:
    result = compare(__name__, [f"changes {n}" for n in CHANGES], repeats=repeats)
    rows = [
        (f"{n:,}", duration(result.median(f"changes {n}") * n), duration(result.median(f"changes {n}")))
        for n in CHANGES
    ]
    return table(["changes of a float, stored", "the whole run", "a change"], rows)

"""Two runs laid side by side: what belongs together, and what came of comparing it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.compare.calls import pair_calls
from clew.compare.ends import Calls, even_out
from clew.compare.judge import BY_A, Judge, Progress, places_of
from clew.compare.noise import Noise
from clew.compare.rows import pair_rows
from clew.compare.settings import EXACT, Names, Settings, spellings
from clew.compare.side import ARGS, ERROR, OUT, RESULT, Side
from clew.compare.words import Words
from clew.errors import OptionError, UnknownNameError, nearest
from clew.show.text import brief

if TYPE_CHECKING:
    from clew.compare.side import Ints
    from clew.history.run import Run


_SHORT = 256  # bits of an integer that is told as it is


class Comparison:
    """Everything `Diff` answers from. Differences are in the order of time of the first run."""

    def __init__(self, a: Run, b: Run, reference: Run | None, settings: Settings, progress: Progress | None) -> None:
        self.settings = settings
        words, names = Words(), Names(settings.map)
        self.a, self.b = Side(a, words, settings, names), Side(b, words, settings, Names({}))
        self.noise: Noise | None = None
        self.reference = reference
        if reference is not None:
            self.noise = self._noise(Side(reference, words, settings, names), progress)
        _check_words(self.a, self.b, settings, names)
        self.idle = _idle_patterns(self.a, self.b, settings)
        self.calls = pair_calls(self.a, self.b)
        even_out(self.a, self.b, self.calls)
        self.functions = self.a.function[self.calls.a]  # by pair
        rows = pair_rows(self.a, self.b, self.calls)
        self.only_rows = rows.only_a, rows.only_b
        judge = Judge(self.a, self.b, rows, self.functions, settings, self.noise, progress)
        self.verdict = judge.judge()
        self._sort()

    def _noise(self, again: Side, progress: Progress | None) -> Noise:
        exact = Settings(EXACT, self.settings.ignore, self.settings.only, self.settings.map)
        calls, before = pair_calls(self.a, again), self.a.extra
        even_out(self.a, again, calls)
        functions = self.a.function[calls.a]
        verdict = Judge(self.a, again, pair_rows(self.a, again, calls), functions, exact, None, progress).judge()
        self.a.extra = before
        self.a.__dict__.pop("marks", None)
        return Noise(verdict, functions, self.settings.factor)

    def _sort(self) -> None:
        found = self.verdict
        self.times = self.a.cells("time", np.sort(found.at))[np.argsort(np.argsort(found.at, kind="stable"))]
        self._time_held()
        order = np.lexsort((found.held != BY_A, found.at, self.times))
        self.times = self.times[order]
        for name in ("a", "b", "pair", "token", "at", "magnitude", "held"):
            setattr(found, name, getattr(found, name)[order])

    def _time_held(self) -> None:
        """What only the second run changed was, in the first, after the calls that the second had made by then."""
        found = self.verdict
        held = np.flatnonzero(found.held == BY_A)
        if len(held) == 0:
            return
        calls = Calls(self.a, self.b, self.calls)
        rows = found.b[held]
        order = np.argsort(rows, kind="stable")
        own, times = self.b.call_of(rows[order]), self.b.cells("time", rows[order])
        for place, call, time in zip(held[order].tolist(), own.tolist(), times.tolist(), strict=True):
            self.times[place] = max(int(self.times[place]), calls.over(call, time) + 1)

    def __len__(self) -> int:
        return len(self.verdict.a)

    @cached_property
    def first_in_call(self) -> Ints:
        """By call of the first run: the number of its first difference; the count of all if it has none."""
        out = np.full(len(self.a), len(self), np.int64)
        np.minimum.at(out, self.calls.a[self.verdict.pair], np.arange(len(self)))
        return out

    @cached_property
    def by_pair(self) -> tuple[Ints, Ints]:
        """The pairs of calls of the differences, sorted, and the differences in that order."""
        order = np.argsort(self.verdict.pair, kind="stable")
        return self.verdict.pair[order], order

    @cached_property
    def _by_row(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.verdict.a, kind="stable")
        return self.verdict.a[order], order

    def differs(self, a: int, b: int) -> bool:
        """Whether these two rows were found to differ."""
        rows, order = self._by_row
        begin, end = np.searchsorted(rows, [a, a + 1])
        return bool((self.verdict.b[order[begin:end]] == b).any())

    def in_pair(self, pair: int) -> Ints:
        """The differences in one pair of calls, in order."""
        pairs, order = self.by_pair
        begin, end = np.searchsorted(pairs, [pair, pair + 1])
        return order[begin:end]

    def noise_at(self, index: int) -> float | None:
        """The noise of the place of a difference; None if it is not known."""
        if self.noise is None:
            return None
        found = self.verdict
        places = places_of(self.functions[found.pair[index : index + 1]], found.token[index : index + 1])
        noise = float(self.noise.at(places, found.at[index : index + 1])[0])
        return None if noise != noise else noise

    def token_name(self, token: int) -> tuple[str, str]:
        """(role, name)."""
        role, name = self.a.words.tokens.name(token)
        return str(role), str(name)


def rows_of_call(side: Side, call: int) -> Ints:
    """The wanted rows of a call, in the order they were written; those beyond the last among them."""
    rows = np.flatnonzero(side.call == call)
    rows = rows[side.token[rows] != OUT]
    return np.concatenate([rows, np.flatnonzero(side.extra.call == call) + len(side.table)])


def _check_words(a: Side, b: Side, settings: Settings, names: Names) -> None:
    """A pattern or a name that means nothing in either run is a slip of the pen."""
    known: dict[str, None] = {}
    for side in (a, b):
        for shard in side.table.shards:
            known.update(dict.fromkeys(site.name for site in shard.sites.values() if site.role == "value"))
            known.update(dict.fromkeys(function.name for function in shard.functions.values()))
    side_tokens = [side.token for side in (a, b)]  # naming happens here: `names.used` is complete after it
    for old in settings.map:
        if old not in names.used:
            what = f"map= says what `{old}` is called, and the first run has no such name;"
            raise UnknownNameError("diff-unknown", what, nearest(old, known))
    left = any(bool((tokens >= 0).any()) for tokens in side_tokens) or any(len(side.extra.token) for side in (a, b))
    if known and not left:
        if settings.only:
            what = f"only={', '.join(settings.only)} leaves nothing to compare;"
            raise UnknownNameError("diff-unknown", what, nearest(settings.only[0], known))
        if settings.ignore and any(len(side.table) for side in (a, b)):
            what = f"ignore={', '.join(settings.ignore)} leaves nothing to compare."
            raise OptionError("bad-option", what, "Ignore less.")


def _idle_patterns(a: Side, b: Side, settings: Settings) -> list[str]:
    """Patterns that fit nothing in either run."""
    left = {*settings.only, *settings.ignore}
    for side in (a, b):
        for shard in side.table.shards if left else ():
            named = {(site.name, shard.functions[site.function].name) for site in shard.sites.values()}
            named |= {(name, one.name) for one in shard.functions.values() for name in (ARGS, RESULT, ERROR)}
            texts = {text for pair in named for text in spellings(*pair)}
            left = {pattern for pattern in left if not any(fnmatchcase(text, pattern) for text in texts)}
    return sorted(left)


def plain(value: Any) -> Any:
    """Numbers JSON has no word for, as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (str, float, bool, type(None))) or (isinstance(value, int) and value.bit_length() <= _SHORT):
        return value
    return brief(value, 200)


def told_step(step: Any) -> Any:
    """A step as plain data: a number or a text as it is, anything else in a few words. It may be any value."""
    return plain(step) if type(step) in (int, float, str, bool) or step is None else brief(step, 200)


__all__ = ["Comparison", "plain", "rows_of_call", "told_step"]

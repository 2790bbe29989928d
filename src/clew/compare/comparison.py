"""Compares two runs: pairs their calls and values, judges the pairs, and sorts the differences by time."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.compare.call_ends import EndTimes, add_missing_error_rows
from clew.compare.call_pairs import pair_calls
from clew.compare.judge import BY_A, Judge, Progress, places_of
from clew.compare.noise import Noise
from clew.compare.row_pairs import pair_rows
from clew.compare.settings import EXACT, Names, Settings, spellings
from clew.compare.side import ARGS, ERROR, OUT, RESULT, Side
from clew.compare.vocabularies import Vocabularies
from clew.errors import OptionError, UnknownNameError, nearest
from clew.text.brief import brief

if TYPE_CHECKING:
    from clew.compare.side import Ints
    from clew.reading.run import Run


_LONGEST_INTEGER = 256  # bits; longer integers are shortened as text


class Comparison:
    """All results that `Diff` answers from. Differences are in the first run's order of time."""

    def __init__(self, a: Run, b: Run, reference: Run | None, settings: Settings, progress: Progress | None) -> None:
        self.settings = settings
        vocabularies, names = Vocabularies(), Names(settings.map)
        self.a, self.b = Side(a, vocabularies, settings, names), Side(b, vocabularies, settings, Names({}))
        self.noise: Noise | None = None
        self.reference = reference
        if reference is not None:
            self.noise = self._measure_noise(Side(reference, vocabularies, settings, names), progress)
        _check_names(self.a, self.b, settings, names)
        self.unmatched_patterns = _unmatched_patterns(self.a, self.b, settings)
        self.calls = pair_calls(self.a, self.b)
        add_missing_error_rows(self.a, self.b, self.calls)
        self.functions = self.a.function[self.calls.a]  # by pair
        rows = pair_rows(self.a, self.b, self.calls)
        self.only_rows = rows.only_a, rows.only_b
        judge = Judge(self.a, self.b, rows, self.functions, settings, self.noise, progress)
        self.verdict = judge.judge()
        self._sort_by_time()

    def _measure_noise(self, reference: Side, progress: Progress | None) -> Noise:
        exact = Settings(EXACT, self.settings.ignore, self.settings.only, self.settings.map)
        calls, extra = pair_calls(self.a, reference), self.a.extra
        add_missing_error_rows(self.a, reference, calls)
        functions, rows = self.a.function[calls.a], pair_rows(self.a, reference, calls)
        verdict = Judge(self.a, reference, rows, functions, exact, None, progress).judge()
        self.a.extra = extra
        self.a.__dict__.pop("marks", None)
        return Noise(verdict, functions, self.settings.factor)

    def _sort_by_time(self) -> None:
        verdict = self.verdict
        self.times = self.a.cells("time", np.sort(verdict.at))[np.argsort(np.argsort(verdict.at, kind="stable"))]
        self._adjust_times_of_held_values()
        order = np.lexsort((verdict.held_by != BY_A, verdict.at, self.times))
        self.times = self.times[order]
        for name in ("a", "b", "pair", "token", "at", "magnitude", "held_by"):
            setattr(verdict, name, getattr(verdict, name)[order])

    def _adjust_times_of_held_values(self) -> None:
        """A change that only the second run made comes, in the first, after the calls the second had ended by then."""
        differences = np.flatnonzero(self.verdict.held_by == BY_A)
        if len(differences) == 0:
            return
        end_times = EndTimes(self.a, self.b, self.calls)
        rows = self.verdict.b[differences]
        order = np.argsort(rows, kind="stable")
        calls, times = self.b.call_of(rows[order]), self.b.cells("time", rows[order])
        for index, call, time in zip(differences[order].tolist(), calls.tolist(), times.tolist(), strict=True):
            self.times[index] = max(int(self.times[index]), end_times.last_end_before(call, time) + 1)

    def __len__(self) -> int:
        return len(self.verdict.a)

    @cached_property
    def first_in_call(self) -> Ints:
        """By call of the first run: the index of its first difference; the count of all differences if it has none."""
        indices = np.full(len(self.a), len(self), np.int64)
        np.minimum.at(indices, self.calls.a[self.verdict.pair], np.arange(len(self)))
        return indices

    @cached_property
    def _by_pair(self) -> tuple[Ints, Ints]:
        """The pairs of calls that have differences, sorted, and the differences in that order."""
        order = np.argsort(self.verdict.pair, kind="stable")
        return self.verdict.pair[order], order

    @cached_property
    def _by_row(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.verdict.a, kind="stable")
        return self.verdict.a[order], order

    def differs(self, a: int, b: int) -> bool:
        """Whether these two rows differ."""
        rows, order = self._by_row
        begin, end = np.searchsorted(rows, [a, a + 1])
        return bool((self.verdict.b[order[begin:end]] == b).any())

    def in_pair(self, pair: int) -> Ints:
        """The differences in one pair of calls, in order."""
        pairs, order = self._by_pair
        begin, end = np.searchsorted(pairs, [pair, pair + 1])
        return order[begin:end]

    def noise_at(self, index: int) -> float | None:
        """The noise at the place of a difference; None if it is unknown."""
        if self.noise is None:
            return None
        verdict, one = self.verdict, slice(index, index + 1)
        places = places_of(self.functions[verdict.pair[one]], verdict.token[one])
        noise = float(self.noise.at(places, verdict.at[one])[0])
        return None if noise != noise else noise

    def token_name(self, token: int) -> tuple[str, str]:
        """The role and name of a token."""
        role, name = self.a.vocabularies.tokens.name(token)
        return str(role), str(name)


def rows_of_call(side: Side, call: int) -> Ints:
    """The compared rows of a call, in the order they were written; extra rows come last."""
    rows = np.flatnonzero(side.call == call)
    rows = rows[side.token[rows] != OUT]
    return np.concatenate([rows, np.flatnonzero(side.extra.call == call) + len(side.table)])


def _check_names(a: Side, b: Side, settings: Settings, names: Names) -> None:
    """Refuse names and patterns that occur in neither run: they are typing errors."""
    existing_names: dict[str, None] = {}
    for side in (a, b):
        for shard in side.table.shards:
            existing_names.update(dict.fromkeys(site.name for site in shard.sites.values() if site.role == "value"))
            existing_names.update(dict.fromkeys(function.name for function in shard.functions.values()))
    side_tokens = [side.token for side in (a, b)]  # `names.used` is complete only once the tokens are made
    for old in settings.map:
        if old not in names.used:
            message = f"map= renames `{old}`, but the first run has no such name;"
            raise UnknownNameError("diff-unknown", message, nearest(old, existing_names))
    has_values = any(bool((tokens >= 0).any()) for tokens in side_tokens) or any(
        len(side.extra.token) for side in (a, b)
    )
    if existing_names and not has_values:
        if settings.only:
            message = f"only={', '.join(settings.only)} leaves nothing to compare;"
            raise UnknownNameError("diff-unknown", message, nearest(settings.only[0], existing_names))
        if settings.ignore and any(len(side.table) for side in (a, b)):
            message = f"ignore={', '.join(settings.ignore)} leaves nothing to compare."
            raise OptionError("bad-option", message, "Ignore fewer names.")


def _unmatched_patterns(a: Side, b: Side, settings: Settings) -> list[str]:
    """Patterns of `only` and `ignore` that match nothing in either run."""
    patterns = {*settings.only, *settings.ignore}
    for side in (a, b):
        for shard in side.table.shards if patterns else ():
            names = {(site.name, shard.functions[site.function].name) for site in shard.sites.values()}
            names |= {(name, function.name) for function in shard.functions.values() for name in (ARGS, RESULT, ERROR)}
            texts = {text for pair in names for text in spellings(*pair)}
            patterns = {pattern for pattern in patterns if not any(fnmatchcase(text, pattern) for text in texts)}
    return sorted(patterns)


def json_value(value: Any) -> Any:
    """A value that JSON can hold; NaN, infinities and anything JSON has no form for become text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (str, float, bool, type(None))) or (
        isinstance(value, int) and value.bit_length() <= _LONGEST_INTEGER
    ):
        return value
    return brief(value, 200)


def json_step(step: Any) -> Any:
    """A step that JSON can hold: a number or a text as it is, any other value shortened to a text."""
    return json_value(step) if type(step) in (int, float, str, bool) or step is None else brief(step, 200)


__all__ = ["Comparison", "json_step", "json_value", "rows_of_call"]

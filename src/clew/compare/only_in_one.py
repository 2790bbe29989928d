"""Lists calls and values that only one of the runs has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.compare.comparison import json_step
from clew.compare.difference import WHAT
from clew.compare.side import ERROR

if TYPE_CHECKING:
    from clew.compare.comparison import Comparison
    from clew.compare.side import Ints, Side


_BOOKKEEPING = "clew.items"  # a call that each process writes once for a trace; it has no values


@dataclass(slots=True)
class Missing:
    """Calls of one function, or changes of one name, that the other run does not have."""

    what: str  # "call", or for a value: "change", "argument", "result", "exception"
    name: str  # the function that was called, or the name of the value
    function: str  # the function in which it was called, or changed
    calls: int
    values: int
    step: Any  # of the first of them
    file: str
    line: int

    def to_dict(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "step": json_step(self.step)}


class OnlyIn(Sequence[Missing]):
    """Calls and values of one run that the other lacks, by place; `calls` and `values` count them all."""

    def __init__(self, entries: list[Missing]) -> None:
        self._entries = entries
        self.calls = sum(entry.calls for entry in entries)
        self.values = sum(entry.values for entry in entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __repr__(self) -> str:
        return f"<{self.calls:,} calls and {self.values:,} values in {len(self)} places>"


def only_in(comparison: Comparison, which: int) -> OnlyIn:
    """`which`: 0 for the first run, 1 for the second."""
    side = (comparison.a, comparison.b)[which]
    paired = (comparison.calls.a, comparison.calls.b)[which]
    return OnlyIn([*_missing_calls(side, paired), *_missing_values(side, comparison.only_rows[which])])


def _missing_calls(side: Side, paired: Ints) -> list[Missing]:
    """The calls without a partner, by function and caller."""
    is_unpaired = np.ones(len(side), np.bool_)
    is_unpaired[paired] = False
    calls = np.flatnonzero(is_unpaired)
    values = _count_own_values(side)[calls]
    keys = np.stack([side.function[calls], side.function[side.parent[calls]]], axis=1).reshape(-1, 2)
    kinds, first, inverse, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    totals = np.bincount(inverse.reshape(-1), weights=values, minlength=len(kinds)).astype(np.int64)
    entries = []
    for kind in np.argsort(first).tolist():
        name, caller = (side.vocabularies.functions.name(key) for key in kinds[kind].tolist())
        if not totals[kind] and (side.settings.only or name == _BOOKKEEPING or not side.settings.selects("", name)):
            continue
        first_call = int(calls[first[kind]])
        call = side.call_object(first_call)
        assert call is not None
        figures = int(counts[kind]), int(totals[kind])
        step = side.call_step(first_call)
        entries.append(Missing("call", call.function, caller, *figures, step, call.file, call.line))
    return entries


def _count_own_values(side: Side) -> Ints:
    """By call: the number of values in it, without those in the calls it made."""
    calls = np.concatenate([side.call[(side.token >= 0) & (side.call >= 0)], side.extra.call])
    return np.bincount(calls, minlength=len(side)).astype(np.int64)


def _missing_values(side: Side, rows: Ints) -> list[Missing]:
    """The values without a partner, by function and name."""
    functions, tokens = side.function[side.call_of(rows)], side.token_of(rows)
    entries = []
    keys, first, counts = np.unique(
        np.stack([functions, tokens], axis=1) if len(rows) else np.empty((0, 2), np.int64),
        axis=0,
        return_index=True,
        return_counts=True,
    )
    for (_, token), place, count in zip(keys.tolist(), first.tolist(), counts.tolist(), strict=True):
        role, name = side.vocabularies.tokens.name(token)
        row = int(rows[place])
        call = side.call_object(int(side.call_of(rows[place : place + 1])[0]))
        function, file, line = ("", "", 0) if call is None else (call.function, call.file, _line(side, row))
        what = "exception" if name == ERROR else WHAT[role]
        entries.append(Missing(what, name, function, 0, count, side.step_of(row), file, line))
    return entries


def _line(side: Side, row: int) -> int:
    return side.table.lines(np.array([row], np.int64))[0] if row < len(side.table) else 0

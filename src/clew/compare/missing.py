"""What only one of the runs has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.compare.comparison import told_step
from clew.compare.difference import WHAT
from clew.compare.side import ERROR

if TYPE_CHECKING:
    from clew.compare.comparison import Comparison
    from clew.compare.side import Ints, Side


_BOOKKEEPING = "clew.items"  # a call that each process writes once for a trace; it has no values


@dataclass(slots=True)
class Missing:
    """Calls of one function, or changes of one name, that the other run does not have."""

    what: str  # "call", or what the value is: "change", "argument", "result", "exception"
    name: str  # the function that was called, or the name
    function: str  # in which function
    calls: int
    values: int
    step: Any  # of the first of them
    file: str
    line: int

    def to_dict(self) -> dict[str, Any]:
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**told, "step": told_step(self.step)}


class OnlyIn(Sequence[Missing]):
    """Every place of which one run has more; `calls` and `values` count them all."""

    def __init__(self, found: list[Missing]) -> None:
        self._found = found
        self.calls = sum(one.calls for one in found)
        self.values = sum(one.values for one in found)

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, index: Any) -> Any:
        return self._found[index]

    def __repr__(self) -> str:
        return f"<{self.calls:,} calls and {self.values:,} values in {len(self)} places>"


def only_in(comparison: Comparison, which: int) -> OnlyIn:
    """`which`: 0 for the first run, 1 for the second."""
    side = (comparison.a, comparison.b)[which]
    paired = (comparison.calls.a, comparison.calls.b)[which]
    return OnlyIn([*_calls(side, paired), *_values(side, comparison.only_rows[which])])


def _calls(side: Side, paired: Ints) -> list[Missing]:
    """The calls without a partner, by function and caller; those inside them counted with them, once."""
    alone = np.ones(len(side), np.bool_)
    alone[paired] = False
    calls = np.flatnonzero(alone)
    values = _own_values(side)[calls]
    keys = np.stack([side.function[calls], side.function[side.parent[calls]]], axis=1).reshape(-1, 2)
    kinds, first, back, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    totals = np.bincount(back.reshape(-1), weights=values, minlength=len(kinds)).astype(np.int64)
    found = []
    for number in np.argsort(first).tolist():
        name, above = (side.words.functions.name(key) for key in kinds[number].tolist())
        if not totals[number] and (side.settings.only or name == _BOOKKEEPING or not side.settings.wanted("", name)):
            continue
        number_of = int(calls[first[number]])
        call = side.call_object(number_of)
        assert call is not None
        figures = int(counts[number]), int(totals[number])
        found.append(Missing("call", call.function, above, *figures, side.call_step(number_of), call.file, call.line))
    return found


def _own_values(side: Side) -> Ints:
    calls = np.concatenate([side.call[(side.token >= 0) & (side.call >= 0)], side.extra.call])
    return np.bincount(calls, minlength=len(side)).astype(np.int64)


def _values(side: Side, rows: Ints) -> list[Missing]:
    functions, tokens = side.function[side.call_of(rows)], side.token_of(rows)
    found: dict[tuple[int, int], Missing] = {}
    keys, first, counts = np.unique(
        np.stack([functions, tokens], axis=1) if len(rows) else np.empty((0, 2), np.int64),
        axis=0,
        return_index=True,
        return_counts=True,
    )
    for key, place, count in zip(keys.tolist(), first.tolist(), counts.tolist(), strict=True):
        role, name = side.words.tokens.name(key[1])
        call = side.call_object(int(side.call_of(rows[place : place + 1])[0]))
        where = (call.file, _line(side, int(rows[place]))) if call is not None else ("", 0)
        above = "" if call is None else call.function
        what = "exception" if name == ERROR else WHAT[role]
        found[key[0], key[1]] = Missing(what, name, above, 0, count, side.step_of(int(rows[place])), *where)
    return list(found.values())


def _line(side: Side, row: int) -> int:
    return side.table.lines(np.array([row], np.int64))[0] if row < len(side.table) else 0

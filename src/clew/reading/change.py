"""Sequences of changes, whose cells are read a block at a time."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.reading.lazy import LazySequence, Rows
from clew.records import DELETED, Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew.reading.call import Call
    from clew.reading.view import View

_UNREAD: Any = object()
_BLOCK_SIZE = 1024


class Block:
    """Changes that are iterated together: a field requested of one is read for the whole block.

    Values in the value table are the exception: each may be an array of megabytes, so it is read on its own request.
    """

    def __init__(self, view: View, rows: Rows) -> None:
        self.view = view
        self.rows = rows

    @cached_property
    def _names(self) -> list[str]:
        return self.view.table.names_of(self.rows)

    @cached_property
    def _values(self) -> list[Any]:
        return self.view.table.values(self.rows, unread=_UNREAD)

    @cached_property
    def _lines(self) -> list[int]:
        return self.view.table.lines(self.rows)

    @cached_property
    def _steps(self) -> list[Any]:
        return self.view.steps.at(self.rows)

    @cached_property
    def _times(self) -> list[float]:
        times: list[float] = self.view.table.times(self.rows).tolist()
        return times

    @cached_property
    def _times_error(self) -> list[float]:
        errors: list[float] = self.view.table.times_error(self.rows).tolist()
        return errors

    @cached_property
    def _functions(self) -> list[str]:
        return self.view.table.functions(self.rows)

    def name(self, index: int) -> str:
        return self._names[index]

    def value(self, index: int) -> Any:
        value = self._values[index]
        return self.view.table.value(int(self.rows[index])) if value is _UNREAD else value

    def before(self, index: int) -> Any:
        call = self.call(index)
        return DELETED if call is None else call.before(Change(self, index))

    def line(self, index: int) -> int:
        return self._lines[index]

    def step(self, index: int) -> Any:
        return self._steps[index]

    def time(self, index: int) -> float:
        return self._times[index]

    def time_error(self, index: int) -> float:
        return self._times_error[index]

    def call(self, index: int) -> Call | None:
        return self.view.call_of_row(int(self.rows[index]))

    def function(self, index: int) -> str:
        return self._functions[index]

    def file(self, index: int) -> str:
        return self.view.table.places(self.rows[index : index + 1])[0][1]

    def text(self, index: int) -> str:
        from clew.text.brief import brief

        return brief(self.value(index), 60)

    def key(self, index: int) -> tuple[Any, ...]:
        """An identity that survives a refresh, which may insert new shards between old ones."""
        shard, local = self.view.table.place(int(self.rows[index]))
        return self.view.path, self.view.table.shards[shard].name, local


class Changes(LazySequence[Change]):
    """Changes in order; `len()` and slices are cheap, and a `Change` is created when it is accessed."""

    __slots__ = ("_view",)

    def __init__(self, view: View, rows: Rows) -> None:
        super().__init__(rows)
        self._view = view

    def _make(self, row: int) -> Change:
        return Change(Block(self._view, np.array([row], dtype=np.int64)), 0)

    def _part(self, rows: Rows) -> Changes:
        return Changes(self._view, rows)

    def __iter__(self) -> Iterator[Change]:
        for begin in range(0, len(self._rows), _BLOCK_SIZE):
            block = Block(self._view, self._rows[begin : begin + _BLOCK_SIZE])
            for index in range(len(block.rows)):
                yield Change(block, index)

    @property
    def rows(self) -> Rows:
        """Their rows in the run's table, for exports and pages, which work on columns."""
        return self._rows

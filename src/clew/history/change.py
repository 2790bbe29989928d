"""One change of one name, and many of them without making each."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.history.lazy import LazySequence, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew.history.call import Call
    from clew.history.view import View

_UNREAD: Any = object()
_TOGETHER = 1024


class Block:
    """Some changes that are looked at one after the other: what one is asked is found out for all of them at once.

    Except for values of the value table: each may be an array of megabytes, and is read when it is asked for itself.
    """

    def __init__(self, view: View, rows: Rows) -> None:
        self.view = view
        self.rows = rows

    @cached_property
    def names(self) -> list[str]:
        return self.view.table.names_of(self.rows)

    @cached_property
    def numbers(self) -> list[Any]:
        return self.view.table.values(self.rows, unread=_UNREAD)

    @cached_property
    def lines(self) -> list[int]:
        return self.view.table.lines(self.rows)

    @cached_property
    def steps(self) -> list[Any]:
        return self.view.steps.at(self.rows)

    @cached_property
    def times(self) -> list[float]:
        times: list[float] = self.view.table.times(self.rows).tolist()
        return times

    @cached_property
    def functions(self) -> list[str]:
        return self.view.table.functions(self.rows)


class Change:
    """A name got a value. Everything is looked up when asked for; `value` is read back once."""

    __slots__ = ("_block", "_index", "_value")

    def __init__(self, block: Block, index: int) -> None:
        self._block = block
        self._index = index
        self._value = _UNREAD

    @property
    def name(self) -> str:
        """The name or expression, as it was given to the probe."""
        return self._block.names[self._index]

    @property
    def value(self) -> Any:
        """What it held: `clew.DELETED` after `del`, a `NotKept` where it was not kept in full."""
        if self._value is _UNREAD:
            self._value = self._block.numbers[self._index]
        if self._value is _UNREAD:
            self._value = self._block.view.table.value(self._row)
        return self._value

    @property
    def line(self) -> int:
        return self._block.lines[self._index]

    @property
    def step(self) -> Any:
        """The step it belongs to; without one, how many changes of this name came before."""
        return self._block.steps[self._index]

    @property
    def time(self) -> float:
        """Seconds since the run began."""
        return self._block.times[self._index]

    @property
    def call(self) -> Call | None:
        """The call it happened in; None if the start of that call was lost."""
        return self._block.view.call_of_row(self._row)

    @property
    def function(self) -> str:
        """The qualified name of the function whose line it was."""
        return self._block.functions[self._index]

    @property
    def _row(self) -> int:
        return int(self._block.rows[self._index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        """The same before and after a refresh, which may put new shards between the old."""
        view = self._block.view
        shard, local = view.table.place(self._row)
        return view.path, view.table.shards[shard].name, local

    def __repr__(self) -> str:
        from clew.show.text import brief

        return f"<Change {self.name} = {brief(self.value, 60)} at line {self.line}>"


class Changes(LazySequence[Change]):
    """Changes in order; `len()` and slices are cheap, a `Change` is made when it is looked at."""

    __slots__ = ("_view",)

    def __init__(self, view: View, rows: Rows) -> None:
        super().__init__(rows)
        self._view = view

    def _make(self, row: int) -> Change:
        return Change(Block(self._view, np.array([row], dtype=np.int64)), 0)

    def _part(self, rows: Rows) -> Changes:
        return Changes(self._view, rows)

    def __iter__(self) -> Iterator[Change]:
        for begin in range(0, len(self._rows), _TOGETHER):
            block = Block(self._view, self._rows[begin : begin + _TOGETHER])
            for index in range(len(block.rows)):
                yield Change(block, index)

    @property
    def rows(self) -> Rows:
        """Their rows in the table of the run (for exports and pages, which work on columns)."""
        return self._rows

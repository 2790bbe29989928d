"""One change of one name, and many of them without making each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clew.history.lazy import LazySequence, Rows

if TYPE_CHECKING:
    from clew.history.call import Call
    from clew.history.view import View

_UNREAD: Any = object()


class Change:
    """A name got a value. Everything is looked up when asked for; `value` is read back once."""

    __slots__ = ("_row", "_value", "_view")

    def __init__(self, view: View, row: int) -> None:
        self._view = view
        self._row = row
        self._value = _UNREAD

    @property
    def name(self) -> str:
        """The name or expression, as it was given to the probe."""
        return self._view.table.name_at(self._row)

    @property
    def value(self) -> Any:
        """What it held: `clew.DELETED` after `del`, a `NotKept` where it was not kept in full."""
        if self._value is _UNREAD:
            self._value = self._view.table.value(self._row)
        return self._value

    @property
    def line(self) -> int:
        return self._view.table.site_at(self._row).line

    @property
    def step(self) -> Any:
        """The step it belongs to; without one, how many changes of this name came before."""
        return self._view.steps.at(np.array([self._row], dtype=np.int64))[0]

    @property
    def time(self) -> float:
        """Seconds since the run began."""
        return float(self._view.table.times(np.array([self._row], dtype=np.int64))[0])

    @property
    def call(self) -> Call | None:
        """The call it happened in; None if the start of that call was lost."""
        return self._view.call_of_row(self._row)

    @property
    def function(self) -> str:
        """The qualified name of the function whose line it was."""
        shard, _ = self._view.table.place(self._row)
        site = self._view.table.site_at(self._row)
        return self._view.table.shards[shard].functions[site.function].name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        """The same before and after a refresh, which may put new shards between the old."""
        shard, local = self._view.table.place(self._row)
        return self._view.path, self._view.table.shards[shard].name, local

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
        return Change(self._view, row)

    def _part(self, rows: Rows) -> Changes:
        return Changes(self._view, rows)

    @property
    def rows(self) -> Rows:
        """Their rows in the table of the run (for exports and pages, which work on columns)."""
        return self._rows

"""A run's tables as they were at one moment, shared by Change, Call and Series."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from clew.reading.calls import CallTable
from clew.reading.steps import Steps
from clew.reading.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clew.reading.call import Call
    from clew.store.shard import ShardReader


class View:
    """Changes, calls and steps over the same rows. A refresh of the run creates a new view; old objects keep theirs."""

    def __init__(self, path: Path, shards: Sequence[ShardReader], start_ns: int) -> None:
        self.path = path
        self.start_ns = start_ns
        self.table = Table(shards, start_ns)

    @cached_property
    def calls(self) -> CallTable:
        return CallTable(self.table)

    @cached_property
    def steps(self) -> Steps:
        return Steps(self.table, self.calls)

    def call_of_row(self, row: int) -> Call | None:
        from clew.reading.call import Call

        shard, local = self.table.place(row)
        place = self.calls.place(shard, int(self.table.column(shard, "call")[local]))
        return None if place is None else Call(self, place)

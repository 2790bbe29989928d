"""How often each function was called, for how long, and how it went: over all calls at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from clew.history.calls import CallTable, ShardCalls


@dataclass(slots=True)
class FunctionLine:
    """One function of a run."""

    name: str
    module: str
    file: str
    line: int
    calls: int = 0
    ended: int = 0
    errors: int = 0
    seconds: float = 0.0  # spent in the calls that ended

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


def function_lines(table: CallTable) -> list[FunctionLine]:
    """Every function that was called, the longest first."""
    found: dict[tuple[str, str, str, int], FunctionLine] = {}
    for shard in table.shards:
        _count(shard, found)
    return sorted(found.values(), key=lambda line: -line.seconds)


def _count(shard: ShardCalls, found: dict[tuple[str, str, str, int], FunctionLine]) -> None:
    functions, slots = np.unique(shard.start("function"), return_inverse=True)
    ends = shard.ends(shard.start("call"))
    over = ends >= 0
    spent = (shard.finished.time[ends[over]] - shard.start("time")[over]) / 1e9
    size = len(functions)
    calls = np.bincount(slots, minlength=size).tolist()
    ended = np.bincount(slots[over], minlength=size).tolist()
    seconds = np.bincount(slots[over], weights=spent, minlength=size).tolist()
    raised = np.bincount(slots[over][shard.raised()[ends[over]]], minlength=size).tolist()
    for place, id in enumerate(functions.tolist()):
        function = shard.reader.functions[id]
        key = function.name, function.module, function.file, function.line
        line = found.setdefault(key, FunctionLine(*key))
        line.calls += calls[place]
        line.ended += ended[place]
        line.errors += raised[place]
        line.seconds += seconds[place]

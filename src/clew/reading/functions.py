"""Counts, over all calls of a run, how often each function was called, for how long, and how often it raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from clew.reading.calls import CallTable, ShardCalls


@dataclass(slots=True)
class FunctionLine:
    """Call statistics of one function of a run."""

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
    """The statistics of every function that was called, the longest total time first."""
    lines: dict[tuple[str, str, str, int], FunctionLine] = {}
    for shard in table.shards:
        _add_shard(shard, lines)
    return sorted(lines.values(), key=lambda line: -line.seconds)


def _add_shard(shard: ShardCalls, lines: dict[tuple[str, str, str, int], FunctionLine]) -> None:
    functions, slots = np.unique(shard.start("function"), return_inverse=True)
    ends = shard.ends(shard.start("call"))
    has_end = ends >= 0
    durations = (shard.finished.time[ends[has_end]] - shard.start("time")[has_end]) / 1e9
    size = len(functions)
    call_counts = np.bincount(slots, minlength=size).tolist()
    end_counts = np.bincount(slots[has_end], minlength=size).tolist()
    seconds = np.bincount(slots[has_end], weights=durations, minlength=size).tolist()
    error_counts = np.bincount(slots[has_end][shard.raised()[ends[has_end]]], minlength=size).tolist()
    for place, id in enumerate(functions.tolist()):
        function = shard.reader.functions[id]
        key = function.name, function.module, function.file, function.line
        line = lines.setdefault(key, FunctionLine(*key))
        line.calls += call_counts[place]
        line.ended += end_counts[place]
        line.errors += error_counts[place]
        line.seconds += seconds[place]

"""Calls that begin in one flush and end in another, in any order, or never: every reader and export takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.export import export
from clew.store.shard_columns import Ends, StructPiece
from hostile.reading import READERS, surprises
from reading.writing import Shard, Written


def nested_calls_that_raise(shard: Shard, rounds: int = 3) -> None:
    """An outer call, and in it calls that raise through each other; a flush between any two of their ends."""
    outer = shard.call("main")
    for number in range(rounds):
        calls = [outer]
        for depth in range(4):
            calls.append(shard.call(f"level{depth}", parent=calls[-1], stage="deep" if depth % 2 else None))
            shard.change(calls[-1], "x", float(number), line=depth + 1)
            shard.flush()
        for depth, call in enumerate(reversed(calls[1:])):
            shard.end(call, error=f"ValueError: {number} {depth}")
            shard.flush()
    shard.end(outer, error="ValueError: at last")


def never_ending(shard: Shard) -> None:
    """As a killed process leaves it: the calls that are open have no end."""
    outer = shard.call("main")
    inner = shard.call("inner", parent=outer)
    shard.flush()
    shard.end(shard.call("short", parent=inner), error="KeyError: 1")
    shard.flush()
    shard.change(inner, "x", 1.0)


def ends_before_starts(shard: Shard) -> None:
    """The start of a call may be written after its end: they come from different threads' lists."""
    outer = shard.call("main")
    shard.flush()
    shard.end(outer, error="early")
    shard.flush()
    late = [shard.call("late", parent=outer, at=place) for place in (9, 7, 5)]
    shard.flush()
    for call in (late[1], late[2], late[0]):
        shard.end(call, at=4, error=f"before it began {call}")
        shard.flush()


def unknown_calls(shard: Shard) -> None:
    """Ends of calls whose starts are lost, and a call that ends twice."""
    shard.end(77, error="of nobody")
    shard.flush()
    call = shard.call("main")
    shard.end(call, error="once")
    shard.flush()
    shard.end(call, error="twice")
    shard.change(78, "x", 2.0)


SHAPES = [nested_calls_that_raise, never_ending, ends_before_starts, unknown_calls]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_reader_takes_calls_over_several_flushes(tmp_path: Path, shape: Any) -> None:
    written = Written(tmp_path / "runs")
    shard = written.shard()
    shape(shard)
    shard.close()
    assert surprises(written.folder, written.folder, tmp_path / "out", READERS) == {}


def test_the_timeline_has_each_exception_at_its_own_call(tmp_path: Path) -> None:
    written = Written(tmp_path / "runs")
    shard = written.shard()
    nested_calls_that_raise(shard)
    shard.close()
    path = export(written.open(), "perfetto", tmp_path / "out.json")
    drawn = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    told = {
        event["args"]["call"]: (event["name"], event["args"].get("stage"), event["args"]["error"]) for event in drawn
    }
    run = written.open()
    assert told == {call.id: (call.function, call.stage, call.error) for call in run.calls()}
    assert len(told) == 13


def test_rows_are_taken_in_the_order_that_is_asked_for() -> None:
    import pyarrow as pa

    def piece(*numbers: int) -> StructPiece:
        error = pa.array([f"e{number}" for number in numbers])
        return StructPiece(pa.StructArray.from_arrays([pa.array(numbers, pa.int64()), error], ["call", "error"]))

    ends = Ends([piece(0, 1), piece(2), piece(3, 4)])
    rows = np.array([4, 0, 2, 2, 3, 1])
    assert ends.take(rows).call.tolist() == rows.tolist()
    assert ends.take(rows).error.tolist() == [f"e{row}" for row in rows.tolist()]
    assert ends.take(rows).take(np.array([1, 0])).call.tolist() == [0, 4]
    assert len(ends.take(rows)) == 6

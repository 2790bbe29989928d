"""Runs as a timeline in Chrome's trace event format. The real viewer reads it in tests/web."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.export import export
from clew.export.perfetto import _Tracks
from reading.writing import Written, simple_run


def events(path: Path, phase: str) -> list[dict[str, Any]]:
    trace_events = json.loads(path.read_text())["traceEvents"]
    return [event for event in trace_events if event["ph"] == phase]


def test_calls_lie_on_the_track_of_their_thread_in_microseconds(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    outer = shard.call("train", at=1, file="train.py", line=7)
    inner = shard.call("step", parent=outer, at=2, stage="fit")
    shard.end(inner, at=4, error="ValueError: no")
    shard.end(outer, at=5)
    shard.close()
    path = export(writer.open(), "perfetto", tmp_path / "out.json")
    first, second = events(path, "X")
    assert (first["name"], first["ts"], first["dur"], first["tid"]) == ("train", 1000.0, 4000.0, 1)
    assert (second["name"], second["ts"], second["dur"], second["tid"]) == ("step", 2000.0, 2000.0, 1)
    assert first["args"]["file"] == "train.py:7"
    assert (second["args"]["stage"], second["args"]["error"]) == ("fit", "ValueError: no")
    named = {event["name"]: event["args"]["name"] for event in events(path, "M")}
    assert named == {"process_name": "rank 0, process 100", "thread_name": "main"}


def test_calls_that_overlap_without_nesting_get_tracks_of_their_own(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    first, second = shard.call("a", at=1), shard.call("b", at=2)
    shard.end(first, at=3)
    shard.end(second, at=4)
    shard.close()
    path = export(writer.open(), "perfetto", tmp_path / "out.json")
    assert [(event["name"], event["tid"]) for event in events(path, "X")] == [("a", 1), ("b", 2)]
    assert [event["args"]["name"] for event in events(path, "M")][1:] == ["main", "main (2)"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=30))
def test_on_every_track_calls_nest(spans: list[tuple[int, int]]) -> None:
    calls = sorted(((begin, begin + length) for begin, length in spans), key=lambda call: (call[0], -call[1]))
    tracks = _Tracks(0)
    drawn = [(tracks.of("main", begin, end), begin, end) for begin, end in calls]
    for place, (track, begin, end) in enumerate(drawn):
        for other, later, until in drawn[place + 1 :]:
            assert track != other or later >= end or until <= end, (begin, end, later, until)


def test_a_call_that_never_ended_begins(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.end(shard.call("done", at=1), at=2)
    shard.call("killed", at=3)
    shard.close()
    path = export(writer.open(), "perfetto", tmp_path / "out.json")
    assert [event["name"] for event in events(path, "B")] == ["killed"]


def test_numbers_are_counters_without_those_that_json_lacks(tmp_path: Path) -> None:
    run = simple_run(tmp_path / "runs", {"loss": [0.5, float("nan"), 2], "text": ["a"]})
    counters = events(export(run, "perfetto", tmp_path / "out.json"), "C")
    assert [(event["name"], event["args"]["value"]) for event in counters] == [("loss", 0.5), ("loss", 2.0)]


def test_each_process_is_one(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        shard.end(shard.call("train"))
        shard.close()
    path = export(writer.open(), "perfetto", tmp_path / "out.json")
    assert [event["pid"] for event in events(path, "X")] == [0, 1]
    names = [event["args"]["name"] for event in events(path, "M") if event["name"] == "process_name"]
    assert names == ["rank 0, process 100", "rank 1, process 101"]

"""Runs of every format there ever was stay readable. `formats/<version>` was written by the clew of its time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from clew.records import Function, Kept, Note, Site
from clew.store.flush import Flush, Span
from clew.store.format import FORMAT
from clew.store.reader import RunReader
from store.making import array, changes, new_run, new_writer

FORMATS = Path(__file__).parent / "formats"


def test_there_is_a_run_of_every_format() -> None:
    assert sorted(int(folder.name) for folder in FORMATS.iterdir()) == list(range(1, FORMAT + 1))


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_a_run_of_each_format_reads_as_it_was_written(version: int) -> None:
    reader = RunReader(FORMATS / str(version))
    (shard,) = reader.shards
    reader.verify()
    assert (reader.problems, shard.closed) == ([], True)
    assert shard.functions[0] == Function(0, "train", "job", "/x/job.py", 3)  # without hashes and source
    assert shard.sites[2] == Site(2, 0, "step", 4, "step")
    assert (shard.starts.thread_name.tolist(), shard.ends.result.tolist()) == (["MainThread"], [1])
    numbers = shard.changes.number[:3]
    assert numbers.tolist() == [0.5, -0.0, math.inf]
    assert shard.changes.call[:3].tolist() == [1, 1, 1]
    assert shard.changes.time[:3].tolist() == [1000, 1001, 1002]
    assert shard.changes.value[:3].tolist() == [-1, -1, -1]
    assert math.copysign(1, numbers[1]) == -1
    assert np.frombuffer(shard.value(0).parts[0], np.uint8).tolist() == array(7, 5000).tolist()
    assert (shard.value(1).body, shard.value(1).kept, shard.value(2).body) == ("[1, 2]", Kept.FULL, '"\\u03c0"')
    assert shard.notes == [Note("never-seen", "x", "never came into being")]


def test_a_change_of_format_2_points_to_its_value_by_its_number() -> None:
    (shard,) = RunReader(FORMATS / "2").shards
    assert (shard.changes.value[3], shard.changes.time[3]) == (1, 1002)


@pytest.mark.parametrize("version", [1, 2])
def test_a_run_older_than_norms_has_none(version: int) -> None:
    (shard,) = RunReader(FORMATS / str(version)).shards
    assert (shard.value(0).summary.norm, shard.value(0).summary.zeros) == (None, None)
    assert shard.value(0).summary.shape == (5000,)


def test_changes_without_spans_are_reported_as_damage(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    forged = changes(1.0, 2.0)
    forged.spans = [Span(1, 1, 0, 0)]
    writer.write(Flush(1, changes=forged))
    writer.close()
    reader = RunReader(run)
    assert len(reader.shards[0].changes) == 0
    assert any("2 changes, and spans for 1" in problem for problem in reader.problems)

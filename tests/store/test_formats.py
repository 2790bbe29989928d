"""Runs of every format there ever was stay readable. `formats/<version>` was written by the clew of its time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from clew.records import Kept, Note, Site
from clew.store.format import FORMAT
from clew.store.reader import RunReader
from store.making import array

FORMATS = Path(__file__).parent / "formats"


def test_there_is_a_run_of_every_format() -> None:
    assert sorted(int(folder.name) for folder in FORMATS.iterdir()) == list(range(1, FORMAT + 1))


def test_format_1_reads_as_it_was_written() -> None:
    reader = RunReader(FORMATS / "1")
    (shard,) = reader.shards
    reader.verify()
    assert (reader.problems, shard.closed) == ([], True)
    assert shard.functions[0].file == "/x/job.py"
    assert shard.sites[2] == Site(2, 0, "step", 4, "step")
    assert (shard.starts.thread_name.tolist(), shard.ends.result.tolist()) == (["MainThread"], [1])
    numbers = shard.changes.number
    assert numbers.tolist() == [0.5, -0.0, math.inf]
    assert math.copysign(1, numbers[1]) == -1
    assert np.frombuffer(shard.value(0).parts[0], np.uint8).tolist() == array(7, 5000).tolist()
    assert (shard.value(1).body, shard.value(1).kept, shard.value(2).body) == ("[1, 2]", Kept.FULL, '"\\u03c0"')
    assert shard.notes == [Note("never-seen", "x", "never came into being")]

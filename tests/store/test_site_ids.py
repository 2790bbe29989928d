"""A process numbers its sites as functions are instrumented: a short run of a large program has large numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clew.reading import Run
from clew.records import Function, Kind, Site
from clew.store.flush import CallStart, ChangeColumns, Flush, Span
from clew.store.writer import ShardWriter
from reading.writing import Written


def write(folder: Path, first: int, batches: int) -> None:
    """Two names, each changed twice in every batch."""
    writer = ShardWriter(folder, host="here", rank=0, pid=1)
    for batch in range(batches):
        sites = np.array([first, first + 1] * 2, np.int32)
        kinds = np.full(4, Kind.FLOAT, np.uint8)
        begin = batch * 10 + 1
        flush = Flush(
            begin, changes=ChangeColumns(sites, kinds, np.arange(4.0) + begin, [Span(4, 1, begin, begin + 4)])
        )
        if not batch:
            flush.functions = [Function(0, "f", "m", "/x/f.py", 1)]
            flush.sites = [Site(first, 0, "a", 2), Site(first + 1, 0, "b", 3)]
            flush.starts = [CallStart(1, -1, 0, 1, 1, "MainThread")]
        writer.write(flush)
    writer.close()


@pytest.mark.parametrize("first", [16, (1 << 14) - 1, 3_000_000, 2**31 - 3])
def test_a_run_is_read_completely_whatever_the_numbers_of_its_sites(tmp_path: Path, first: int) -> None:
    writer = Written(tmp_path)
    write(writer.folder, first, batches=3)
    run = Run(writer.folder)
    assert run.problems == []
    assert run["a"].values == [1.0, 3.0, 11.0, 13.0, 21.0, 23.0]
    assert run["b"].values == [2.0, 4.0, 12.0, 14.0, 22.0, 24.0]
    assert set(run["b"].lines) == {3}


def test_readers_make_tables_of_the_sites_there_are_and_not_of_their_numbers(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    write(writer.folder, 2**31 - 3, batches=1)
    assert len(Run(writer.folder).tables.table._name_of_site[0]) < 1 << 15

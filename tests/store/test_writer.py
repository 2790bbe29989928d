"""A flush that write() accepted is safe; one that it refused leaves no trace."""

from __future__ import annotations

import errno
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from clew.records import Kept, Value
from clew.store import blobs as blobs_module
from clew.store.flush import Flush
from clew.store.folder import write_meta
from clew.store.reader import RunReader
from clew.store.writer import ShardWriter
from store.making import (
    PER_FLUSH,
    array,
    array_value,
    blobs,
    changes,
    damage_in,
    first_flush,
    here,
    new_run,
    new_writer,
    numbered_flush,
    only_shard,
    records,
    small_run,
)

TESTS = Path(__file__).parents[1]
PATHS = [str(TESTS), str(TESTS.parent / "src")]


class FailingFile(io.FileIO):
    """Takes `room` bytes and then has no space left, half way through a write as file systems do."""

    room = 0
    can_cut = True

    def write(self, data: object) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        if not self.room and len(view):
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = super().write(view[: self.room])
        self.room -= taken
        return taken

    def truncate(self, size: int | None = None) -> int:
        if not self.can_cut:
            raise OSError(errno.EIO, "cannot be cut")
        return super().truncate(size)


def full_at(writer: ShardWriter, room: int, *, can_cut: bool = True) -> FailingFile:
    """Let the disk fill up `room` bytes further on in the records."""
    path = writer.folder / "records.arrow"
    file = FailingFile(path, "r+")
    file.seek(0, os.SEEK_END)
    file.room, file.can_cut = room, can_cut
    writer._records.close()
    writer._records = file
    return file


@pytest.mark.parametrize("room", [0, 1, 7, 8, 500, 3000])
def test_a_full_disk_leaves_complete_batches_and_the_flush_can_be_repeated(tmp_path: Path, room: int) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(first_flush())
    file = full_at(writer, room)
    with pytest.raises(OSError) as error:
        writer.write(numbered_flush(0))
    assert error.value.errno == errno.ENOSPC
    assert damage_in(RunReader(run)) == []
    assert blobs(run).stat().st_size == 0
    file.room = 1 << 20  # somebody made room
    writer.write(numbered_flush(0))
    writer.write(numbered_flush(1))
    writer.close()
    reader = RunReader(run)
    assert reader.problems == []
    assert reader.shards[0].changes.number.tolist() == [float(i) for i in range(2 * PER_FLUSH)]
    assert bytes(reader.shards[0].value(0).parts[0]) == array(0).tobytes()


def test_half_a_batch_that_cannot_be_cut_off_is_never_written_after(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(first_flush())
    file = full_at(writer, 100, can_cut=False)
    with pytest.raises(OSError):
        writer.write(numbered_flush(0))
    file.room = 1 << 20
    with pytest.raises(OSError, match="closed"):
        writer.write(numbered_flush(1))
    writer.close()
    reader = RunReader(run)
    assert reader.shards[0].batches == 1
    assert any("not a whole batch" in problem for problem in reader.problems)


def test_a_disk_that_fills_while_blobs_are_written_leaves_a_readable_run(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(numbered_flush(0))
    length = writer.bytes_written
    writer._blobs._file.close()  # type: ignore[union-attr]
    writer._blobs._file = file = FailingFile(blobs(run), "r+")
    file.room = 12_345
    with pytest.raises(OSError):
        writer.write(numbered_flush(1))
    assert writer.bytes_written == length
    file.room = 1 << 20
    writer.write(numbered_flush(2))
    writer.close()
    reader = RunReader(run)
    reader.verify()
    assert reader.problems == []
    assert bytes(reader.shards[0].value(2).parts[0]) == array(2).tobytes()
    assert "lost" in reader.shards[0].value(1).why


LIMITED = """
import resource, signal, sys, pathlib
sys.path[:0] = sys.argv[2:]
from store.making import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = new_writer(pathlib.Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
written = 0
try:
    while True:
        writer.write(numbered_flush(written))
        written += 1
except OSError as error:
    print(written, error.errno)
"""


def test_a_file_that_may_not_grow_is_left_readable(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    command = [sys.executable, "-c", LIMITED, str(run), *PATHS]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(words[1]) == errno.EFBIG
    reader = RunReader(run)
    reader.verify()
    assert damage_in(reader) == []
    assert len(reader.shards[0].changes) == int(words[0]) * PER_FLUSH > 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_the_error_of_a_full_device_is_raised(tmp_path: Path) -> None:
    writer = new_writer(new_run(tmp_path / "run"))
    writer._records.close()
    writer._records = io.FileIO("/dev/full", "r+")
    with pytest.raises(OSError) as error:
        writer.write(first_flush())
    assert error.value.errno == errno.ENOSPC
    writer._records.close()
    writer.close()


WRITING = """
import sys, pathlib
sys.path[:0] = sys.argv[2:]
from store.making import *
writer = new_writer(pathlib.Path(sys.argv[1]))
writer.write(first_flush())
number = 0
while True:
    writer.write(numbered_flush(number))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    number += 1
"""


@pytest.mark.parametrize("seed", range(5))
def test_kill_9_loses_nothing_that_was_written(tmp_path: Path, seed: int) -> None:
    run = new_run(tmp_path / "run", how="running")
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, str(run), *PATHS], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline()]
        time.sleep(random.Random(seed).uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    acknowledged = int([line for line in said if line.endswith("\n")][-1])
    reader = RunReader(run)
    (shard,) = reader.shards
    count = shard.batches - 1
    assert count > acknowledged
    assert shard.changes.number.tolist() == [float(i) for i in range(count * PER_FLUSH)]
    for number in {0, acknowledged, count - 1}:
        assert bytes(shard.value(number).parts[0]) == array(number).tobytes()
    reader.verify()
    assert all("not a whole batch" in problem for problem in damage_in(reader))
    assert "was killed or cut off" in reader.problems[-1]


def test_a_live_reader_picks_up_new_batches(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", how="running")
    reader = RunReader(run)
    assert reader.shards == []
    assert not reader.refresh()
    writer = new_writer(run, **here())
    assert reader.refresh()
    writer.write(first_flush())
    for number in range(4):
        writer.write(numbered_flush(number))
        assert reader.refresh()
        assert not reader.refresh()
        (shard,) = reader.shards
        assert len(shard.changes) == (number + 1) * PER_FLUSH
        assert bytes(shard.value(number).parts[0]) == array(number).tobytes()
        assert reader.problems == []
    assert not shard.closed
    writer.close()
    assert reader.refresh()
    assert shard.closed


def test_columns_read_before_a_refresh_stay_as_they_were(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(Flush(0, changes=changes(1.0)))
    shard = only_shard(run)
    before = shard.changes
    writer.write(Flush(1, changes=changes(2.0)))
    shard.refresh()
    assert (before.number.tolist(), shard.changes.number.tolist()) == ([1.0], [1.0, 2.0])
    writer.close()


def test_half_a_batch_of_a_live_writer_is_waited_for_and_not_called_damage(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", how="running")
    writer = new_writer(run, **here())
    writer.write(first_flush())
    path = writer.folder / "records.arrow"
    before = path.stat().st_size
    writer.write(numbered_flush(0))
    data = path.read_bytes()
    os.truncate(path, before + 100)
    reader = RunReader(run)
    assert (reader.shards[0].batches, reader.problems) == (1, [])
    path.write_bytes(data)
    assert reader.refresh()
    assert len(reader.shards[0].changes) == PER_FLUSH
    os.truncate(path, len(data) - 1)
    write_meta(run, {"how": "failed"})
    assert len(damage_in(RunReader(run))) == 1  # the run is over: nobody will finish it
    writer.close()


def test_a_page_that_changes_is_news(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    reader = RunReader(run)
    write_meta(run, {"how": "failed"})
    assert reader.refresh()
    assert reader.meta["how"] == "failed"


@pytest.mark.parametrize("size", [5_000, 700_000])
def test_equal_blobs_are_kept_once(tmp_path: Path, size: int) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(Flush(0, values=[(0, array_value(1, size)), (1, array_value(1, size)), (2, array_value(2, size))]))
    writer.write(Flush(1, values=[(3, array_value(2, size)), (4, array_value(1, size))]))
    writer.close()
    assert blobs(run).stat().st_size < 2 * size + 64
    contents = [bytes(value.parts[0]) for value in only_shard(run).values(range(5))]
    assert contents == [array(seed, size).tobytes() for seed in (1, 1, 2, 2, 1)]


def test_large_blobs_that_differ_in_one_byte_are_both_kept(tmp_path: Path) -> None:
    first, second = np.zeros(1_000_000, np.uint8), np.zeros(1_000_000, np.uint8)
    second[300_000] = 1
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(Flush(0, values=[(0, Value("a", "{}", [first])), (1, Value("a", "{}", [second]))]))
    writer.close()
    contents = [bytes(value.parts[0]) for value in only_shard(run).values([0, 1])]
    assert contents == [first.tobytes(), second.tobytes()]


def test_the_table_of_known_blobs_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs_module, "_REMEMBERED", 3)
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    for id, seed in enumerate([0, 1, 2, 3, 3, 0]):
        writer.write(Flush(id, values=[(id, array_value(seed, 300_000))]))
    writer.close()
    assert len(writer._blobs._offsets) == 3
    assert blobs(run).stat().st_size >= 5 * 300_000  # the first one was forgotten and is there twice
    contents = [bytes(value.parts[0]) for value in only_shard(run).values(range(6))]
    assert contents == [array(seed, 300_000).tobytes() for seed in (0, 1, 2, 3, 3, 0)]


def test_blobs_are_aligned_for_mapping(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(Flush(0, values=[(id, array_value(id, 5_001 + id)) for id in range(4)]))
    writer.close()
    (batch,) = only_shard(run).value_table.batches
    offsets = [row[0]["offset"] for row in batch.field("parts").to_pylist()]
    assert offsets == [0, 5056, 10_112, 15_168]  # multiples of 64


def test_many_large_arrays_can_be_held_at_once(tmp_path: Path) -> None:
    """Mappings hold file descriptors on older Pythons: the user's program must keep some."""
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    size = 1 << 20
    writer.write(Flush(0, values=[(id, array_value(id % 3, size)) for id in range(200)]))
    writer.close()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    held = only_shard(run).values(range(200))
    after = len(os.listdir("/proc/self/fd")) if before else 0
    assert after - before <= 64
    assert all(bytes(value.parts[0][:9]) == array(id % 3, size)[:9].tobytes() for id, value in enumerate(held))


def test_arrays_beyond_the_disk_budget_become_summaries_that_tell_why(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run, disk=150_000)
    for number in range(8):
        writer.write(numbered_flush(number))
    writer.close()
    reader = RunReader(run)
    kept = [value.kept for value in reader.shards[0].values(range(8))]
    assert kept == [Kept.FULL] * 5 + [Kept.SUMMARY] * 3
    value = reader.shards[0].value(7)
    assert "budget" in value.why
    assert value.summary.shape == (20_000,)
    assert (writer.dropped, len(reader.shards[0].notes)) == (3, 1)
    assert reader.shards[0].notes[0].kind == "dropped"
    assert len(reader.shards[0].changes) == 8 * PER_FLUSH


def test_records_beyond_the_disk_budget_are_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run, disk=50_000)
    with pytest.raises(OSError) as error:
        for number in range(100):
            writer.write(Flush(number, changes=changes(*range(100))))
    assert error.value.errno == errno.EDQUOT
    writer.close()
    assert writer.bytes_written <= 50_000 + 8
    assert RunReader(run).problems == []


def test_bytes_written_is_what_is_on_disk(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(first_flush())
    writer.write(numbered_flush(0))
    assert writer.bytes_written == records(run).stat().st_size + blobs(run).stat().st_size
    writer.close()


@pytest.mark.parametrize("what", ["run", "shard"])
def test_a_deleted_folder_is_noticed(tmp_path: Path, what: str) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    shutil.rmtree(run if what == "run" else writer.folder)
    with pytest.raises(FileNotFoundError):
        writer.write(first_flush())
    with pytest.raises(FileNotFoundError):
        writer.sync()
    writer.close()


def test_a_forked_child_cannot_write_into_its_parents_shard(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    writer.write(first_flush())
    child = os.fork()
    if not child:
        status = 1
        try:
            writer.write(numbered_flush(0))
        except OSError:
            writer.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.write(numbered_flush(0))
    writer.close()
    reader = RunReader(run)
    assert reader.problems == []
    assert len(reader.shards[0].changes) == PER_FLUSH


def test_a_closed_writer_refuses_and_closing_twice_is_fine(tmp_path: Path) -> None:
    writer = new_writer(new_run(tmp_path / "run"))
    writer.close()
    writer.close()
    with pytest.raises(OSError, match="closed"):
        writer.write(first_flush())


def test_a_flush_that_cannot_be_written_leaves_no_trace(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    bad = numbered_flush(0)
    bad.starts.append(("not", "a", "start"))  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        writer.write(bad)
    writer.write(numbered_flush(1))
    writer.close()
    reader = RunReader(run)
    reader.verify()
    assert reader.problems == []
    assert reader.shards[0].changes.number.tolist() == [5.0, 6.0, 7.0, 8.0, 9.0]


def test_every_writer_has_its_own_shard(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with ThreadPoolExecutor(8) as pool:
        writers = list(pool.map(lambda _: new_writer(run), range(24)))
    assert len({writer.folder for writer in writers}) == 24
    for writer in writers:
        writer.close()
    assert len(RunReader(run).shards) == 24


def test_a_shard_knows_where_it_comes_from(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    new_writer(run, host="gpu-node-3.lab", rank=12, pid=4711).close()
    shard = only_shard(run)
    assert (shard.host, shard.rank, shard.pid) == ("gpu-node-3.lab", 12, 4711)


@pytest.mark.parametrize("host", ["../../x", "", "..", "a/b", "ä" * 300, "x\x00y"])
def test_a_hostile_host_name_stays_inside(tmp_path: Path, host: str) -> None:
    run = new_run(tmp_path / "run")
    new_writer(run, host=host).close()
    assert len(RunReader(run).shards) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_shards_come_by_rank(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    for rank in (10, 2, 0):
        new_writer(run, rank=rank).close()
    assert [shard.rank for shard in RunReader(run).shards] == [0, 2, 10]


def test_writing_keeps_no_memory(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    flush = Flush(0, changes=changes(*range(50_000)))
    for _ in range(5):
        writer.write(flush)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(40):
        writer.write(flush)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB; 40 flushes are 72 MB
    writer.close()

"""A damaged run opens with its undamaged part, reports the damage, and never gives wrong data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from clew.errors import FormatError, NotARunError
from clew.records import Kept, Note, Site, Value
from clew.store.encode import UNSEALED
from clew.store.flush import Flush
from clew.store.folder import read_meta, write_meta
from clew.store.format import END_OF_STREAM, schema
from clew.store.framing import frames, header, header_length, seal_batch
from clew.store.reader import RunReader
from clew.store.stream import RecordStream
from store.making import (
    DEAD,
    PER_FLUSH,
    blobs,
    damage_in,
    new_run,
    new_writer,
    only_shard,
    records,
    shard_folder,
    small_run,
)


def test_a_complete_run_has_no_problems(tmp_path: Path) -> None:
    reader = RunReader(small_run(tmp_path / "run"))
    reader.verify()
    assert reader.problems == []


def cuts(length: int, boundaries: list[int]) -> list[int]:
    """Every byte; on the Pythons that are not the primary one every seventh, and every one near a boundary."""
    step = 1 if sys.version_info[:2] == (3, 11) else 7
    near = {at + off for at in boundaries for off in range(-70, 71) if 0 <= at + off <= length}
    return sorted(near.union(range(0, length + 1, step)))


def test_a_stream_cut_at_any_byte_opens_with_its_complete_batches(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", flushes=1, close=False)
    data = records(run).read_bytes()
    first = header_length(memoryview(data))
    assert first
    ends = [item.stop for item in frames(memoryview(data)[first:], first)]  # of the two batches
    assert (len(ends), ends[-1]) == (2, len(data))
    for cut in reversed(cuts(len(data), [0, first, *ends])):
        os.truncate(records(run), cut)
        stream = RecordStream(records(run))
        assert len(stream.read_new()) == sum(end <= cut for end in ends), f"cut at {cut}"
        assert bool(stream.tail) == (cut not in (first, *ends)), f"cut at {cut}"
        assert not stream.damage


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_run_with_a_cut_stream_opens_and_says_so(tmp_path: Path, share: float) -> None:
    run = small_run(tmp_path / "run")
    os.truncate(records(run), int(records(run).stat().st_size * share))
    assert len(damage_in(RunReader(run))) == 1


def test_zeros_at_the_end_are_reported_and_do_no_harm(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", close=False)
    with records(run).open("ab") as file:
        file.write(bytes(5000))
    reader = RunReader(run)
    assert len(reader.shards[0].changes) == 3 * PER_FLUSH
    assert any("zero bytes" in problem for problem in reader.problems)


def test_a_damaged_batch_costs_that_batch_only(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", flushes=5)
    data = bytearray(records(run).read_bytes())
    at = data.index(np.float64(2 * PER_FLUSH).tobytes() + np.float64(2 * PER_FLUSH + 1).tobytes())
    data[at] ^= 1
    records(run).write_bytes(data)
    reader = RunReader(run)
    expected = [float(i) for i in range(5 * PER_FLUSH) if not 2 * PER_FLUSH <= i < 3 * PER_FLUSH]
    assert reader.shards[0].changes.number.tolist() == expected
    assert len(reader.problems) == 1
    assert "damaged" in reader.problems[0]


def test_a_damaged_header_costs_nothing(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    data = bytearray(records(run).read_bytes())
    data[4:200] = bytes(196)
    records(run).write_bytes(data)
    reader = RunReader(run)
    assert len(reader.shards[0].changes) == 3 * PER_FLUSH
    assert any("header" in problem for problem in reader.problems)


def test_lost_definitions_are_replaced_by_unknown_ones(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    data = bytearray(records(run).read_bytes())
    data[data.index(b"/x/job.py")] ^= 1  # in the first batch, which has functions, sites and the start
    records(run).write_bytes(data)
    shard = only_shard(run)
    assert shard.sites == {0: Site(0, -1, "<unknown>", 0)}
    assert shard.functions[-1].name == "<unknown>"
    assert len(shard.changes) == 3 * PER_FLUSH


def test_a_message_inside_a_damaged_batch_is_not_taken_for_a_batch(tmp_path: Path) -> None:
    """A recorded value may itself hold a stream of clew's: the checksum knows where it stands."""
    stream = records(small_run(tmp_path / "inner", flushes=1)).read_bytes()
    inner = stream[header_length(memoryview(stream)) :][:4096]
    run = new_run(tmp_path / "run")
    writer = new_writer(run)
    for number in range(3):
        writer.write(Flush(number, values=[(number, Value("bytes", "{}", [inner]))]))
    writer.close()
    data = bytearray(records(run).read_bytes())
    second = data.index(inner, data.index(inner) + 1)
    data[second - 300] ^= 1
    records(run).write_bytes(data)
    shard = only_shard(run)
    assert shard.batches == 2
    assert [value.kept for value in shard.values([0, 1, 2])] == [Kept.FULL, Kept.OPAQUE, Kept.FULL]


@pytest.mark.parametrize("position", [0, 10_000, 19_999, 45_000])
def test_a_flipped_bit_in_a_blob_never_gives_wrong_data(tmp_path: Path, position: int) -> None:
    run = small_run(tmp_path / "run")
    data = bytearray(blobs(run).read_bytes())
    data[position] ^= 0x10
    blobs(run).write_bytes(data)
    reader = RunReader(run)
    hurt = [id for id in range(3) if reader.shards[0].value(id).kept is not Kept.FULL]
    assert hurt == [position // 20_032]
    value = reader.shards[0].value(hurt[0])
    assert (value.kept, value.body, value.parts) == (Kept.SUMMARY, None, [])
    assert value.summary.shape == (20_000,)
    assert "damaged" in value.why
    assert any("blobs.bin" in problem for problem in reader.problems)


def test_verify_reports_damaged_blobs_that_nobody_read(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    data = bytearray(blobs(run).read_bytes())
    data[100] ^= 1
    blobs(run).write_bytes(data)
    reader = RunReader(run)
    assert reader.problems == []
    reader.verify()
    assert len(reader.problems) == 1


def test_a_missing_blob_file_is_reported_at_once_and_by_the_value(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    blobs(run).unlink()
    reader = RunReader(run)
    assert ["blobs.bin is missing" in problem for problem in reader.problems] == [True]
    assert reader.shards[0].value(1).kept is Kept.SUMMARY


def test_a_short_blob_file_keeps_the_blobs_before_its_end(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    os.truncate(blobs(run), 25_000)
    reader = RunReader(run)
    assert any("short" in problem for problem in reader.problems)
    kept = [value.kept for value in reader.shards[0].values([0, 1, 2])]
    assert kept == [Kept.FULL, Kept.SUMMARY, Kept.SUMMARY]


def test_a_missing_stream_is_reported(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    records(run).unlink()
    reader = RunReader(run)
    assert len(reader.shards[0].changes) == 0
    assert any("records.arrow is missing" in problem for problem in reader.problems)


def test_a_missing_shard_that_run_json_lists_is_reported(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    write_meta(run, {"how": "finished", "shards": [shard_folder(run).name, "gone-r1-2-0"]})
    assert RunReader(run).problems == ["shard gone-r1-2-0 is missing"]


def test_a_shard_that_vanishes_while_open_is_reported(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    reader = RunReader(run)
    shutil.rmtree(shard_folder(run))
    reader.refresh()
    assert any("is missing" in problem for problem in reader.problems)
    assert len(reader.shards[0].changes) == 3 * PER_FLUSH


def test_a_shard_without_an_end_is_a_problem_once_its_process_is_gone(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", close=False)
    (problem,) = RunReader(run).problems
    assert "was killed or cut off: nothing it recorded after" in problem
    write_meta(run, {"how": "finished", **DEAD})
    assert RunReader(run).problems == [problem]


def test_bytes_after_the_end_are_reported(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    with records(run).open("ab") as file:
        file.write(b"something")
    reader = RunReader(run)
    assert reader.shards[0].closed
    assert any("follow the end" in problem for problem in reader.problems)


def test_a_damaged_page_is_a_problem_where_records_are(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    (run / "run.json").write_text('{"format": 1, "na')
    reader = RunReader(run)
    assert reader.meta == {}
    assert len(reader.shards[0].changes) == 3 * PER_FLUSH
    assert any("run.json" in problem for problem in reader.problems)


def test_a_missing_page_is_a_problem_where_records_are(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    (run / "run.json").unlink()
    assert "run.json is missing" in RunReader(run).problems


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": "1"}', '{"format": true}', '{"format": 0}', "[" * 100_000]
)
def test_invalid_metadata_without_records_is_refused(tmp_path: Path, content: str) -> None:
    run = new_run(tmp_path / "run")
    (run / "run.json").write_text(content)
    with pytest.raises(FormatError) as error:
        RunReader(run)
    assert error.value.slug == "damaged-meta"


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    write_meta(run, {"format": 99})
    with pytest.raises(FormatError, match="format 99") as error:
        RunReader(run)
    assert error.value.slug == "newer-format"


def test_a_shard_of_a_newer_format_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.store.writer.FORMAT", 7)
    run = small_run(tmp_path / "run")
    with pytest.raises(FormatError, match="format 7"):
        RunReader(run)


def test_a_stream_that_clew_did_not_write_is_reported_and_not_read(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    foreign = pa.schema([("changes", pa.int64()), ("x", pa.list_(pa.string()))])
    batch = pa.record_batch([pa.array([1]), pa.array([["a"]])], schema=foreign)
    records(run).write_bytes(header(foreign, {"clew.format": "1"}) + bytes(batch.serialize()))
    reader = RunReader(run)
    assert len(reader.shards[0].changes) == 0
    assert any("not one that clew wrote" in problem for problem in reader.problems)


def test_a_column_that_a_later_clew_added_is_left_out(tmp_path: Path) -> None:
    """The rule for versions: columns and fields may be added without a new version."""
    ours = schema()
    notes = pa.list_(pa.field("item", pa.struct([*ours.field("notes").type.value_type, ("mood", pa.string())])))
    later = ours.set(ours.get_field_index("notes"), pa.field("notes", notes)).insert(0, pa.field("extra", pa.int64()))
    row = {name: [] for name in ours.names} | {"time": 1, "blobs": 0, "checksum": UNSEALED, "extra": 7}
    row["notes"] = [{"kind": "k", "subject": "s", "text": "t", "count": 1, "mood": "fine"}]
    run = small_run(tmp_path / "run")
    head = header(later, {"clew.format": "1"})
    message = pa.RecordBatch.from_pylist([row], schema=later).serialize()
    records(run).write_bytes(head + seal_batch(message, len(head), UNSEALED) + END_OF_STREAM)
    blobs(run).unlink()
    reader = RunReader(run)
    assert reader.problems == []
    assert reader.shards[0].notes == [Note("k", "s", "t", 1)]


@pytest.mark.parametrize("damaged_part", ["nothing", "empty", "file", "other"])
def test_a_path_that_is_not_a_run_is_refused(tmp_path: Path, damaged_part: str) -> None:
    path = tmp_path / damaged_part
    if damaged_part == "file":
        path.write_text("x")
    elif damaged_part != "nothing":
        path.mkdir()
    if damaged_part == "other":
        (path / "shards").mkdir()
        (path / "notes.txt").write_text("x")
    for attempt in (RunReader, read_meta):
        with pytest.raises(NotARunError) as error:
            attempt(path)
        assert error.value.slug == "not-a-run"
        assert str(path) in str(error.value)


@pytest.mark.parametrize("damaged_part", ["run.json", "shards", "shard", "records.arrow", "blobs.bin"])
def test_links_out_of_the_run_folder_are_not_followed(tmp_path: Path, damaged_part: str) -> None:
    other, run = small_run(tmp_path / "other"), small_run(tmp_path / "run")
    target = {
        "run.json": lambda r: r / "run.json",
        "shards": lambda r: r / "shards",
        "shard": shard_folder,
        "records.arrow": records,
        "blobs.bin": blobs,
    }[damaged_part]
    path, outside = target(run), target(other)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(outside)
    reader = RunReader(run)
    if damaged_part == "run.json":
        assert reader.meta == {}
    elif damaged_part == "blobs.bin":
        assert reader.shards[0].value(0).kept is Kept.SUMMARY
    else:
        assert sum(len(shard.changes) for shard in reader.shards) == 0


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    for path in (records(run), blobs(run)):
        path.unlink()
        os.mkfifo(path)
    assert any("records.arrow is missing" in problem for problem in RunReader(run).problems)


FLIPPING = """
import random, sys, shutil, pathlib
sys.path[:0] = sys.argv[3:]
from store.making import *
base, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
run = small_run(base / f"run{seed}")
whole = {path: path.read_bytes() for path in (records(run), blobs(run))}
random = random.Random(seed)
right = [bytes(array(number)) for number in range(3)]
for attempt in range(150):
    path = random.choice(list(whole))
    data = bytearray(whole[path])
    for _ in range(random.choice((1, 1, 2, 10))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    if random.random() < 0.2:
        start = random.randrange(len(data))
        data[start:start + random.randrange(200)] = random.randbytes(random.randrange(200))
    path.write_bytes(data)
    reader = RunReader(run)
    (shard,) = reader.shards
    numbers = shard.changes.number.tolist()
    assert set(numbers) <= set(map(float, range(3 * PER_FLUSH))), numbers
    shard.starts.thread_name, shard.ends.error, shard.sites, shard.functions, shard.notes
    for number, value in enumerate(shard.values(range(3))):
        assert value.kept or bytes(value.parts[0]) == right[number], (attempt, number)
    reader.verify()
    padding = path.name == "blobs.bin" and all(value.kept == 0 for value in shard.values(range(3)))
    assert reader.problems or data == whole[path] or padding, (attempt, path)
    path.write_bytes(whole[path])
print("survived")
"""


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_never_crash_never_give_wrong_data_and_are_reported(tmp_path: Path, seed: int) -> None:
    """In a process of its own: a crash of the interpreter would show as a missing last word."""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-X", "faulthandler", "-c", FLIPPING, str(tmp_path), str(seed)]
    process = subprocess.run([*command, str(tests), str(tests.parent / "src")], capture_output=True, text=True)
    assert (process.stdout.strip(), process.returncode) == ("survived", 0), process.stderr


FORGING = """
import random, sys, pathlib
sys.path[:0] = sys.argv[3:]
from store.making import *
from clew.store import framing
base, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
run = small_run(base / f"run{seed}", flushes=1)
whole = records(run).read_bytes()
start = framing.header_length(memoryview(whole))
spans = [item for item in framing.frames(memoryview(whole)[start:], start) if isinstance(item, framing.Frame)]
random = random.Random(seed)
for attempt in range(300):
    data, span = bytearray(whole), random.choice(spans)
    for _ in range(random.choice((1, 2, 5))):
        at = random.randrange(span.start + 8, span.stop - 8)
        data[at] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    data[span.stop - 8 : span.stop] = framing._batch_checksum(memoryview(data)[span.start : span.stop - 8], span.start)
    records(run).write_bytes(data)
    reader = RunReader(run)
    (shard,) = reader.shards
    for table in (shard.changes, shard.starts, shard.ends):
        for name, kind in vars(type(table)).items():
            if type(kind).__name__ == "_Column":
                getattr(table, name).tolist()
    shard.changes.call_runs(), shard.changes.is_sorted("time"), shard.changes.is_constant("call")
    shard.sites, shard.functions, shard.notes, shard.values(range(3)), reader.verify(), reader.problems
print("survived")
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_forged_batch_with_the_right_checksum_never_crashes(tmp_path: Path, seed: int) -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-X", "faulthandler", "-c", FORGING, str(tmp_path), str(seed)]
    process = subprocess.run([*command, str(tests), str(tests.parent / "src")], capture_output=True, text=True)
    assert (process.stdout.strip(), process.returncode) == ("survived", 0), process.stderr[-3000:]

"""Changes, one and many."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.records import DELETED, NotKept
from reading.writing import Written, simple_run


def test_a_change_knows_everything_about_itself(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call("f")
    shard.change(call, "x", [1], line=4, at=50)
    shard.close()
    (change,) = writer.open().changes("x")
    assert (change.name, change.value, change.line, change.step, change.time) == ("x", [1], 4, 0, 0.05)
    assert change.function == "f"
    assert change.call is not None
    assert change.call.id == call
    assert repr(change) == "<Change x = [1] at line 4>"


def test_a_value_is_read_back_once(tmp_path: Path) -> None:
    change = simple_run(tmp_path, {"x": [[1]]}).changes("x")[0]
    assert change.value is change.value


def test_all_changes_come_in_order_of_time_across_names_and_processes(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        call = shard.call(at=0)
        shard.change(call, "x", rank, at=10 + rank)
        shard.change(call, "y", rank, at=20 + rank)
        shard.close()
    assert [(c.name, c.value) for c in writer.open().changes()] == [("x", 0), ("x", 1), ("y", 0), ("y", 1)]


def test_changes_at_the_same_moment_keep_the_order_they_were_written_in(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call(at=0)
    for value in range(20):
        shard.change(call, "x", value, at=5)
    shard.change(call, "x", 99, at=4)
    shard.close()
    assert writer.open()["x"].values == [99, *range(20)]


def test_a_deletion_is_a_change(tmp_path: Path) -> None:
    changes = simple_run(tmp_path, {"x": [1, DELETED]}).changes("x")
    assert changes[1].value is DELETED


def test_rows_that_carry_the_step_are_not_changes(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    shard.step(call, 1)
    shard.change(call, "x", 2)
    shard.close()
    run = writer.open()
    assert run.names == ["x"]
    assert [change.name for change in run.changes()] == ["x"]
    assert run.calls()[0].data == {"x": [2]}


def test_a_slice_is_again_a_sequence_of_changes(tmp_path: Path) -> None:
    changes = simple_run(tmp_path, {"x": list(range(10))}).changes()
    assert [change.value for change in changes[2:8][1:3]] == [3, 4]
    assert changes[3:4] == [changes[3]]
    assert len({changes[0], changes[0], changes[1]}) == 2


def test_a_change_whose_call_was_lost_has_none(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.change(shard.call(), "x", 1)
    shard._rows[0] = (99, *shard._rows[0][1:])
    shard.close()
    assert writer.open().changes("x")[0].call is None


def test_a_value_whose_record_was_lost_says_so(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.change(shard.call(), "x", [1])
    shard._flush.values.clear()
    shard.close()
    value = writer.open()["x"][0]
    assert isinstance(value, NotKept)
    assert "lost" in value.why


def test_rows_whose_site_was_lost_are_there_without_a_name(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    shard.change(call, "x", 1)
    for site in (0, 999_999):
        shard._rows.append((call, site, shard.now, 1, 2.0))
    shard.close()
    run = writer.open()
    assert run.names == ["x", "<unknown>"]
    assert run.calls()[0].data == {"x": [1], "<unknown>": [2.0, 2.0]}
    assert run["<unknown>"].lines == [0, 0]
    assert run["<unknown>"].places == [("<unknown>", "<unknown>", 0)]


@pytest.mark.parametrize("site", [-5, 2**31 - 1])
def test_rows_with_a_number_no_site_has_do_no_harm(tmp_path: Path, site: int) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    shard.change(call, "x", 1)
    shard._rows.append((call, site, shard.now, 1, 2.0))
    shard.close()
    run = writer.open()
    assert run["x"].values == [1]
    assert {change.name for change in run.changes()} <= {"x", "<unknown>"}
    assert run.calls()[0].data["x"] == [1]


@pytest.mark.parametrize("processes", [1, 3])
def test_many_names_asked_for_one_after_the_other_have_their_own_rows(tmp_path: Path, processes: int) -> None:
    """After a few names all rows are sorted by name; the answers must not change."""
    writer = Written(tmp_path)
    for process in range(processes):
        shard = writer.shard(process=process)
        call = shard.call(at=0)
        for value in range(200):
            shard.change(call, f"n{value % 11}", value, at=value * 10 + process)
        shard.close()
    run = writer.open()
    for number in range(11):
        expected = [value for value in range(200) if value % 11 == number for _ in range(processes)]
        assert run[f"n{number}"].values == expected
        assert run[f"n{number}"].steps == list(range(len(expected)))


def test_no_change_is_made_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import clew.reading.change as home

    run = simple_run(tmp_path, {"x": list(range(5000))})
    made: list[int] = []
    monkeypatch.setattr(home, "Change", lambda block, index: made.append(index))
    changes = run.changes()
    assert len(changes[10:-10][5:]) == 4975
    assert len(run["x"]) == 5000
    assert made == []
    changes[7]
    assert made == [0]


def test_many_changes_are_looked_at_block_by_block(tmp_path: Path) -> None:
    values = [number if number % 3 else [number] for number in range(3000)]
    changes = simple_run(tmp_path, {"x": values}).changes()
    assert [change.value for change in changes] == values
    assert [change.step for change in changes] == list(range(3000))
    assert {change.name for change in changes} == {"x"}
    assert {(change.line, change.function) for change in changes} == {(10, "train")}
    assert [change.time for change in changes] == sorted(change.time for change in changes)

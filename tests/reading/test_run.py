"""A run as people read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import FormatError, NotARunError, UnknownNameError
from clew.reading import all_runs, open_run
from clew.reading.run import Run
from reading.writing import START, Written, simple_run


def test_names_come_in_the_order_they_first_changed(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"lr": [0.1], "loss": [1.0, 0.5], "acc": [0]})
    assert run.names == ["lr", "loss", "acc"]
    assert list(run) == ["lr", "loss", "acc"]


def test_names_of_several_processes_are_one_list_in_order_of_time(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    late, early = writer.shard(), writer.shard(process=1)
    late.change(late.call(at=1), "b", 1, at=20)
    early.change(early.call(at=1), "a", 1, at=10)
    early.change(1, "b", 2, at=30)
    late.close()
    early.close()
    assert writer.open().names == ["a", "b"]


def test_a_site_that_never_saw_a_change_is_not_a_name(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.change(shard.call(), "seen", 1)
    shard.change(1, "unseen", 1)
    shard._rows.pop()
    shard.close()
    run = writer.open()
    assert run.names == ["seen"]
    assert "unseen" not in run


def test_an_unknown_name_is_an_error_that_suggests_the_nearest(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"loss": [1.0]})
    with pytest.raises(UnknownNameError, match="did you mean `loss`"):
        run["los"]
    with pytest.raises(KeyError):
        run.changes("los")


def test_an_empty_run_opens(tmp_path: Path) -> None:
    run = Written(tmp_path).open()
    assert run.names == []
    assert len(run.changes()) == 0
    assert len(run.calls()) == 0
    assert str(run.tree()) == "no calls were recorded"
    assert run.functions() == []
    assert run._repr_html_()


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        open_run(tmp_path)
    with pytest.raises(NotARunError):
        Run(tmp_path / "nowhere")


def test_a_run_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    writer = Written(tmp_path, format=99)
    with pytest.raises(FormatError, match="99"):
        writer.open()


def test_a_run_whose_page_is_damaged_opens_with_its_records_and_says_so(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"loss": [1.0, 0.5]})
    (run.path / "run.json").write_text("{")
    reopened = open_run(run.path)
    assert reopened["loss"].values == [1.0, 0.5]
    assert reopened.problems


def test_a_truncated_run_gives_what_is_whole(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    for value in range(5):
        shard.change(call, "x", value)
        shard.flush()
    shard.writer.close()
    file = next(writer.folder.glob("shards/*/records.arrow"))
    file.write_bytes(file.read_bytes()[:-900])
    run = writer.open()
    assert 0 < len(run["x"]) < 5
    assert run["x"].values == list(range(len(run["x"])))
    assert run.problems


def test_refresh_takes_in_what_was_written_since(tmp_path: Path) -> None:
    writer = Written(tmp_path, how="running", pid=1)
    shard = writer.shard()
    call = shard.call()
    shard.change(call, "x", 1)
    shard.flush()
    run = writer.open()
    before = run["x"]
    assert before.values == [1]
    assert not run.refresh()
    shard.change(call, "x", 2)
    shard.flush()
    second_shard = writer.shard(rank=1)
    second_shard.change(second_shard.call(at=5), "y", 3, at=6)
    second_shard.close()
    assert run.refresh()
    assert run["x"].values == [1, 2]
    assert run["y"].values == [3]
    assert before.values == [1], "what was read before stays as it was"
    assert before.changes[0] == run["x"].changes[0]
    shard.close()


def test_all_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    for number, name in enumerate(["100000-b", "090000-a"]):
        Written(tmp_path, name, started_ns=START + number)
    assert [run.name for run in all_runs(tmp_path)] == ["b", "a"]


def test_all_runs_of_a_folder_that_is_not_there_are_none(tmp_path: Path) -> None:
    assert all_runs(tmp_path / "nowhere") == []


def test_duration_is_none_while_no_end_is_written(tmp_path: Path) -> None:
    assert Written(tmp_path, "1-a").open().duration == 5.0
    assert Written(tmp_path, "2-b", ended_ns=None).open().duration is None


def test_a_run_without_its_start_counts_time_from_its_first_call(tmp_path: Path) -> None:
    writer = Written(tmp_path, started_ns=None)
    shard = writer.shard()
    call = shard.call(at=100)
    shard.change(call, "x", 1, at=101)
    shard.close()
    assert writer.open()["x"].times.tolist() == [0.001]


def test_functions_are_counted_and_timed_over_all_processes(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        for error in (None, "ValueError: no"):
            call = shard.call("step", at=0)
            shard.end(call, at=100, error=error)
        shard.call("loop", at=0)
        shard.close()
    step, loop = writer.open().functions()
    assert (step.name, step.calls, step.ended, step.errors) == ("step", 4, 4, 2)
    assert step.seconds == pytest.approx(0.4)
    assert (loop.name, loop.calls, loop.ended) == ("loop", 2, 0)


def test_names_are_counted_over_all_processes(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for process in (0, 1):
        shard = writer.shard(process=process)
        call = shard.call()
        shard.step(call, 1)
        for name in ["loss", "loss", f"only{process}"] + [f"n{i}" for i in range(30)]:
            shard.change(call, name, 1.0)
        shard.close()
    counts = writer.open().tables.table.counts
    assert (counts["loss"], counts["only0"], counts["only1"], counts["n7"]) == (4, 1, 1, 2)
    assert list(counts) == writer.open().names
    assert "step" not in counts

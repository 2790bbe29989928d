"""Calls of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.reading.run import Run
from reading.writing import Shard, Written


def finished(written: Written, shard: Shard) -> Run:
    shard.close()
    return written.open()


def test_a_call_knows_what_it_was_and_how_it_went(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard(rank=3)
    call = shard.call("Trainer.step", at=10, args={"x": 3, "y": [1]}, stage="fit", file="a/b.py", line=12)
    shard.end(call, at=30, result={"loss": 0.5})
    (one,) = finished(writer, shard).calls()
    assert (one.function, one.module, one.file, one.line) == ("Trainer.step", "pkg.mod", "a/b.py", 12)
    assert one.args == {"x": 3, "y": [1]}
    assert one.result == {"loss": 0.5}
    assert one.error is None
    assert (one.start, one.duration) == (pytest.approx(0.01), pytest.approx(0.02))
    assert (one.thread, one.rank, one.stage) == ("main", 3, "fit")
    assert one.parent is None


def test_a_call_that_raised_has_the_error_and_no_result(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.end(shard.call(), error="ValueError: no")
    (call,) = finished(writer, shard).calls()
    assert (call.error, call.result) == ("ValueError: no", None)
    assert "raised ValueError: no" in repr(call)


def test_a_call_that_has_not_ended_has_no_duration(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.call()
    (call,) = finished(writer, shard).calls()
    assert (call.duration, call.error, call.result, call.args) == (None, None, None, {})
    assert repr(call) == "<Call train not ended>"


def test_calls_come_in_the_order_they_began_over_all_processes(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank, times in enumerate([(10, 40), (20, 30)]):
        shard = writer.shard(rank)
        for at in times:
            shard.call(at=at)
        shard.close()
    assert [(call.rank, round(call.start * 1000)) for call in writer.open().calls()] == [
        (0, 10),
        (1, 20),
        (1, 30),
        (0, 40),
    ]


def test_parents_and_children(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    second_call = writer.shard(1)
    second_call.call("elsewhere", at=0)
    second_call.close()
    shard = writer.shard()
    top = shard.call("top", at=1)
    first = shard.call("a", parent=top)
    shard.call("inner", parent=first)
    shard.call("b", parent=top)
    run = finished(writer, shard)
    (call,) = run.calls("top")
    assert [child.function for child in call.children] == ["a", "b"]
    (inner,) = run.calls("inner")
    assert inner.parent is not None
    assert inner.parent.parent == call
    assert len(inner.children) == 0
    assert [root.function for root in run.tree().roots] == ["elsewhere", "top"]


def test_a_call_whose_parent_was_lost_is_a_root(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.call("orphan", parent=99)
    run = finished(writer, shard)
    assert run.calls()[0].parent is None
    assert [root.function for root in run.tree().roots] == ["orphan"]


def test_equal_ids_of_two_processes_are_two_calls(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        call = shard.call(at=rank)
        shard.change(call, "x", rank, at=rank + 10)
        shard.close()
    a, b = writer.open().calls()
    assert a.id == b.id
    assert a != b
    assert (a.data, b.data) == ({"x": [0]}, {"x": [1]})


def test_changes_of_a_call_are_its_own_and_in_order(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call, two = shard.call(), shard.call()
    for value in range(3):
        shard.change(call, "x", value)
        shard.change(two, "x", value * 10)
        shard.flush()
    run = finished(writer, shard)
    a, b = run.calls()
    assert a.data == {"x": [0, 1, 2]}
    assert b.data == {"x": [0, 10, 20]}
    assert [change.call for change in a.changes] == [a, a, a]


def test_a_call_asked_for_often_answers_the_same(tmp_path: Path) -> None:
    """After a few questions all rows are sorted by call; the answers must not change."""
    writer = Written(tmp_path)
    shard = writer.shard()
    calls = [shard.call() for _ in range(20)]
    for value in range(100):
        shard.change(calls[value * 7 % 20], "x", value)
    run = finished(writer, shard)
    for number, call in enumerate(run.calls()):
        assert call.data == {"x": [value for value in range(100) if value * 7 % 20 == number]}


def test_changes_that_were_held_back_are_where_they_happened(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call()
    shard.change(call, "x", 1, at=10)
    shard.change(call, "x", 3, at=30)
    shard.change(call, "y", 2, at=20)
    assert [change.value for change in finished(writer, shard).calls()[0].changes] == [1, 2, 3]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("step", ["Trainer.step", "step"]),
        ("Trainer.step", ["Trainer.step"]),
        ("pkg.mod.Trainer.step", ["Trainer.step"]),
        ("mod.Trainer.step", ["Trainer.step"]),
        ("mod:Trainer.step", ["Trainer.step"]),
        ("pkg.mod:step", ["Trainer.step", "step"]),
        ("other:step", []),
        ("Trainer.*", ["Trainer.step", "Trainer.fit"]),
        ("*st*", ["Trainer.step", "step"]),
        ("inner", ["outer.<locals>.inner"]),
        ("outer.inner", ["outer.<locals>.inner"]),
        ("outer.<locals>.inner", ["outer.<locals>.inner"]),
        ("tep", []),
        (None, ["Trainer.step", "Trainer.fit", "step", "outer.<locals>.inner"]),
    ],
)
def test_calls_by_name_or_pattern(tmp_path: Path, pattern: str | None, found: list[str]) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for name in ("Trainer.step", "Trainer.fit", "step", "outer.<locals>.inner"):
        shard.call(name)
    assert [call.function for call in finished(writer, shard).calls(pattern)] == found


def test_arguments_of_which_a_part_was_kept_are_that_part(tmp_path: Path) -> None:
    from clew.records import Kept
    from clew.values import capture

    writer = Written(tmp_path)
    shard = writer.shard()
    value = capture({"x": 1}).value
    value.kept, value.why = Kept.PART, "too long"
    shard.call(args=value)  # type: ignore[arg-type]
    assert finished(writer, shard).calls()[0].args == {"x": 1}


def test_a_list_of_calls_compares_and_adds_like_a_list(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    shard.call("a")
    shard.call("b")
    run = finished(writer, shard)
    calls = run.calls()
    assert calls == list(calls)
    assert calls != [calls[0]]
    assert run.calls("zzz") == []
    assert len(calls + calls[:1]) == 3
    assert calls[-1].function == "b"

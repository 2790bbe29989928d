"""The calls of a run as a tree."""

from __future__ import annotations

from pathlib import Path

from history.writing import Written


def test_it_prints_calls_under_their_callers(tmp_path: Path) -> None:
    written = Written(tmp_path)
    shard = written.shard()
    top = shard.call("train", args={"epochs": 2}, at=0)
    inner = shard.call("step", parent=top, at=1)
    shard.change(inner, "x", 1, at=1)
    shard.end(inner, at=2, error="ValueError: no")
    shard.end(top, at=4, result=7)
    shard.close()
    tree = written.open().tree()
    assert str(tree).splitlines() == [
        "train(epochs=2) → 7  4 ms",
        "  step()  raised ValueError: no after 1 ms  1 change",
    ]
    assert repr(tree) == str(tree)
    assert len(tree) == 2


def test_many_calls_of_one_function_are_counted(tmp_path: Path) -> None:
    written = Written(tmp_path)
    shard = written.shard()
    for _ in range(1500):
        shard.call("step")
    shard.call("after")
    shard.close()
    lines = str(written.open().tree()).splitlines()
    assert len(lines) == 4
    assert lines[-1] == "... 1,498 more calls"


def test_what_follows_counted_calls_is_shown(tmp_path: Path) -> None:
    written = Written(tmp_path)
    shard = written.shard()
    for name in ["step"] * 10 + ["after"]:
        shard.call(name)
    shard.close()
    lines = str(written.open().tree()).splitlines()
    assert lines[3:] == ["... 7 more calls of step", "after()  not ended"]


def test_a_deep_recursion_is_cut_and_says_so(tmp_path: Path) -> None:
    written = Written(tmp_path)
    shard = written.shard()
    call = -1
    for _ in range(2000):
        call = shard.call("f", parent=call)
    shard.close()
    text = str(written.open().tree())
    assert "deeper than" in text
    assert len(text.splitlines()) < 100


def test_a_wide_tree_is_cut_and_says_how_many_calls_there_are(tmp_path: Path) -> None:
    written = Written(tmp_path)
    shard = written.shard()
    for number in range(900):
        shard.call(f"f{number}")
    shard.close()
    lines = str(written.open().tree()).splitlines()
    assert lines[-1] == "... more; 900 calls in all"
    assert len(lines) == 201

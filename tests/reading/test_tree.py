"""The calls of a run as a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.errors import OptionError, UnknownNameError
from clew.reading.run import Run
from clew.reading.tree import Tree
from reading.writing import Shard, Written


def test_it_prints_calls_under_their_callers(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    top = shard.call("train", args={"epochs": 2}, at=0)
    inner = shard.call("step", parent=top, at=1)
    shard.change(inner, "x", 1, at=1)
    shard.end(inner, at=2, error="ValueError: no")
    shard.end(top, at=4, result=7)
    shard.close()
    tree = writer.open().tree()
    assert str(tree).splitlines() == [
        "train  mod.py:1  [main]  4 ms",
        "├─ epochs: 2",
        "├─ step  mod.py:1  1 ms",
        "│  ├─ x@10  1",
        "│  └─ raised ValueError: no",
        "└─ → 7",
    ]
    assert repr(tree) == str(tree)
    assert len(tree) == 2


def test_many_calls_of_one_function_are_counted(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for _ in range(1500):
        shard.call("step")
    shard.call("after")
    shard.close()
    lines = str(writer.open().tree()).splitlines()
    assert len(lines) == 4
    assert lines[1] == "… 1,498 more like it"
    assert lines[3].startswith("after")


def test_a_deep_recursion_is_cut_and_says_so(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = -1
    for _ in range(2000):
        call = shard.call("f", parent=call)
    shard.close()
    lines = str(writer.open().tree()).splitlines()
    assert len(lines) == 201
    assert lines[-1].startswith("… more; 2,000 calls in all")
    assert max(map(len, lines)) < 200


def test_a_wide_tree_is_cut_and_says_how_many_calls_there_are(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for number in range(900):
        shard.call(f"f{number}")
    shard.close()
    tree = writer.open().tree()
    lines = str(tree).splitlines()
    assert lines[-1].startswith("… more; 900 calls in all")
    assert len(lines) == 201
    assert len(tree.text(full=True).splitlines()) == 900


# ---- what goes through a followed call


def followed(shard: Shard, name: str, parent: int = -1, **inputs: Any) -> int:
    """A call as `clew.follow` writes it: its inputs as rows, and a row in its caller."""
    call = shard.call(name, parent=parent)
    if parent >= 0:
        shard.change(parent, "call", call, role="call")
    for key, value in inputs.items():
        shard.change(call, key, value, role="input")
    return call


def returned(shard: Shard, call: int, value: Any) -> None:
    shard.change(call, "return", value, role="output")
    shard.end(call)


def test_inputs_changes_callees_and_results_come_in_their_order(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    top = followed(shard, "transform", video=np.zeros((2, 3, 4), np.uint8))
    shard.change(top, "video", np.zeros((4, 2, 3), np.uint8), line=12)
    inner = followed(shard, "scale", top, x=1)
    returned(shard, inner, 0.5)
    shard.change(top, "video", np.zeros((4, 2, 3), np.float32), line=14)
    returned(shard, top, np.zeros((4, 2, 3), np.float32))
    shard.close()
    lines = [line.rpartition("  ")[0] if " ms" in line else line for line in str(writer.open().tree()).splitlines()]
    assert lines == [
        "transform  mod.py:1  [main]",
        "├─ video: uint8 (2, 3, 4)",
        "├─ video@12  shape (2, 3, 4) → (4, 2, 3)",
        "├─ scale  mod.py:1",
        "│  ├─ x: 1",
        "│  └─ → 0.5",
        "├─ video@14  uint8 → float32",
        "└─ → float32 (4, 2, 3)",
    ]


# ---- filters


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """main → Trainer.step → (load, given `path`; loss_of, which raises and is slow); main → save, given `video`."""
    writer = Written(tmp_path)
    shard = writer.shard()
    main = shard.call("main", at=0)
    step = shard.call("Trainer.step", parent=main, at=1)
    load = shard.call("load", parent=step, at=2, args={"path": "x"})
    shard.change(load, "video", 1, at=3)
    shard.end(load, at=4)
    loss = shard.call("loss_of", parent=step, at=5)
    shard.end(loss, at=95, error="ValueError: no")
    shard.change(step, "other", 1, at=96)
    shard.end(step, at=97)
    save = shard.call("save", parent=main, at=98)
    shard.change(save, "video", 5, at=99, role="input")
    shard.end(save, at=100)
    shard.end(main, at=100)
    shard.close()
    return writer.open()


def shown(tree: Tree) -> list[str]:
    """The calls of a drawn tree."""
    return [line.split("─ ")[-1].split()[0] for line in str(tree).splitlines() if "mod.py" in line]


@pytest.mark.parametrize("pattern", ["step", "Trainer.step", "Trainer.*", "mod:Trainer.step"])
def test_a_function_is_shown_with_what_it_called_and_what_led_to_it(run: Run, pattern: str) -> None:
    tree = run.tree(pattern)
    assert shown(tree) == ["main", "Trainer.step", "load", "loss_of"]
    assert len(tree) == 4
    assert [root.function for root in tree.roots] == ["main"]


def test_a_name_shows_the_calls_in_which_it_changed_or_was_given(run: Run) -> None:
    assert shown(run.tree(name="video")) == ["main", "Trainer.step", "load", "save"]
    assert "other" not in str(run.tree(name="video"))
    assert shown(run.tree(name="path")) == ["main", "Trainer.step", "load"]


def test_errors_shows_the_calls_that_raised(run: Run) -> None:
    tree = run.tree(errors=True)
    assert shown(tree) == ["main", "Trainer.step", "loss_of"]
    assert "raised ValueError: no" in str(tree)
    assert "other" not in str(tree), "a call that only led there is not told in full"


@pytest.mark.parametrize("slow", ["90ms", "0.09 s", 0.09, "90000us", "90000 µs", "0.0015min"])
def test_slow_shows_the_calls_that_took_at_least_so_long(run: Run, slow: str | float) -> None:
    assert shown(run.tree(slow=slow)) == ["main", "Trainer.step", "loss_of"]


def test_filters_together_must_all_fit(run: Run) -> None:
    assert shown(run.tree("load", errors=True)) == []
    assert str(run.tree("load", errors=True)) == "no call fits"
    assert shown(run.tree("step", errors=True, slow="1ms")) == ["main", "Trainer.step", "loss_of"]


def test_an_unknown_function_or_name_is_an_error_with_the_nearest(run: Run) -> None:
    with pytest.raises(UnknownNameError, match=r"No function `lod` .* did you mean `load`\?"):
        run.tree("lod")
    with pytest.raises(UnknownNameError, match=r"No `vidoe` .* did you mean `video`\?"):
        run.tree(name="vidoe")


@pytest.mark.parametrize("slow", ["soon", "", "10 parsecs", -1, float("nan"), "-3ms"])
def test_a_time_that_is_none_is_an_error(run: Run, slow: Any) -> None:
    with pytest.raises(OptionError, match="not a length of time"):
        run.tree(slow=slow)


def test_a_filter_finds_its_way_through_a_recursion_and_several_processes(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        call = -1
        for depth in range(1500):
            call = shard.call("f" if depth else "top", parent=call)
        last = shard.call("last", parent=call)
        shard.call("aside", parent=1)
        if rank:
            shard.end(last, error="ValueError: no")
        shard.close()
    run = writer.open()
    assert len(run.tree(errors=True)) == 1501
    assert len(run.tree("last")) == 3002
    assert len(run.tree("top")) == 3004
    assert len(run.tree("aside")) == 4

"""Equal names of two functions, modes or ranks are series of their own, and an ambiguous name lists them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from clew.errors import AmbiguousNameError
from clew.export import export
from clew.reading.run import Run
from reading.writing import Written


def two_functions(base: Path) -> Run:
    writer = Written(base)
    shard = writer.shard()
    for function, values in {"train": [3, 2, 1], "valid": [9, 8], "train_more": []}.items():
        call = shard.call(function)
        for value in values:
            shard.change(call, "loss", value)
    shard.change(shard.call("train"), "lr", 0.1)
    shard.close()
    return writer.open()


def test_equal_names_of_two_functions_are_two_series(tmp_path: Path) -> None:
    run = two_functions(tmp_path)
    assert run.names == ["train.loss", "valid.loss", "lr"]
    assert (run["train.loss"].values, run["valid.loss"].values) == ([3, 2, 1], [9, 8])
    assert run["train.loss"].steps == [0, 1, 2]
    assert run["train.loss"].name == "train.loss"


def test_an_ambiguous_name_lists_the_candidates(tmp_path: Path) -> None:
    run = two_functions(tmp_path)
    assert "loss" in run
    for ask in (run.__getitem__, run.series):
        with pytest.raises(AmbiguousNameError, match=r"2 series .* `loss`: `train.loss`, `valid.loss`\."):
            ask("loss")


def test_a_name_may_be_qualified_where_it_need_not(tmp_path: Path) -> None:
    run = two_functions(tmp_path)
    assert run["train.lr"].name == run["pkg.mod.train.lr"].name == run["lr"].name == "lr"
    assert run["mod.valid.loss"].values == [9, 8]
    assert "ain.loss" not in run
    assert "valid.lr" not in run


@pytest.mark.parametrize("name", ["loss", "*.loss"])
def test_changes_may_be_of_several_series_because_each_says_its_function(tmp_path: Path, name: str) -> None:
    run = two_functions(tmp_path)
    assert [(change.name, change.function, change.value) for change in run.changes(name)] == [
        ("loss", "train", 3), ("loss", "train", 2), ("loss", "train", 1), ("loss", "valid", 9), ("loss", "valid", 8),
    ]  # fmt: skip
    assert [change.value for change in run.changes("valid.loss")] == [9, 8]


def test_functions_are_distinguished_by_as_little_as_is_needed(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for function, module in (("A.step", "m"), ("B.step", "m"), ("step", "m"), ("step", "n"), ("f.<locals>.g", "m")):
        shard.change(shard.call(function, module=module), "x", 1)
    shard.close()
    assert writer.open().names == ["A.step.x", "B.step.x", "m.step.x", "n.step.x", "g.x"]


def test_a_qualified_name_is_not_an_expression_that_was_watched(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = shard.call("train")
    shard.change(call, "train.loss", "an attribute")
    shard.change(call, "loss", "of train")
    shard.change(shard.call("valid"), "loss", "of valid")
    shard.close()
    run = writer.open()
    assert {name: run[name].values for name in run} == {
        "train.loss": ["an attribute"], "mod.train.loss": ["of train"], "valid.loss": ["of valid"],
    }  # fmt: skip


def test_ranks_and_modes_are_series_of_their_own(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for rank in (0, 1):
        shard = writer.shard(rank)
        for mode in ("train", "eval"):
            shard.change(shard.call("Net.iteration"), "fc", f"{mode} {rank}", mode=mode)
        shard.change(shard.call("train"), "loss", rank)
        shard.close()
    run = writer.open()
    assert set(run.names) == {
        "fc@mode=train@rank=0", "fc@mode=eval@rank=0", "loss@rank=0",
        "fc@mode=train@rank=1", "fc@mode=eval@rank=1", "loss@rank=1",
    }  # fmt: skip
    assert run["fc@mode=eval@rank=1"].values == run.series("fc", mode="eval", rank=1).values == ["eval 1"]
    assert run["train.loss@rank=1"].values == run.series("loss", rank=1).values == [1]
    with pytest.raises(AmbiguousNameError, match=r"2 series .* `fc@mode=eval@rank=0`, `fc@mode=eval@rank=1`"):
        run["fc@mode=eval"]


def test_processes_of_one_rank_share_a_series_also_when_their_main_module_has_another_name(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    for process, module in enumerate(("__main__", "__mp_main__")):
        shard = writer.shard(process=process)
        shard.change(shard.call("work", module=module), "x", process)
        shard.close()
    assert writer.open()["x"].values == [0, 1]


def test_trees_take_both_forms_of_a_name(tmp_path: Path) -> None:
    run = two_functions(tmp_path)
    assert [call.function for call in run.tree(name="loss").roots] == ["train", "valid"]
    assert [call.function for call in run.tree(name="valid.loss").roots] == ["valid"]
    assert "loss" in run.tree(name="valid.loss").text()


def test_exports_call_them_by_these_names(tmp_path: Path) -> None:
    run = two_functions(tmp_path)
    with export(run, "csv", tmp_path / "out.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == ["train.loss"] * 3 + ["valid.loss"] * 2 + ["lr"]
    exported = json.loads(export(run, "json", tmp_path / "out.json").read_text())
    assert list(exported["names"]) == ["train.loss", "valid.loss", "lr"]


def test_methods_of_a_class_share_what_is_the_objects_and_two_classes_do_not(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for number, function in enumerate(["Box.__init__", "Box.grow", "Tree.__init__", "test.<locals>.Box.grow"]):
        call = shard.call(function)
        shard.change(call, "self.x", number)
        shard.change(call, "size", number)
    shard.close()
    run = writer.open()
    assert [name for name in run.names if "self" in name] == [
        "mod.Box.self.x", "Tree.self.x", "test.Box.self.x",
    ]  # fmt: skip
    assert run["mod.Box.self.x"].values == [0, 1]
    assert run["mod.Box.grow.size"].values == [1]

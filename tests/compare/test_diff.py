"""The result of `clew.diff`, also for runs that are unfinished, empty or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import NotARunError, OptionError, UnknownNameError
from clew.reading.run import Run
from compare.programs import Node, write
from reading.writing import Written, simple_run


def program(loss: float = 1.0, *, inner: str = "scale", wrapped: bool = False, helper: bool = False) -> list[Node]:
    """train calls step three times, each of which calls another; `wrapped` and `helper` are refactorings."""
    steps = []
    for number in range(3):
        call = Node(inner, [("y", float(number))])
        inside = [Node("helper", [("z", 1)]), call] if helper else [call]
        values = [("lr", 0.1), ("loss", loss if number == 1 else 1.0)]
        steps.append(Node("step", values, [Node("around", [], inside)] if wrapped else inside))
    return [Node("train", [("epoch", 0)], steps)]


def pair(base: Path, *programs: list[Node]) -> list[Run]:
    return [write(base, name, one) for name, one in zip("abcd", programs, strict=False)]


# ---- the first difference


def test_the_first_difference_knows_where_it_is(tmp_path: Path) -> None:
    comparison = clew.diff(*pair(tmp_path, program(), program(2.0)))
    first = comparison.first
    assert (first.name, first.function, first.file, first.line, first.what) == ("loss", "step", "mod.py", 11, "change")
    assert (first.a, first.b, first.ordinal, first.step) == (1.0, 2.0, (2, 3), None)
    assert (first.call_a.function, first.call_b.function) == ("step", "step")
    assert [(argument.name, argument.a, argument.equal) for argument in first.inputs] == [("x", 2.0, True)]
    assert (first.role, first.reason) == ("producer", "its inputs are equal: `x`")
    assert comparison


def test_what_follows_from_a_difference_is_a_propagator(tmp_path: Path) -> None:
    runs = []
    for name, y in (("a", 1.0), ("b", 2.0)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        outer = shard.call("outer")
        shard.change(outer, "x", 0.0, role="input")
        inner = shard.call("inner", parent=outer)
        shard.change(inner, "x", 0.0, role="input")
        shard.change(inner, "y", y)
        shard.change(inner, "return", y + 1, role="output")
        shard.end(inner)
        after = shard.call("after", parent=outer)
        shard.change(after, "given", y + 1, role="input")
        shard.change(after, "return", y + 2, role="output")
        shard.end(after)
        shard.change(outer, "return", y + 2, role="output")
        shard.end(outer)
        shard.close()
        runs.append(writer.open())
    actual = [(difference.function, difference.name, difference.role) for difference in clew.diff(*runs).differences]
    assert actual == [
        ("inner", "y", "producer"),
        ("inner", "return", "propagator"),
        ("after", "given", "propagator"),
        ("after", "return", "propagator"),
        ("outer", "return", "propagator"),
    ]


def test_an_argument_that_the_calling_function_made_from_equal_inputs_was_made_there(tmp_path: Path) -> None:
    runs = []
    for name, given in (("a", 1.0), ("b", 2.0)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        outer = shard.call("outer")
        shard.change(outer, "x", 0.0, role="input")
        inner = shard.call("inner", parent=outer)
        shard.change(inner, "given", given, role="input")
        shard.end(inner)
        shard.end(outer)
        shard.close()
        runs.append(writer.open())
    first = clew.diff(*runs).first
    assert (first.role, "made in the calling outer" in first.reason) == ("producer", True)


def test_the_reason_tells_that_inputs_were_not_recorded(tmp_path: Path) -> None:
    runs = [_watched(tmp_path, name, x) for name, x in (("a", 1.0), ("b", 2.0))]
    first, second = clew.diff(*runs).differences
    assert (first.role, first.reason.partition(",")[0]) == ("unknown", "its inputs were not recorded")
    assert second.role == "propagator"
    later = clew.diff(_watched(tmp_path, "c", 1.0, 5.0), _watched(tmp_path, "d", 1.0, 6.0)).first
    assert (later.role, "everything recorded before it" in later.reason) == ("producer", True)


def _watched(base: Path, name: str, x: float, y: float | None = None) -> Run:
    writer = Written(base, f"120000-{name}")
    shard = writer.shard()
    call = shard.call()
    shard.change(call, "x", x)
    shard.change(call, "y", x if y is None else y)
    shard.end(call)
    shard.close()
    return writer.open()


# ---- refactorings


def test_a_function_put_around_others_changes_nothing_in_them(tmp_path: Path) -> None:
    a, b = pair(tmp_path, program(), program(wrapped=True))
    comparison = clew.diff(a, b, ignore="around")
    assert comparison.equal, str(comparison)
    assert [(missing.name, missing.calls) for missing in clew.diff(a, b).only_in_b] == [("around", 3)]
    assert clew.diff(b, a, ignore="around").equal


def test_an_inserted_helper_is_only_in_the_second(tmp_path: Path) -> None:
    a, b = pair(tmp_path, program(), program(helper=True))
    comparison = clew.diff(a, b, ignore="return")
    assert [(missing.name, missing.function, missing.calls, missing.values) for missing in comparison.only_in_b] == [
        ("helper", "step", 3, 2 * 3)
    ]
    assert not comparison.equal
    assert clew.diff(a, b, ignore=["return"], common=True).equal
    assert clew.diff(a, b, ignore=["return", "helper"]).equal


def test_a_renamed_function_is_detected_and_can_be_given_with_map(tmp_path: Path) -> None:
    a, b = pair(tmp_path, program(), program(inner="rescale"))
    assert clew.diff(a, b).renamed == {"scale": "rescale"}
    assert clew.diff(a, b).equal
    said = clew.diff(a, b, map={"scale": "rescale"})
    assert (said.equal, said.renamed) == (True, {})


def test_a_renamed_variable_and_a_moved_module_can_be_given_with_map(tmp_path: Path) -> None:
    a = simple_run(tmp_path, {"encoder.0.weight": [1.0], "loss": [2.0]}, name="120000-a")
    b = simple_run(tmp_path, {"layers.0.weight": [1.0], "cost": [2.0]}, name="120000-b")
    assert not clew.diff(a, b).equal
    comparison = clew.diff(a, b, map={"encoder": "layers", "loss": "cost"})
    assert comparison.equal
    changed = simple_run(tmp_path, {"layers.0.weight": [1.5], "cost": [2.0]}, name="120000-c")
    first = clew.diff(a, changed, map={"encoder": "layers", "loss": "cost"}).first
    assert (first.name, first.name_b) == ("encoder.0.weight", "layers.0.weight")


# ---- which values


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"only": "loss"}, {"loss"}),
        ({"only": ["loss", "lr"]}, {"loss", "lr"}),
        ({"only": "train.*"}, {"loss", "lr", "(arguments)", "(result)"}),
        ({"only": "train"}, {"loss", "lr", "(arguments)", "(result)"}),
        ({"ignore": "l*"}, {"(arguments)", "(result)"}),
        ({"ignore": ["train.loss"]}, {"lr", "(arguments)", "(result)"}),
    ],
)
def test_patterns_choose_what_is_compared(tmp_path: Path, options: dict[str, Any], names: set[str]) -> None:
    runs = [simple_run(tmp_path, {"loss": [1.0], "lr": [2.0]}, name=f"120000-{name}") for name in "ab"]
    tree = clew.diff(*runs, **options).places
    assert {leaf.label for function in tree.children for leaf in function.children} == names


@pytest.mark.parametrize("options", [{"only": "los"}, {"map": {"los": "x"}}])
def test_a_name_that_is_in_neither_run_is_a_mistake_with_the_nearest(tmp_path: Path, options: dict[str, Any]) -> None:
    runs = [simple_run(tmp_path, {"loss": [1.0]}, name=f"120000-{name}") for name in "ab"]
    with pytest.raises(UnknownNameError, match="did you mean `loss`") as caught:
        clew.diff(*runs, **options)
    assert caught.value.slug == "diff-unknown"


@pytest.mark.parametrize(
    "options",
    [
        {"rtol": -1},
        {"atol": "1"},
        {"ulp": float("nan")},
        {"noise": -2},
        {"only": [1]},
        {"map": {"a": 1}},
        {"ignore": "*"},
    ],
)
def test_an_invalid_option_is_an_error(tmp_path: Path, options: dict[str, Any]) -> None:
    runs = [simple_run(tmp_path, {"loss": [1.0]}, name=f"120000-{name}") for name in "ab"]
    with pytest.raises(OptionError):
        clew.diff(*runs, **options)


def test_a_pattern_that_matches_nothing_is_reported(tmp_path: Path) -> None:
    runs = [simple_run(tmp_path, {"loss": [1.0]}, name=f"120000-{name}") for name in "ab"]
    notes = clew.diff(*runs, only=["loss", "acc"], ignore=["train.lr", "(result)"]).notes
    assert notes == ["nothing in either run is called `acc`", "nothing in either run is called `train.lr`"]


# ---- odd runs


def test_runs_are_given_as_clew_open_takes_them(runs_folder: Path) -> None:
    a = simple_run(runs_folder, {"x": [1]}, name="120000-mine")
    simple_run(runs_folder, {"x": [1]}, name="120001-other")
    assert clew.diff("mine", "latest").equal
    assert clew.diff(str(a.path), a.path).equal
    with pytest.raises(NotARunError):
        clew.diff("mine", "nobody")
    with pytest.raises(OptionError, match="expected a run"):
        clew.diff(a, 3)


def test_a_run_that_is_being_recorded_is_compared_up_to_now(runs_folder: Path) -> None:
    @clew.watch("x")
    def count(top: int) -> None:
        for x in range(top):
            pass

    with clew.run("a") as a:
        count(3)
    with clew.run("b") as b:
        count(3)
        comparison = clew.diff(a, b)
        assert comparison.compared == 4  # what it was given, and three changes
        assert any("still running" in note for note in comparison.notes)


def test_a_run_compared_with_itself_is_equal_and_a_note_tells_it(tmp_path: Path) -> None:
    a = simple_run(tmp_path, {"x": [1.0]})
    comparison = clew.diff(a, a)
    assert comparison.equal
    assert "both are the same run" in comparison.notes


@pytest.mark.parametrize("how", ["killed", "failed", "interrupted"])
def test_a_note_tells_how_a_run_ended_early(tmp_path: Path, how: str) -> None:
    a, b = (simple_run(tmp_path, {"x": [1.0]}, name=f"120000-{name}") for name in "ab")
    meta = json.loads((b.path / "run.json").read_text())
    (b.path / "run.json").write_text(json.dumps(meta | {"how": how}))
    comparison = clew.diff(a, clew.open(b.path))
    assert [note.split(":")[1] for note in comparison.notes if note.startswith("B ")] != []
    assert comparison.equal


def test_an_empty_run_is_not_equal_and_a_note_tells_that_it_is_empty(tmp_path: Path) -> None:
    a = simple_run(tmp_path, {"x": [1.0]}, name="120000-a")
    empty = Written(tmp_path, "120000-empty").open()
    for one, other, letter in ((a, empty, "B"), (empty, a, "A"), (empty, empty, "A and B")):
        comparison = clew.diff(one, other)
        assert not comparison.equal
        assert any(f"nothing was compared: {letter} recorded nothing" in note for note in comparison.notes)
    assert clew.diff(a, empty).only_in_a.calls == 1


def test_runs_with_nothing_in_common_get_a_note_with_a_remedy(tmp_path: Path) -> None:
    a = write(tmp_path, "a", [Node("f", [("p", 1)])])
    b = write(tmp_path, "b", [Node("g", [("q", 1), ("r", 2)])])
    comparison = clew.diff(a, b)
    assert not comparison.equal
    assert any("no call and name in common" in note and "map=" in note for note in comparison.notes)


def test_the_undamaged_part_of_a_damaged_run_is_compared(tmp_path: Path) -> None:
    import numpy as np

    a, b = (simple_run(tmp_path, {"x": [np.arange(5000.0) + n]}, name=f"120000-{n}") for n in (0, 1))
    blobs = next(b.path.rglob("blobs.bin"))
    raw = bytearray(blobs.read_bytes())
    raw[100] ^= 0xFF
    blobs.write_bytes(raw)
    comparison = clew.diff(a, b)
    assert [entry.name for entry in comparison.not_compared] == ["x"]
    assert "damaged on disk" in comparison.not_compared[0].why
    records = next(b.path.rglob("records.arrow"))
    records.write_bytes(records.read_bytes()[:-40])
    assert any("B is incomplete or damaged" in note for note in clew.diff(a, clew.open(b.path)).notes)


# ---- told


def test_the_tree_of_agreement_counts_by_function_and_by_step(tmp_path: Path) -> None:
    runs = []
    for name, bad in (("a", 1.0), ("b", 1.5)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        for step in range(10):
            call = shard.call("Net.iteration")
            shard.step(call, step)
            shard.change(call, "encoder.0", float(step))
            shard.change(call, "encoder.1", bad if step >= 6 else 1.0 + step)
            shard.end(call)
        shard.close()
        runs.append(writer.open())
    comparison = clew.diff(*runs)
    tree = comparison.places.to_dict()
    encoder = tree["children"][0]["children"][0]
    assert (encoder["label"], encoder["kind"], encoder["compared"], encoder["differ"]) == ("encoder", "module", 20, 4)
    assert [(n["label"], n["differ"], n["worst"]) for n in encoder["children"]] == [("0", 0, 0.0), ("1", 4, 0.5)]
    steps = [(n["label"], n["compared"], n["differ"]) for n in comparison.steps.to_dict()["children"]]
    assert steps == [("0 … 5", 12, 0), ("6", 2, 1), ("7", 2, 1), ("8", 2, 1), ("9", 2, 1)]
    assert "6: 1 of 2 differ" in comparison.tree()


def test_many_steps_that_differ_are_put_together(tmp_path: Path) -> None:
    runs = []
    for name, more in (("a", 0.0), ("b", 0.5)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        call = shard.call()
        for step in range(60):
            shard.step(call, step)
            shard.change(call, "loss", step + (more if step >= 10 else 0.0))
        shard.end(call)
        shard.close()
        runs.append(writer.open())
    assert [node.label for node in clew.diff(*runs).steps.children] == ["0 … 9", "10 … 59"]


def test_a_comparison_is_strict_json_a_page_at_a_time(tmp_path: Path) -> None:
    a = simple_run(tmp_path, {"x": [float(n) for n in range(30)]}, name="120000-a")
    b = simple_run(tmp_path, {"x": [float("nan")] * 30}, name="120000-b")
    comparison = clew.diff(a, b)
    actual = json.loads(comparison.to_json(offset=10, limit=5))
    assert [item["index"] for item in actual["differences"]["items"]] == [10, 11, 12, 13, 14]
    assert (actual["differences"]["total"], actual["summary"]["differ"], actual["first"]["index"]) == (30, 30, 0)
    keys = {"runs", "settings", "summary", "first", "differences", "only_in_a", "only_in_b", "not_compared"}
    assert actual.keys() == keys | {"renamed", "tree", "circumstances", "notes"}
    assert actual["first"]["measure"]["nan"] == [0, 1]
    assert len(comparison.differences[3:7]) == 4
    assert comparison.differences[-1].index == 29


def test_values_within_tolerance_are_counted_and_reported(tmp_path: Path) -> None:
    a = simple_run(tmp_path, {"x": [1.0, 2.0]}, name="120000-a")
    b = simple_run(tmp_path, {"x": [1.0, 2.0 + 1e-9]}, name="120000-b")
    comparison = clew.diff(a, b)
    assert comparison.equal
    assert comparison.summary()["within"] == 1
    assert "1 within tolerance (largest 1e-09, first `x` in train)" in str(comparison)
    assert "float32 1.3e-06/1e-05" in str(comparison)


def test_the_first_within_tolerance_is_the_first_in_time(tmp_path: Path) -> None:
    runs = []
    for name, more in (("a", 0.0), ("b", 1e-9)):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        outer = shard.call("outer", at=0)
        shard.change(outer, "late", 1.0 + more, at=50)
        inner = shard.call("inner", parent=outer, at=5)
        shard.change(inner, "early", 1.0 + more, at=10)
        shard.end(inner, at=11)
        shard.end(outer, at=60)
        shard.close()
        runs.append(writer.open())
    assert clew.diff(*runs).summary()["within_first"] == {"name": "early", "function": "inner", "step": None}


def test_functions_stand_in_the_tree_as_they_were_called(runs_folder: Path) -> None:
    runs = [_followed(name) for name in "ab"]
    assert [node.label for node in clew.diff(*runs).places.children] == ["_last_defined", "_first_defined"]


def _first_defined(x: int) -> int:
    return x + 1


@clew.follow(show=False)
def _last_defined(x: int) -> int:
    return _first_defined(x)


def _followed(name: str) -> Any:
    with clew.run(name) as run:
        _last_defined(1)
    return run


@clew.watch("y")
def _given(x: Any) -> int:
    y = len(x) + max(x)
    return int(y)


def test_an_argument_of_which_only_the_type_is_known_is_not_taken_for_equal(runs_folder: Path) -> None:
    runs = []
    for name, given in (("a", {1, 2, 3}), ("b", {1, 2, 4})):
        with clew.run(name) as run:
            _given(given)
        runs.append(run)
    comparison = clew.diff(*runs)
    assert comparison.first is not None
    assert (comparison.first.name, comparison.first.role) == ("y", "unknown")
    assert "it is unknown whether" in comparison.first.reason
    assert [(argument.name, argument.equal) for argument in comparison.first.inputs] == [("x", None)]
    assert [entry.name for entry in comparison.not_compared] == ["x"]
    assert (comparison.compared, comparison.summary()["by_hash"]) == (2, 0)


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    runs = [simple_run(tmp_path, {"x": [1.0]}, name=f"120000-{n}") for n in "ab"]
    clew.diff(*runs, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)


@pytest.mark.parametrize("seed", range(8))
def test_a_comparison_ends_whatever_is_flipped_cut_or_missing(tmp_path: Path, seed: int) -> None:
    import random
    import shutil

    import numpy as np

    changes = {"x": [1.0, 2.0], "w": [np.arange(3000.0)], "s": [np.ones(3)] * 9, "t": [{"k": [1, np.ones(2)]}]}
    a = simple_run(tmp_path, changes, name="120000-a")
    other = simple_run(tmp_path, {**changes, "w": [np.arange(3000.0) + 1]}, name="120000-b").path
    chance = random.Random(seed)
    for number in range(5):
        damaged = tmp_path / f"damaged-{number}"
        shutil.copytree(other, damaged)
        for file in (*damaged.rglob("records.arrow"), *damaged.rglob("blobs.bin")):
            raw = bytearray(file.read_bytes())
            for _ in range(chance.choice([0, 1, 3])):
                raw[chance.randrange(len(raw))] ^= chance.randrange(1, 256)
            file.write_bytes(raw[: chance.randrange(len(raw))] if chance.random() < 0.3 else raw)
        comparison = clew.diff(a, damaged)
        assert json.loads(comparison.to_json())["summary"]["differ"] == len(comparison.differences)
        assert str(comparison)

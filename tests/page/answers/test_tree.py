"""The tree, a part at a time: order, folds, filters, pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from page.asking import Page
from reading.writing import Written

TRAIN = "host-r0-100-0:1"


def kinds(branch: dict[str, Any]) -> list[str]:
    return [node["kind"] for node in branch["nodes"]]


def names(branch: dict[str, Any]) -> list[str]:
    return [node.get("function") or node.get("name") or node.get("text") for node in branch["nodes"]]


@pytest.fixture
def calls(base: Path) -> Any:
    """Runs of one root that makes these calls."""

    def write(*functions: str, changes: bool = False) -> tuple[Page, Path]:
        writer = Written(base)
        shard = writer.shard()
        root = shard.call("main")
        for function in functions:
            if changes:
                shard.change(root, "x", 1.0)
            call = shard.call(function.strip("!"), parent=root, line=sum(map(ord, function)))
            shard.end(call, error="Oh: no" if function.endswith("!") else None)
        shard.end(root)
        shard.close()
        return Page(base), writer.folder

    return write


def test_the_roots_come_first(page: Page, folder: Path) -> None:
    branch = page.of(folder, "tree")
    (node,) = branch["nodes"]
    assert (node["function"], node["id"], node["inside"]) == ("train", TRAIN, 32)
    assert [(arg["name"], arg["value"]["text"]) for arg in node["args"]] == [("epochs", "2")]
    assert node["result"]["text"] == "0.1"
    assert (branch["total"], branch["next"], branch["found"]) == (1, None, None)


def test_calls_and_changes_are_in_order_of_time(page: Page, folder: Path) -> None:
    branch = page.of(folder, "tree", parent=TRAIN, fold=0, limit=4)
    assert names(branch) == ["loss", "weight", "layer", "loss"]
    assert (branch["total"], branch["next"]) == (32, 4)
    layer = branch["nodes"][2]
    assert layer["args"][0]["value"]["text"] == "float64 (3,)"
    assert (layer["result"]["text"], layer["step"], layer["thread"]) == ("0.0", "0", "main")
    change = branch["nodes"][3]
    assert (change["index"], change["step"], change["value"]["text"]) == (1, "1", "0.5")


def test_what_repeats_is_folded_and_what_raised_stands_alone(page: Page, folder: Path) -> None:
    branch = page.of(folder, "tree", parent=TRAIN)
    assert kinds(branch)[0] == "fold"
    fold = branch["nodes"][0]
    assert (fold["offset"], fold["times"], fold["text"]) == (0, 7, "loss, weight, layer ×7")
    assert [node["error"] for node in branch["nodes"] if node["kind"] == "call" and node["error"]] == [
        "ValueError: seven"
    ]


def test_a_fold_is_opened_by_its_offset_and_count(page: Page, folder: Path) -> None:
    fold = page.of(folder, "tree", parent=TRAIN)["nodes"][0]
    opened = page.of(folder, "tree", parent=TRAIN, offset=fold["offset"], limit=fold["count"], fold=0)
    assert names(opened) == ["loss", "weight", "layer"] * 7


def test_few_siblings_are_not_folded(calls: Any) -> None:
    page, folder = calls("f", "f", "f", "f")
    assert kinds(page.of(folder, "tree", parent=TRAIN)) == ["call"] * 4


def test_folds_beyond_what_is_looked_at_go_on(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.page.siblings.LOOKED_AT", 100)
    page, folder = calls("start", *["f", "g"] * 200, "end", *["h"] * 150, "last")
    branch = page.of(folder, "tree", parent=TRAIN)
    assert names(branch) == ["start", "f, g ×200", "end", "h ×150", "last"]
    assert (branch["nodes"][1]["count"], branch["nodes"][3]["offset"]) == (400, 402)


def test_what_does_not_repeat_is_shown_whole_however_it_is_looked_at(
    calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.page.siblings.LOOKED_AT", 80)
    wanted = [f"f{i}" for i in range(300)]
    page, folder = calls(*wanted)
    answer: list[str] = []
    offset: int | None = 0
    while offset is not None:
        branch = page.of(folder, "tree", parent=TRAIN, offset=offset, limit=70)
        answer += names(branch)
        offset = branch["next"]
    assert answer == wanted


def test_pages_meet_without_a_gap(calls: Any) -> None:
    page, folder = calls(*["a", "b", "c", "d", "a", "a", "b", "d"] * 5, changes=True)
    answer: list[str] = []
    offset: int | None = 0
    while offset is not None:
        branch = page.of(folder, "tree", parent=TRAIN, offset=offset, limit=7, fold=0)
        answer += names(branch)
        offset = branch["next"]
    assert answer == [one for name in ["a", "b", "c", "d", "a", "a", "b", "d"] * 5 for one in ("x", name)]


def test_a_fold_adds_up_its_time(calls: Any) -> None:
    page, folder = calls(*["f"] * 10)
    (fold,) = page.of(folder, "tree", parent=TRAIN)["nodes"]
    assert fold["seconds"] == pytest.approx(0.01)
    assert fold["errors"] == 0


def test_errors_are_found_with_what_led_to_them(page: Page, folder: Path) -> None:
    branch = page.of(folder, "tree", errors=1)
    (root,) = branch["nodes"]
    assert (root["function"], root["fits"], branch["found"]) == ("train", False, 1)
    (failed,) = page.of(folder, "tree", parent=TRAIN, errors=1)["nodes"]
    assert (failed["error"], failed["fits"]) == ("ValueError: seven", True)


def test_calls_are_found_by_function_name_stage_and_time(page: Page, folder: Path) -> None:
    assert page.of(folder, "tree", function="layer")["found"] == 10
    assert page.of(folder, "tree", function="lay")["found"] == 10
    assert page.of(folder, "tree", name="x")["found"] == 10
    assert page.of(folder, "tree", stage="model")["found"] == 1
    assert page.of(folder, "tree", slow="20ms")["found"] == 1
    only = page.of(folder, "tree", parent=TRAIN, name="loss", fold=0)
    assert set(names(only)) == {"loss"}


def test_a_function_that_was_never_called_gets_the_nearest(page: Page, folder: Path) -> None:
    refusal = page.refused(404, f"{page.run(folder)}/tree", function="layre")
    assert "`layer`" in refusal["remedy"]


def test_a_time_that_makes_no_sense_is_refused(page: Page, folder: Path) -> None:
    assert page.refused(400, f"{page.run(folder)}/tree", slow="often")["slug"] == "bad-option"


@pytest.mark.parametrize("call", ["nonsense", "host-r0-100-0:99", "../..:1", "host-r0-100-0:-1", ":", "a:" + "9" * 40])
def test_a_call_that_is_not_there_is_refused(page: Page, folder: Path, call: str) -> None:
    for what, name in (("tree", "parent"), ("call", "call"), ("source", "call")):
        assert page.refused(404, f"{page.run(folder)}/{what}", **{name: call})["slug"] == "no-such-call"


def test_a_call_alone_has_its_parents_and_callers(page: Page, folder: Path) -> None:
    answer = page.of(folder, "call", call="host-r0-100-0:2")
    assert answer["parents"] == [{"id": TRAIN, "function": "train"}]
    assert answer["call"]["args"][0]["value"]["stats"]["max"] == 2.0


def test_several_processes_are_one_tree(base: Path) -> None:
    writer = Written(base)
    for rank in (1, 0):
        shard = writer.shard(rank)
        shard.end(shard.call("work"))
        shard.close()
    nodes = Page(base).of(writer.folder, "tree")["nodes"]
    assert sorted(node["rank"] for node in nodes) == [0, 1]


def test_a_run_of_changes_without_calls_has_an_empty_tree(base: Path) -> None:
    writer = Written(base)
    shard = writer.shard()
    shard.change(77, "x", 1.0)
    shard.close()
    assert Page(base).of(writer.folder, "tree")["nodes"] == []

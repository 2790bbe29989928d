"""`clew diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.commands.main import main
from reading.writing import simple_run


@pytest.fixture
def runs(runs_folder: Path) -> Path:
    for name, loss in (("base", 1.0), ("same", 1.0), ("other", 1.5), ("near", 1.01)):
        simple_run(runs_folder, {"lr": [0.1], "loss": [3.0, loss]}, name=f"120000-{name}")
    return runs_folder


def test_equal_runs_end_with_0(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "base", "same"]) == 0
    assert "equal: 5 values compared, 5 identical" in capsys.readouterr().out


def test_runs_that_differ_end_with_1_and_the_first_difference_is_shown(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "base", "other"]) == 1
    shown = capsys.readouterr().out
    assert "first difference: `loss`" in shown
    assert "mod.py:11" in shown
    assert "max abs 0.5" in shown
    assert "tolerance: defaults by type" in shown


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--rtol", "0.5"], 0),
        (["--atol", "0.5"], 0),
        (["--ulp", "3"], 1),
        (["--ignore", "loss"], 0),
        (["--only", "lr"], 0),
        (["--reference", "near"], 1),
        (["--reference", "near", "--noise", "51"], 0),
        (["--map", "loss=lr"], 1),
        (["--common", "--limit", "1", "--full"], 1),
    ],
)
def test_options_say_what_counts(runs: Path, options: list[str], status: int) -> None:
    assert main(["diff", "base", "other", *options]) == status


def test_for_machines_it_is_strict_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "base", "other", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["first"]["name"] == "loss"
    assert told["summary"]["differ"] == 1


def test_in_full_every_difference_is_listed(runs_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, add in (("a", 0), ("b", 1)):
        simple_run(runs_folder, {"x": [n * 2 + add for n in range(30)]}, name=f"120000-{name}")
    assert main(["diff", "a", "b"]) == 1
    assert "... 20 more" in capsys.readouterr().out
    assert main(["diff", "a", "b", "--full"]) == 1
    shown = capsys.readouterr().out
    assert "more" not in shown
    assert shown.count("max abs 1") == 30


@pytest.mark.parametrize(
    "words",
    [
        ["base", "nobody"],
        ["base", "other", "--only", "lost"],
        ["base", "other", "--map", "loss"],
        ["base", "other", "--rtol", "-1"],
        ["base", "other", "--limit", "0"],
    ],
)
def test_a_mistake_ends_with_2_and_a_remedy(runs: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *words]) == 2
    assert capsys.readouterr().err.startswith("clew: ")


def test_markup_and_control_characters_in_values_cannot_act(
    runs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("a", "[red]x\x1b[31m"), ("b", "[blue]y")):
        simple_run(runs_folder, {"s": [text]}, name=f"120000-{name}")
    assert main(["diff", "a", "b"]) == 1
    shown = capsys.readouterr().out
    assert "[red]x" in shown
    assert "\x1b" not in shown

"""`clew rm` and `clew prune`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from clew.commands.main import main
from reading.writing import Written

Captured = pytest.CaptureFixture[str]
DAY = 86_400 * 10**9


@pytest.fixture
def runs(runs_folder: Path) -> dict[str, Path]:
    now = time.time_ns()
    old = Written(runs_folder, "090000-old", started_ns=now - 40 * DAY, ended_ns=now - 40 * DAY + 1)
    failed = Written(runs_folder, "100000-failed", started_ns=now - 2 * DAY, ended_ns=now, how="failed")
    going = Written(runs_folder, "110000-going", started_ns=now - 50 * DAY, how=None, host="elsewhere", pid=1)
    recent = Written(runs_folder, "120000-recent", started_ns=now - 10**9, ended_ns=now)
    for written, size in ((old, 100_000), (failed, 100_000), (recent, 1_000_000)):
        (written.folder / "shards").mkdir()
        (written.folder / "shards" / "large").write_bytes(bytes(size))
    return {each.folder.name[7:]: each.folder for each in (old, failed, going, recent)}


def left(runs: dict[str, Path]) -> set[str]:
    return {name for name, folder in runs.items() if folder.exists()}


def test_runs_are_deleted_by_name_a_line_each(runs: dict[str, Path], capsys: Captured) -> None:
    assert main(["rm", "old", str(runs["failed"])]) == 0
    assert left(runs) == {"going", "recent"}
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[:2]] == ["deleted", "deleted"]
    assert out[2].endswith("in total")


def test_nothing_is_deleted_if_one_of_the_names_is_unknown(runs: dict[str, Path], capsys: Captured) -> None:
    assert main(["rm", "old", "odl"]) == 2
    assert left(runs) == set(runs)


def test_a_dry_run_deletes_nothing(runs: dict[str, Path], capsys: Captured) -> None:
    assert main(["rm", "old", "--dry-run"]) == 0
    assert "would delete" in capsys.readouterr().out
    assert main(["prune", "--older-than", "1d", "-n"]) == 0
    assert left(runs) == set(runs)


def test_a_run_that_goes_on_needs_force(runs: dict[str, Path], capsys: Captured) -> None:
    assert main(["rm", "going"]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["rm", "going", "-f"]) == 0
    assert "going" not in left(runs)


def test_files_of_others_in_the_folder_need_force(runs: dict[str, Path], capsys: Captured) -> None:
    (runs["old"] / "my notes.txt").write_text("mine")
    assert main(["rm", "old"]) == 1
    assert "my notes.txt" in capsys.readouterr().err
    assert (runs["old"] / "my notes.txt").read_text() == "mine"


def test_a_link_to_a_run_is_not_followed(runs: dict[str, Path], tmp_path: Path, capsys: Captured) -> None:
    link = tmp_path / "link"
    link.symlink_to(runs["old"])
    assert main(["rm", str(link), "--force"]) == 1
    assert left(runs) == set(runs)


def test_the_graphs_of_a_run_are_its_own_files(runs: dict[str, Path]) -> None:
    (runs["old"] / "graph-0123456789ab.json").write_text("{}")
    (runs["old"] / ".graph-0123456789ab.json.123.456").write_text("{")
    assert main(["rm", str(runs["old"])]) == 0
    assert left(runs) == set(runs) - {"old"}


@pytest.mark.parametrize("obstacle", ["a link", "files of others"])
def test_a_dry_run_says_what_cannot_be_deleted(
    obstacle: str, runs: dict[str, Path], tmp_path: Path, capsys: Captured
) -> None:
    run = next(iter(runs.values()))
    if obstacle == "a link":
        link = tmp_path / "link"
        link.symlink_to(run)
        run = link
    else:
        (run / "notes.txt").write_text("mine")
    status = main(["rm", str(run), "--dry-run"])
    dry = capsys.readouterr()
    assert (main(["rm", str(run)]), capsys.readouterr()) == (status, dry)
    assert (status, dry.out) == (1, "")


def test_a_folder_that_cannot_be_deleted_is_said(
    runs: dict[str, Path], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refuse)
    assert main(["rm", "old"]) == 1
    assert "could not be deleted: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "deleted"),
    [
        (["--older-than", "30d"], {"old"}),
        (["--older-than", "1d"], {"old", "failed"}),
        (["--older-than", "1d", "--status", "failed"], {"failed"}),
        (["--status", "failed,finished"], {"old", "failed", "recent"}),
        (["--larger-than", "500kB"], {"recent"}),
        (["--total", "1.1MB"], {"old", "failed"}),
        (["--total", "0"], {"old", "failed", "recent"}),
        (["--total", "1GB"], set()),
    ],
)
def test_prune_deletes_what_all_conditions_apply_to(
    runs: dict[str, Path], options: list[str], deleted: set[str], capsys: Captured
) -> None:
    assert main(["prune", "--yes", *options]) == 0
    assert set(runs) - left(runs) == deleted


@pytest.mark.parametrize(
    "options", [[], ["--older-than", "soon"], ["--older-than=-3d"], ["--status", "fialed"], ["--larger-than", "x"]]
)
def test_prune_refuses_what_makes_no_sense(runs: dict[str, Path], options: list[str], capsys: Captured) -> None:
    assert main(["prune", "--yes", *options]) == 2
    assert capsys.readouterr().err.startswith("clew: ")
    assert left(runs) == set(runs)


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_prune_asks(
    runs: dict[str, Path], answer: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    assert main(["prune", "--older-than", "30d"]) == status
    assert ("old" in left(runs)) == bool(status)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, capsys: Captured) -> None:
    assert main(["runs", str(tmp_path / "nowhere")]) == 2
    assert main(["prune", str(tmp_path / "nowhere"), "--older-than", "1d"]) == 2
    assert "There is no folder" in capsys.readouterr().err

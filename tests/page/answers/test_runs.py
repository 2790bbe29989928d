"""Renaming, tagging and deleting."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from page.asking import Page, training
from reading.writing import Written


def meta(folder: Path) -> dict[str, object]:
    return json.loads((folder / "run.json").read_text())


def test_a_run_is_renamed_and_its_folder_stays(page: Page, folder: Path) -> None:
    answer = page.post(f"{page.run(folder)}/edit", {"name": "  better  "})
    assert answer.status_code == 200
    assert answer.json()["name"] == "better"
    assert meta(folder)["name"] == "better"
    assert meta(folder)["argv"] == ["train.py", "--lr", "0.1"]
    assert page.ask("/api/runs")["runs"][0]["name"] == "better"


def test_tags_are_replaced_and_those_not_touched_keep_their_type(base: Path) -> None:
    folder = training(base, tags={"lr": 3e-4, "old": "x"}).folder
    page = Page(base)
    answer = page.post(f"{page.run(folder)}/edit", {"tags": {"lr": "0.0003", "new": "y"}})
    assert answer.json()["tags"] == {"lr": "0.0003", "new": "y"}
    assert meta(folder)["tags"] == {"lr": 3e-4, "new": "y"}


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"name": "a\nb"},
        {"name": 7},
        {"tags": []},
        {"tags": {"a": 1}},
        {"tags": {"": "x"}},
        {"tags": {"a": "x" * 1001}},
        {"tags": {str(i): "" for i in range(101)}},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(page: Page, folder: Path, body: object) -> None:
    before = (folder / "run.json").read_bytes()
    assert page.post(f"{page.run(folder)}/edit", body).status_code == 400
    assert (folder / "run.json").read_bytes() == before


def test_a_run_is_deleted_once_its_name_is_given(page: Page, folder: Path) -> None:
    assert page.post(f"{page.run(folder)}/delete", {"name": "another"}).status_code == 400
    assert page.post(f"{page.run(folder)}/delete", {}).status_code == 400
    assert folder.exists()
    assert page.post(f"{page.run(folder)}/delete", {"name": "training"}).json() == {"deleted": True}
    assert not folder.exists()
    assert not folder.parent.exists()
    assert page.ask("/api/runs")["runs"] == []
    assert page.refused(404, page.run(folder))["slug"] == "no-such-run"


def test_other_runs_of_the_day_stay(page: Page, base: Path, folder: Path) -> None:
    other = training(base, "130000-other").folder
    page.post(f"{page.run(folder)}/delete", {"name": "training"})
    assert page.of(other)["run"]["name"] == "other"


def test_a_run_that_goes_on_is_neither_deleted_nor_renamed(base: Path) -> None:
    folder = Written(base, how="running", started_ns=time.time_ns(), ended_ns=None, pid=os.getpid()).folder
    page = Page(base)
    for what, body in (("delete", {"name": "test"}), ("edit", {"name": "x"})):
        answer = page.post(f"{page.run(folder)}/{what}", body)
        assert answer.status_code == 409
        assert answer.json()["slug"] == "run-goes-on"
    assert folder.exists()


def test_a_run_outside_the_base_is_only_looked_at(base: Path, tmp_path: Path) -> None:
    elsewhere = training(tmp_path / "elsewhere").folder
    page = Page(base, elsewhere)
    assert page.of(elsewhere)["run"]["name"] == "training"
    for what in ("delete", "edit"):
        answer = page.post(f"{page.run(elsewhere)}/{what}", {"name": "training"})
        assert answer.status_code == 403
        assert answer.json()["slug"] == "run-elsewhere"
    assert elsewhere.exists()


def test_what_a_link_in_a_run_leads_to_is_not_deleted(page: Page, folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    os.symlink(precious, folder / "link")
    assert page.post(f"{page.run(folder)}/delete", {"name": "training"}).status_code == 200
    assert (precious / "file").read_text() == "keep"


def test_a_run_whose_folder_became_a_link_is_not_deleted(page: Page, folder: Path, tmp_path: Path) -> None:
    page.of(folder)
    moved = tmp_path / "moved"
    folder.rename(moved)
    os.symlink(moved, folder)
    assert page.post(f"{page.run(folder)}/delete", {"name": "training"}).status_code in (403, 404)
    assert (moved / "run.json").exists()


def test_a_run_that_is_gone_cannot_be_changed(page: Page, folder: Path) -> None:
    import shutil

    page.of(folder)
    shutil.rmtree(folder)
    assert page.post(f"{page.run(folder)}/edit", {"name": "x"}).status_code == 410

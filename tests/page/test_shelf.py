"""The runs the page can show, and what may be done to them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from clew.page.shelf import Shelf, run_id
from page.asking import Page, training
from reading.writing import Written


def test_the_newest_run_is_first(base: Path) -> None:
    Written(base, "120000-old", started_ns=1_700_000_000_000_000_000)
    Written(base, "130000-new", started_ns=1_700_000_100_000_000_000)
    assert [row["name"] for row in Shelf(base).rows()] == ["new", "old"]


def test_a_run_that_was_given_is_shown_wherever_it_is(base: Path, tmp_path: Path) -> None:
    elsewhere = training(tmp_path / "elsewhere").folder
    shelf = Shelf(base, [elsewhere])
    assert [row["path"] for row in shelf.rows()] == [str(elsewhere)]
    assert not shelf.is_ours(elsewhere)


def test_a_link_is_not_a_run(base: Path, tmp_path: Path) -> None:
    elsewhere = training(tmp_path / "elsewhere").folder
    (base / "2023-11-14").mkdir(parents=True)
    os.symlink(elsewhere, base / "2023-11-14" / "120000-link")
    shelf = Shelf(base)
    assert shelf.rows() == []
    assert not shelf.is_ours(base / "2023-11-14" / "120000-link")


def test_a_day_s_folder_that_is_a_link_is_not_ours(base: Path, tmp_path: Path) -> None:
    elsewhere = training(tmp_path / "elsewhere").folder
    base.mkdir()
    os.symlink(elsewhere.parent, base / "2023-11-14")
    assert not Shelf(base).is_ours(base / "2023-11-14" / elsewhere.name)


def test_a_running_run_lasts_until_now(base: Path) -> None:
    started_ns = time.time_ns() - 3_000_000_000
    Written(base, how="running", started_ns=started_ns, ended_ns=None, pid=os.getpid())
    (row,) = Shelf(base).rows()
    assert row["status"] == "running"
    assert 2.5 < row["duration"] < 60


def test_tags_of_any_kind_are_reported_as_text(base: Path) -> None:
    Written(base, tags={"lr": 0.1, "who": "me", "deep": {"a": [1]}})
    (row,) = Shelf(base).rows()
    assert row["tags"] == {"lr": "0.1", "who": "me", "deep": "{'a': [1]}"}


def test_a_damaged_page_of_metadata_hides_nothing(base: Path) -> None:
    folder = training(base).folder
    (folder / "run.json").write_text("{")
    page = Page(base)
    (row,) = page.ask("/api/runs")["runs"]
    assert row["problem"] is None
    assert page.of(folder)["counts"]["calls"] == 11
    assert any("run.json" in problem for problem in page.of(folder)["problems"])


def test_an_id_is_the_same_every_time_and_no_path(folder: Path) -> None:
    assert run_id(folder) == run_id(folder)
    assert run_id(folder).isalnum()
    assert run_id(folder) != run_id(folder.parent)


def test_a_run_that_comes_later_is_found(base: Path) -> None:
    page = Page(base)
    assert page.ask("/api/runs")["runs"] == []
    folder = training(base).folder
    assert page.of(folder)["run"]["name"] == "training"

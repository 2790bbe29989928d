"""From what a person typed to a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import NotARunError
from clew.reading import open_run
from reading.writing import START, Written


@pytest.fixture
def two(runs_folder: Path) -> tuple[Written, Written]:
    older = Written(runs_folder, "090000-first-try", started_ns=START)
    return older, Written(runs_folder, "100000-second", started_ns=START + 1)


def test_latest_is_the_run_that_began_last(two: tuple[Written, Written]) -> None:
    assert open_run("latest").path == two[1].folder


def test_a_folder_name_is_enough(two: tuple[Written, Written]) -> None:
    assert open_run("090000-first-try").path == two[0].folder
    assert open_run("2023-11-14/090000-first-try").path == two[0].folder


def test_the_name_of_the_run_is_enough(two: tuple[Written, Written]) -> None:
    assert open_run("second").path == two[1].folder
    assert open_run("first try").path == two[0].folder


def test_of_equal_names_the_newest_is_meant(two: tuple[Written, Written], runs_folder: Path) -> None:
    newest = Written(runs_folder, "110000-second", started_ns=START + 2)
    assert open_run("second").path == newest.folder


def test_a_path_is_a_path(two: tuple[Written, Written], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(two[0].folder.parent)
    assert open_run(Path("100000-second")).path == two[1].folder
    assert open_run("./100000-second").path == two[1].folder
    monkeypatch.chdir(two[0].folder)
    assert open_run(".").path == two[0].folder


def test_an_unknown_name_is_an_error_that_suggests_the_nearest(two: tuple[Written, Written]) -> None:
    with pytest.raises(NotARunError, match="did you mean `second`"):
        open_run("secnd")


def test_latest_of_no_runs_says_where_it_looked(runs_folder: Path) -> None:
    with pytest.raises(NotARunError, match=str(runs_folder)):
        open_run("latest")


def test_an_existing_folder_that_is_not_a_run_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(NotARunError, match=r"run\.json"):
        open_run(str(tmp_path))


@pytest.mark.parametrize("name", ["", "/", "..", "\0", "a\nb", "x" * 5000])
def test_no_name_makes_it_fail_in_another_way(name: str, two: tuple[Written, Written]) -> None:
    with pytest.raises(NotARunError):
        open_run(name)

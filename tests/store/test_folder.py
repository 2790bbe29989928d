"""Run folders are made exclusively, named safely and listed in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.store.folder import list_runs, new_run_folder, read_meta, slug, write_meta
from clew.store.format import FORMAT

NOON = datetime(2026, 1, 31, 12, 0, 0)
SOURCE = str(Path(__file__).parents[2] / "src")


def test_a_run_folder_is_named_by_day_time_and_name(tmp_path: Path) -> None:
    assert new_run_folder(tmp_path / "runs", "bf16", NOON) == tmp_path / "runs" / "2026-01-31" / "120000-bf16"


def test_a_run_without_a_name_is_called_run(tmp_path: Path) -> None:
    assert new_run_folder(tmp_path, None, NOON).name == "120000-run"


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    assert [new_run_folder(tmp_path, "a", NOON).name for _ in range(3)] == ["120000-a", "120000-a-2", "120000-a-3"]


MAKING = """
import sys; sys.path.insert(0, sys.argv[2])
from datetime import datetime
from pathlib import Path
from clew.store.folder import new_run_folder
sys.stdin.readline()
for _ in range(40):
    print(new_run_folder(Path(sys.argv[1]), "same", datetime(2026, 1, 31, 12)))
"""


def test_two_processes_at_once_never_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKING, str(tmp_path / "runs"), SOURCE]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:  # let them start together
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    made = [line for process in processes for line in process.communicate()[0].splitlines()]
    assert len(made) == len(set(made)) == 120


HOSTILE = [
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "a/b\\c",
    "x\x00y",
    "  ",
    "-rf",
    "a" * 5000,
    "é" * 500,
    "\ud800",
    "CON",
    "a\nb",
    "~",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    folder = new_run_folder(tmp_path, name, NOON)
    assert folder.resolve().parent == (tmp_path / "2026-01-31").resolve()
    assert [path.name for path in tmp_path.iterdir()] == ["2026-01-31"]
    assert len(os.fsencode(folder.name)) < 120


@settings(max_examples=300)
@given(name=st.text())
def test_any_name_makes_a_plain_slug(name: str) -> None:
    made = slug(name)
    assert made
    assert os.fsencode(made).decode("utf-8") == made
    assert not set(made) & set('/\\\0 \n:*?"<>|')
    assert made.strip(".-") == made
    assert len(made.encode()) <= 80


def test_letters_of_any_language_stay(tmp_path: Path) -> None:
    assert slug("Übung 3, größer!") == "Übung-3-größer"


def test_the_metadata_is_read_with_its_format(tmp_path: Path) -> None:
    meta = {"name": "π", "argv": ["a\udcff"], "tags": {"lr": 3e-4}, "git": None}
    write_meta(tmp_path, meta)
    assert read_meta(tmp_path) == {"format": FORMAT, **meta}


def test_writing_the_page_runs_no_user_code(tmp_path: Path) -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("repr was called")

        __str__ = __repr__

    write_meta(tmp_path, {"tags": {"x": Loud()}})
    assert "Loud" in read_meta(tmp_path)["tags"]["x"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    write_meta(tmp_path, {"how": "running"})
    with pytest.raises(TypeError):
        write_meta(tmp_path, {"tags": {("no", "json", "key"): 1}})
    assert read_meta(tmp_path)["how"] == "running"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_the_page_is_never_seen_half_written(tmp_path: Path) -> None:
    program = """
import sys; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from clew.store.folder import write_meta
print("ready", flush=True)
for n in range(400):
    write_meta(Path(sys.argv[1]), {"n": n, "filler": "x" * (n * 50)})
"""
    write_meta(tmp_path, {"n": -1, "filler": ""})
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path), SOURCE], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while process.poll() is None:
            meta = read_meta(tmp_path)
            assert len(meta["filler"]) == max(0, meta["n"]) * 50
    assert process.returncode == 0


def test_runs_are_listed_oldest_first_whatever_they_are_called(tmp_path: Path) -> None:
    made = []
    for n, (name, started) in enumerate([("z", 3), ("a", 1), ("m", 2)]):
        folder = new_run_folder(tmp_path, name, NOON.replace(second=n))
        write_meta(folder, {"started_ns": started})
        made.append((started, folder))
    assert list_runs(tmp_path) == [folder for _, folder in sorted(made)]


def test_a_run_with_a_damaged_page_is_listed_by_its_name(tmp_path: Path) -> None:
    folders = [new_run_folder(tmp_path, "x", NOON.replace(hour=hour)) for hour in (9, 8, 10)]
    for folder in folders:
        (folder / "run.json").write_text("{")
    assert [folder.name[:2] for folder in list_runs(tmp_path)] == ["08", "09", "10"]


def test_only_runs_are_listed(tmp_path: Path) -> None:
    run = new_run_folder(tmp_path, "real", NOON)
    write_meta(run, {})
    new_run_folder(tmp_path, "no-page", NOON)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "2026-01-31" / "link").symlink_to(run)
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "other" / "deep" / "run.json").write_text(json.dumps({"format": FORMAT}))
    assert list_runs(tmp_path) == [run]


def test_a_run_directly_in_the_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    write_meta(tmp_path / "mine", {"started_ns": 5})
    assert list_runs(tmp_path) == [tmp_path / "mine"]


def test_no_folder_means_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nowhere") == []

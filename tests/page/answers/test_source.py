"""The source of a call, with the values at each line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from history.writing import START, Written
from page.asking import Page, training

CALL = "host-r0-100-0:1"
TEXT = """import os

def train(epochs):
    for step in range(10):
        loss = 1 / (step + 1)
        weight = step
    return loss

def other():
    pass
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(TEXT)
    os.utime(path, ns=(START - 10, START - 10))
    return path


def source(base: Path, file: Path, **params: Any) -> Any:
    written = training(base, file=str(file))
    return Page(base).of(written.folder, "source", call=CALL, **params)


def test_the_lines_of_the_function_are_shown(base: Path, file: Path) -> None:
    found = source(base, file)
    assert (found["first"], found["lines"]) == (3, TEXT.splitlines()[2:7])
    assert (found["missing"], found["changed"]) == (None, None)


def test_after_so_many_changes_each_line_has_its_last_value(base: Path, file: Path) -> None:
    found = source(base, file, at=4)
    assert (found["total"], found["at"]) == (22, 4)
    fields = ("line", "name", "nth", "of", "now")
    told = [(*(one[field] for field in fields), one["value"]["text"]) for one in found["values"]]
    assert told == [(5, "loss", 2, 12, False, "0.5"), (6, "weight", 2, 10, True, "float32 (4, 6)")]


def test_it_stands_where_a_value_of_a_series_had_come(base: Path, file: Path) -> None:
    found = source(base, file, of="loss", nth=1)
    now = next(one for one in found["values"] if one["now"])
    assert (now["name"], now["line"], now["nth"], now["value"]["text"]) == ("loss", 5, 2, "0.5")


def test_up_to_a_value_that_is_not_there_is_to_the_end(base: Path, file: Path) -> None:
    found = source(base, file, of="loss", nth=9999)
    assert found["at"] == found["total"]


def test_a_point_comes_with_its_line_of_source(base: Path, file: Path) -> None:
    written = training(base, file=str(file))
    assert Page(base).of(written.folder, "point", name="loss", index=1)["code"] == "loss = 1 / (step + 1)"
    file.unlink()
    assert Page(base).of(written.folder, "point", name="loss", index=1)["code"] is None


def test_before_the_first_change_there_are_no_values(base: Path, file: Path) -> None:
    assert source(base, file, at=0)["values"] == []


def test_without_a_place_it_stands_at_the_end(base: Path, file: Path) -> None:
    found = source(base, file)
    assert found["at"] == found["total"] == 22
    assert found["values"][0]["value"]["text"] == "'gone'"
    assert [one["now"] for one in found["values"]] == [True, False]


def test_arguments_stand_at_the_line_of_the_function(base: Path, file: Path) -> None:
    written = training(base, file=str(file))
    found = Page(base).of(written.folder, "source", call="host-r0-100-0:2")
    assert [(one["line"], one["name"]) for one in found["values"]] == [(20, "x")]


def test_a_file_that_was_changed_since_says_so(base: Path, file: Path) -> None:
    file.write_text(TEXT)
    assert "changed after" in source(base, file)["changed"]


def test_a_file_that_is_gone_says_so(base: Path, file: Path) -> None:
    file.unlink()
    found = source(base, file)
    assert (found["lines"], found["missing"]) == ([], "the file is gone, or on another machine")
    assert found["values"]


@pytest.mark.parametrize("name", ["secret.txt", "id_rsa", "passwd", "shadow.pem"])
def test_only_python_source_is_shown(base: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / name
    secret.write_text("secret")
    found = source(base, secret)
    assert (found["lines"], found["missing"]) == ([], "the file is no Python source")


def test_a_link_is_not_followed(base: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    os.symlink(secret, tmp_path / "job.py")
    assert source(base, tmp_path / "job.py")["lines"] == []


def test_a_folder_or_a_pipe_is_no_source(base: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert source(base, tmp_path / "pipe.py")["lines"] == []


def test_a_very_large_file_is_not_read(base: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.py"
    large.write_bytes(b"x = 1\n" * 400_000)
    assert "larger" in source(base, large)["missing"]


def test_bytes_that_are_no_text_are_not_shown(base: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.py"
    odd.write_bytes(b"\0\1\2")
    assert source(base, odd)["missing"] == "the file is no text"


def test_source_that_does_not_parse_is_shown_from_its_first_line(base: Path, file: Path) -> None:
    file.write_text(TEXT + "def broken(:\n")
    os.utime(file, ns=(START - 10, START - 10))
    found = source(base, file)
    assert (found["first"], found["lines"][0]) == (3, "def train(epochs):")


def test_a_cell_that_is_no_file_says_so(base: Path) -> None:
    written = Written(base)
    shard = written.shard()
    shard.call("f", file="<ipython-input-1>")
    shard.close()
    assert Page(base).of(written.folder, "source", call=CALL)["missing"] == "it was not written in a file"

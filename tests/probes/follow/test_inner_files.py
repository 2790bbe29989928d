"""A followed function with a place of its own to print to (`file=`), called inside another followed one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import clew

from .tracing import load

_PROGRAM = """
import asyncio, logging
import clew

def leaf(n):
    x = n * 2
    return x

@clew.follow("x", file="inner.txt")
def inner(n):
    clew.log("a line")
    return leaf(n)
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_QUIET", "1")


def printed(folder: Path, source: str, *files: str) -> list[list[str]]:
    """The lines of these files after `main()`, without places and times."""
    with clew.run("inner", path=folder / "run"):
        load(folder, _PROGRAM + source).main()
    texts = [Path(file).read_text(encoding="utf-8") for file in files]
    return [[re.sub(r"(?<=[^│\s])  .*", "", line) for line in text.splitlines()] for text in texts]


def ends(lines: list[str]) -> list[str]:
    return [line.strip("│ ") for line in lines]


def test_an_inner_function_prints_its_part_into_its_own_file(tmp_path: Path) -> None:
    source = """
@clew.follow(show=False)
def main():
    leaf(1)
    inner(3)
    leaf(2)
"""
    (lines,) = printed(tmp_path, source, "inner.txt")
    assert ends(lines) == ["inner", "├─ n: 3", "├─ “a line”", "├─ leaf", "├─ n: 3", "├─ x@6", "└─ → 6", "└─ → 6"]


def test_the_outer_function_prints_it_too(tmp_path: Path) -> None:
    source = """
@clew.follow(file="outer.txt")
def main():
    inner(3)
    leaf(2)
"""
    inner, outer = printed(tmp_path, source, "inner.txt", "outer.txt")
    assert ends(inner)[0] == "inner" and ends(inner)[-1] == "└─ → 6"
    assert outer[0] == "main" and outer[1] == "├─ inner"
    assert [line.removeprefix("│  ") for line in outer[2:9]] == inner[1:]
    assert [line for line in ends(outer) if "leaf" in line] == ["├─ leaf", "├─ leaf"]


def test_what_goes_to_the_same_file_is_printed_once(tmp_path: Path) -> None:
    source = """
@clew.follow(file="./inner.txt")
def main():
    inner(3)
"""
    (lines,) = printed(tmp_path, source, "inner.txt")
    assert [line for line in ends(lines) if "inner" in line or "main" in line] == ["main", "├─ inner"]


def test_each_level_prints_into_its_own_file(tmp_path: Path) -> None:
    source = """
@clew.follow(file="middle.txt")
def middle():
    inner(3)

@clew.follow(file="outer.txt")
def main():
    middle()
"""
    files = printed(tmp_path, source, "outer.txt", "middle.txt", "inner.txt")
    assert [lines[0] for lines in files] == ["main", "middle", "inner"]
    assert [sum("leaf" in line for line in lines) for lines in files] == [1, 1, 1]


def test_a_coroutine_prints_into_its_own_file(tmp_path: Path) -> None:
    source = """
@clew.follow(file="task.txt")
async def task(n):
    await asyncio.sleep(0)
    return leaf(n)

async def both():
    await asyncio.gather(task(1), task(2))

@clew.follow(show=False)
def main():
    asyncio.run(both())
"""
    (lines,) = printed(tmp_path, source, "task.txt")
    assert ends(lines) == ["task", "├─ n: 1", "├─ leaf", "├─ n: 1", "└─ → 2", "└─ → 2"]  # the other one is folded


def test_an_inner_function_that_raises_leaves_the_outer_one_as_it_was(tmp_path: Path) -> None:
    source = """
@clew.follow(file="fails.txt")
def fails(n):
    raise ValueError("no")

@clew.follow(file="outer.txt")
def main():
    try:
        fails(1)
    except ValueError:
        pass
    leaf(5)
"""
    fails, outer = printed(tmp_path, source, "fails.txt", "outer.txt")
    assert fails == ["fails", "├─ n: 1", "└─ raised ValueError: no"]
    assert outer[-4:] == ["├─ leaf", "│  ├─ n: 5", "│  └─ → 10", "└─ → None"]
    run = clew.open(tmp_path / "run")
    assert [call.function for call in run.calls("main")[0].children] == ["fails", "leaf"]


def test_a_logger_of_the_users_gets_the_inner_part(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = """
@clew.follow(file=logging.getLogger("inner"))
def logged(n):
    return leaf(n)

@clew.follow(show=False)
def main():
    logged(4)
"""
    caplog.set_level("INFO", logger="inner")
    printed(tmp_path, source)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("logged  ")
    assert lines[-1].startswith("└─ → 8")

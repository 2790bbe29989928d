"""A followed function that is called from another one keeps its own names, and gets those of its callers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clew

from .tracing import load

_LEAF = """
import asyncio, threading
import clew

def leaf():
    x = 1
    y = 2
    z = 3
"""


def changes(folder: Path, source: str) -> list[tuple[str, str]]:
    """Function and name of every change of this program, whose `main` is called."""
    module = load(folder, _LEAF + source)
    with clew.run("nested", path=folder / "run") as run:
        module.main()
    calls = [call for root in clew.open(run.path).tree().roots for call in _all_calls(root)]
    return [(call.function, change.name) for call in calls for change in call.changes]


def _all_calls(call: Any) -> list[Any]:
    return [call, *(inner for child in call.children for inner in _all_calls(child))]


def test_a_followed_function_keeps_its_names_inside_one_that_names_none(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
def inner():
    x = y = 0
    leaf()

@clew.follow(show=False)
def main():
    inner()
    leaf()
"""
    assert changes(tmp_path, source) == [("inner", "x"), ("leaf", "x")]


def test_the_names_of_callers_are_followed_too(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
def inner():
    leaf()

@clew.follow("y", show=False)
def main():
    inner()
    leaf()
"""
    assert changes(tmp_path, source) == [("leaf", "x"), ("leaf", "y"), ("leaf", "y")]


def test_names_end_with_the_call_that_brought_them_also_when_it_raises(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
def inner():
    raise ValueError

@clew.follow("y", show=False)
def main():
    try:
        inner()
    except ValueError:
        pass
    leaf()
"""
    assert changes(tmp_path, source) == [("leaf", "y")]


def test_functions_that_call_each_other_follow_both_names(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
def even(n):
    x = y = n
    n and odd(n - 1)

@clew.follow("y", show=False)
def odd(n):
    x = y = n
    n and even(n - 1)

def main():
    even(2)
"""
    assert changes(tmp_path, source) == [
        ("even", "x"), ("odd", "x"), ("odd", "y"), ("even", "x"), ("even", "y"),
    ]  # fmt: skip


def test_a_generator_has_its_names_whenever_it_runs_and_lends_them_to_nobody(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
def numbers():
    x = 1
    yield
    leaf()
    yield

@clew.follow("y", show=False)
def main():
    for _ in numbers():
        leaf()
"""
    assert changes(tmp_path, source) == [
        ("numbers", "x"), ("leaf", "x"), ("leaf", "y"), ("leaf", "y"), ("leaf", "y"),
    ]  # fmt: skip


def test_tasks_keep_their_names_apart(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
async def first():
    await asyncio.sleep(0)
    leaf()

@clew.follow("z", show=False)
async def second():
    await asyncio.sleep(0)
    leaf()

@clew.follow("y", show=False)
async def together():
    await asyncio.gather(first(), second())

def main():
    asyncio.run(together())
"""
    assert changes(tmp_path, source) == [("leaf", "x"), ("leaf", "y"), ("leaf", "y"), ("leaf", "z")]


def test_a_thread_has_the_names_of_the_call_that_started_it(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
def inner():
    leaf()

@clew.follow("y", show=False)
def main():
    thread = threading.Thread(target=inner)
    thread.start()
    thread.join()
"""
    assert sorted(changes(tmp_path, source)) == [("leaf", "x"), ("leaf", "y")]


def test_an_undecorated_thread_has_the_names_of_all_calls_around_its_start(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
def inner():
    thread = threading.Thread(target=leaf)
    thread.start()
    thread.join()

@clew.follow("y", show=False)
def main():
    inner()
"""
    assert sorted(changes(tmp_path, source)) == [("leaf", "x"), ("leaf", "y")]


def test_two_functions_of_the_same_code_have_names_of_their_own(tmp_path: Path) -> None:
    source = """
def make(name):
    @clew.follow(name, show=False)
    def made():
        x = y = 0
    return made

def main():
    make("x")()
    make("y")()
"""
    made = "make.<locals>.made"
    assert changes(tmp_path, source) == [(made, "x"), (made, "y")]


def test_two_requests_on_one_function_are_both_kept_in_what_it_calls(tmp_path: Path) -> None:
    source = """
@clew.follow("x", show=False)
@clew.follow("y", show=False)
def main():
    leaf()
"""
    assert changes(tmp_path, source) == [("leaf", "x"), ("leaf", "y")]


def test_a_function_is_not_followed_for_names_that_only_others_asked_for(tmp_path: Path) -> None:
    source = """
@clew.follow("y", show=False)
def other():
    pass

@clew.follow("x", show=False)
def inner():
    x = y = 0

def main():
    other()
    inner()
"""
    assert changes(tmp_path, source) == [("inner", "x")]


def test_a_closure_made_before_its_names_were_asked_for_has_them(tmp_path: Path) -> None:
    source = """
def make():
    def made():
        x = y = 0
    return made

@clew.follow("x", show=False)
def inner(made):
    made()

@clew.follow("y", show=False)
def main():
    inner(make())
"""
    made = "make.<locals>.made"
    assert changes(tmp_path, source) == [(made, "x"), (made, "y")]


@pytest.mark.parametrize("option", ["depth=0", 'skip="inner"'])
def test_what_the_caller_leaves_out_does_not_take_a_functions_own_names(tmp_path: Path, option: str) -> None:
    source = f"""
@clew.follow("x", depth=1, show=False)
def inner():
    x = 0
    leaf()

@clew.follow({option}, show=False)
def main():
    inner()
"""
    assert changes(tmp_path, source) == [("inner", "x"), ("leaf", "x")]


def test_a_block_adds_its_names_to_those_of_the_function_around_it(tmp_path: Path) -> None:
    source = """
@clew.follow("y", show=False)
def main():
    with clew.follow("x", show=False):
        leaf()
    leaf()
"""
    assert changes(tmp_path, source) == [("leaf", "x"), ("leaf", "y"), ("leaf", "y")]


def test_changes_inside_a_block_are_printed_in_the_tree_around_it(tmp_path: Path) -> None:
    source = f"""
@clew.follow("y", file={str(tmp_path / "tree.txt")!r})
def main():
    with clew.follow("x"):
        x = 1
        y = 2
"""
    changes(tmp_path, source)
    lines = (tmp_path / "tree.txt").read_text().splitlines()
    assert [line.split()[1].partition("@")[0] for line in lines[1:3]] == ["x", "y"]


def test_the_names_of_an_inner_function_are_printed_in_the_outer_ones_tree(tmp_path: Path) -> None:
    source = f"""
@clew.follow("x", show=False)
def inner():
    leaf()

@clew.follow("y", file={str(tmp_path / "tree.txt")!r})
def main():
    inner()
"""
    changes(tmp_path, source)
    text = (tmp_path / "tree.txt").read_text()
    assert "x@6" in text and "y@7" in text and "z@" not in text


def test_a_forked_child_has_the_names_of_the_call_that_started_it(tmp_path: Path) -> None:
    source = """
import multiprocessing

@clew.follow("x", show=False)
def inner():
    leaf()

@clew.follow("y", show=False)
def main():
    child = multiprocessing.get_context("fork").Process(target=inner)
    child.start()
    child.join()
"""
    assert changes(tmp_path, source) == [("leaf", "x"), ("leaf", "y")]

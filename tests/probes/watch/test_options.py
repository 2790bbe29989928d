"""The options of `clew.watch`."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ExpressionError, OptionError, TargetError

from .checking import load, recorded

COUNT = """
def f(n=10):
    x = -1
    for i in range(n):
        x = i * 10
    return x
"""

on_every_engine = pytest.mark.usefixtures("engine")


@on_every_engine
def test_when_as_text_sees_the_functions_names(tmp_path: Path) -> None:
    assert recorded(tmp_path, COUNT, "x", when="i % 2 == 0 and x >= 0")["x"].values == [0, 20, 40, 60, 80]


@on_every_engine
def test_when_as_a_function_gets_the_change(tmp_path: Path) -> None:
    run = recorded(tmp_path, COUNT, "x", when=lambda change: change.value > 60)
    assert run["x"].values == [70, 80, 90]


@on_every_engine
def test_every_third_change(tmp_path: Path) -> None:
    assert recorded(tmp_path, COUNT, "x", every=3)["x"].values == [-1, 20, 50, 80]


@on_every_engine
def test_first_and_last_changes(tmp_path: Path) -> None:
    assert recorded(tmp_path, COUNT, "x", first=2)["x"].values == [-1, 0]
    assert recorded(tmp_path, COUNT, "x", last=2)["x"].values == [80, 90]
    assert recorded(tmp_path, COUNT, "x", first=1, last=1)["x"].values == [-1, 90]


@on_every_engine
def test_a_hook_is_given_the_change_that_readers_get(tmp_path: Path) -> None:
    given: list[clew.Change] = []
    calls: list[str] = []

    def hook(change: clew.Change) -> None:
        given.append(change)
        calls.append(change.call.function)

    run = recorded(tmp_path, COUNT, "x", args=(3,), on_change=hook)
    stored = run.changes("x")
    assert all(type(change) is clew.Change for change in (*given, *stored))
    assert [(c.name, c.value, c.line, c.function, c.file) for c in given] == [
        (c.name, c.value, c.line, c.function, c.file) for c in stored
    ]
    assert calls == ["f"] * len(stored)
    assert all(abs(a.time - b.time) <= b.time_error + 0.001 for a, b in zip(given, stored, strict=True))
    assert [change.before for change in given[1:]] == [change.before for change in stored[1:]]


@on_every_engine
def test_on_change_is_told_and_may_replace(tmp_path: Path) -> None:
    told = []

    def hook(change: Any) -> object:
        told.append((change.name, change.value, change.line, change.function))
        return change.value / 2 if change.value else None

    run = recorded(tmp_path, COUNT, "x", args=(2,), on_change=hook)
    assert told == [("x", -1, 2, "f"), ("x", 0, 4, "f"), ("x", 10, 4, "f")]
    assert run["x"].values == [-0.5, 0, 5.0]


@on_every_engine
def test_a_hook_that_raises_is_reported_once_and_the_changes_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def hook(change: Any) -> object:
        raise RuntimeError("mine")

    run = recorded(tmp_path, COUNT, "x", args=(3,), on_change=hook)
    assert run["x"].values == [-1, 0, 10, 20]
    assert capsys.readouterr().err.count("RuntimeError: mine") == 1


def test_break_when_opens_the_debugger_in_the_users_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []

    def debugger(*args: Any, **kwargs: Any) -> None:
        import sys

        frame = sys._getframe(1)
        stops.append((frame.f_code.co_name, frame.f_locals["x"]))

    monkeypatch.setattr("sys.breakpointhook", debugger)
    recorded(tmp_path, COUNT, "x", break_when="x == 30")
    recorded(tmp_path, COUNT, "x", break_when=lambda change: change.value == 50)
    assert stops == [("f", 30), ("f", 50)]


STEPS = """
def f():
    for _ in range(2):
        for i in (5, 6):
            x = -i
    try:
        raise ValueError(7)
    except ValueError as i:
        x = str(i)
"""


@on_every_engine
@pytest.mark.parametrize("watched", [("x", "i"), ("*",)], ids=" ".join)
def test_a_step_may_be_watched_too(watched: tuple[str, ...], tmp_path: Path) -> None:
    run = recorded(tmp_path, STEPS, *watched, step="i")
    assert run["x"].steps[:4] == [5, 6, 5, 6]
    assert run["i"].values[:4] == [5, 6, 5, 6]
    assert run["i"].steps[:4] == [5, 6, 5, 6]
    assert run["x"].values[4:] == ["7"]
    assert run["i"].values[-1] is clew.DELETED


@on_every_engine
def test_step_numbers_the_changes_of_the_others(tmp_path: Path) -> None:
    run = recorded(tmp_path, COUNT, "x", args=(4,), step="i")
    assert list(run["x"].steps)[1:] == [0, 1, 2, 3]
    assert "i" not in run.names


@on_every_engine
def test_show_prints_changes_as_they_happen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_QUIET", "1")  # functions of other tests may never have been called
    recorded(tmp_path, COUNT, "x", args=(1,), show=True)
    lines = [line.split("  ") for line in capsys.readouterr().err.splitlines()]
    assert [(place.rpartition(":")[2], text) for place, _, text in lines] == [("2", "x = -1"), ("4", "x = 0")]


def test_tags_are_put_on_the_run(tmp_path: Path) -> None:
    assert recorded(tmp_path, COUNT, "x", tags={"phase": "train"}).meta["tags"] == {"phase": "train"}


def test_on_return_is_given_the_recorded_call(tmp_path: Path) -> None:
    calls = []
    recorded(tmp_path, COUNT, "x", args=(2,), on_return=lambda call: calls.append((call.data, call.result)))
    assert calls == [({"x": [-1, 0, 10]}, 10)]


@on_every_engine
def test_ignored_lines(tmp_path: Path) -> None:
    source = """
    def f():
        x = 0
        for i in range(3):  # clew: ignore
            x += i  # ztrace: ignore
        x = (x +  # clew: ignore
             1)
        x = 0
        text = "# clew: ignore"
    """
    run = recorded(tmp_path, source, "x", "i", "text")
    assert run["x"].values == [0, 0]
    assert run["text"].values == ["# clew: ignore"]
    assert "i" not in run.names


@on_every_engine
def test_hooks_are_not_called_with_changes_of_ignored_lines(tmp_path: Path) -> None:
    lines = []
    source = "def f():\n    x = 1\n    x = 2  # clew: ignore\n    x = 3\n"
    run = recorded(tmp_path, source, "x", on_change=lambda change: lines.append(change.line))
    assert (run["x"].values, lines) == ([1, 3], [2, 4])


def test_a_statement_on_one_line_with_others_is_a_change_of_its_own(tmp_path: Path) -> None:
    assert recorded(tmp_path, "def f():\n    x = 1; x = 2; x = 3\n", "x")["x"].values == [1, 2, 3]


@pytest.mark.parametrize("bad", ["x +", "for", "x = 1", "(y := 2)", "await x", "", "a b"])
def test_a_bad_expression_is_an_error_at_decoration_that_names_it(bad: str) -> None:
    with pytest.raises(ExpressionError) as error:
        clew.watch("fine", bad)
    assert f"`{bad}`" in str(error.value)


@pytest.mark.parametrize(
    "options",
    [{"every": 0}, {"first": -1}, {"last": "2"}, {"when": 3}, {"on_change": 1}, {"keep": "some"}, {"step": "*"}],
)
def test_a_bad_option_is_an_error_that_names_it(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as error:
        clew.watch("x", **options)
    assert next(iter(options)) in str(error.value)


def test_nothing_to_watch_is_an_error() -> None:
    with pytest.raises(OptionError):
        clew.watch()


@pytest.mark.parametrize("target", [len, 5, builtins.print, "text", [].append])
def test_something_without_python_code_is_an_error(target: Any) -> None:
    with pytest.raises(TargetError):
        clew.watch("x")(target)


def test_a_second_watch_adds_to_the_first(tmp_path: Path) -> None:
    module = load(tmp_path, COUNT)
    with clew.run() as run:
        clew.watch("i")(clew.watch("x")(module.f))(2)
    call = run.calls("f")[0]
    assert call.data == {"x": [-1, 0, 10], "i": [0, 1]}


def test_per_name_keep_policies(tmp_path: Path) -> None:
    source = "import numpy\ndef f():\n    a = numpy.arange(4.)\n    b = numpy.arange(4.)\n"
    run = recorded(tmp_path, source, "a", "b", keep={"a": "summary", "*": "full"})
    assert isinstance(run["a"].values[0], clew.NotKept)
    assert run["a"].values[0].summary.max == 3.0
    assert run["b"].values[0].tolist() == [0, 1, 2, 3]


def test_keep_last_keeps_the_last_in_full_and_says_so_of_the_others(tmp_path: Path) -> None:
    source = "import numpy\ndef f():\n    for i in range(5):\n        a = numpy.full(3, i)\n"
    values = recorded(tmp_path, source, "a", keep="last 2")["a"].values
    assert [isinstance(value, clew.NotKept) for value in values] == [True, True, True, False, False]
    assert values[0].summary.max == 0
    assert values[-1].tolist() == [4, 4, 4]

"""A call tree as lines."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from clew.show.tree import tree_lines, tree_text, write_tree
from clew.show.tree_lines import LEVELS, Pen
from show.fakes import FakeCall, FakeChange, FakeTree


def drawn(*roots: FakeCall, **options: Any) -> list[str]:
    return tree_text(FakeTree(*roots), **options).splitlines()  # type: ignore[arg-type]


def loop(count: int, **odd: Any) -> FakeCall:
    """A call that makes many equal calls; `odd` are arguments of the one in the middle."""
    steps = [FakeCall("step", {"i": i}, i * 2, duration=(i + 1) / 1000, line=7) for i in range(count)]
    for name, value in odd.items():
        setattr(steps[count // 2], name, value)
    return FakeCall("train").calls(*steps)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    return Terminal()


# ---- the layout


def test_a_call_shows_inputs_changes_callees_messages_and_its_result_in_order() -> None:
    root = FakeCall("transform", {"video": np.zeros((2, 3, 4), np.uint8), "n": 3}, "ok", duration=0.0123, line=57)
    root.callers = [("/x/loader.py", 283, "getitem"), ("C:\\y\\thread.py", 57, "run"), ("main.py", 80, "<module>")]
    root.calls(
        FakeChange("video", np.zeros((4, 2, 3), np.uint8), line=61),
        FakeCall("scale", {"x": 1}, 2.5, line=12),
        FakeCall("<log>", message="xx is 3"),
        FakeChange("video", np.zeros((4, 2, 3), np.float32), line=63),
    )
    assert drawn(root) == [
        "transform  mod.py:57  (loader.py:283 <- thread.py:57 <- main.py:80)  12.3 ms",
        "├─ video: uint8 (2, 3, 4)",
        "├─ n: 3",
        "├─ video@61  shape (2, 3, 4) → (4, 2, 3)",
        "├─ scale  mod.py:12  1 ms",
        "│  ├─ x: 1",
        "│  └─ → 2.5",
        "├─ “xx is 3”",
        "├─ video@63  uint8 → float32",
        "└─ → 'ok'",
    ]


def test_an_exception_is_shown_where_it_left() -> None:
    root = FakeCall("outer", error="ValueError: no").calls(FakeCall("inner", error="ValueError: no"))
    assert drawn(root) == [
        "outer  mod.py:1  1 ms",
        "├─ inner  mod.py:1  1 ms",
        "│  └─ raised ValueError: no",
        "└─ raised ValueError: no",
    ]


def test_a_call_that_never_ended_says_so() -> None:
    assert drawn(FakeCall(duration=None)) == ["f  mod.py:1  not ended"]


def test_a_callees_chain_is_shown_only_when_it_is_not_the_parents() -> None:
    plain = FakeCall("g", callers=[("/home/me/mod.py", 5, "f"), ("x.py", 1, "h")])
    through = FakeCall("h", callers=[("/lib/map.py", 9, "map"), ("/home/me/mod.py", 6, "f")])
    lines = drawn(FakeCall("f").calls(plain, through))
    assert lines[1:] == ["├─ g  mod.py:1  1 ms", "└─ h  mod.py:1  (map.py:9 <- mod.py:6)  1 ms"]


def test_a_long_chain_is_counted() -> None:
    root = FakeCall(callers=[("a.py", i, "f") for i in range(1, 10)])
    assert "a.py:6 <- … 3 more)" in drawn(root)[0]


def test_a_thread_is_named_where_it_differs() -> None:
    root = FakeCall().calls(FakeCall("g", thread="pool-1").calls(FakeCall("h", thread="pool-1")))
    lines = drawn(root)
    assert ["[pool-1]" in line for line in lines] == [False, True, False]


def test_what_was_recorded_cannot_act_on_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\n"
    root = FakeCall(evil, {evil: evil}, evil, file=evil, callers=[(evil, 1, evil)], thread=evil)
    root.calls(FakeChange(evil, evil), FakeCall("<log>", message=evil), FakeCall(error=evil))
    text = "".join(drawn(root))
    assert not set("\x1b\x07\n") & set(text)


# ---- folding


def test_equal_calls_in_a_row_fold_with_first_and_last_shown() -> None:
    assert drawn(loop(100))[1:] == [
        "├─ step  mod.py:7  1 ms",
        "│  ├─ i: 0",
        "│  └─ → 0",
        "├─ … 98 more like it, 2 ms to 99 ms",
        "└─ step  mod.py:7  100 ms  i: 99 → 198",
    ]


@pytest.mark.parametrize(
    ("odd", "shown"),
    [({"error": "ValueError: no"}, "raised ValueError: no"), ({"args": {"i": np.zeros(3)}}, "i: float64 (3,)")],
)
def test_a_call_that_differs_stays_visible(odd: dict[str, Any], shown: str) -> None:
    lines = drawn(loop(100, **odd))
    assert sum(shown in line for line in lines) == 1
    assert sum("more like it" in line for line in lines) == 2


def test_a_loop_of_several_things_folds_by_rounds() -> None:
    rounds = [(FakeCall("f"), FakeChange("loss", float(i)), FakeCall("g")) for i in range(50)]
    lines = drawn(FakeCall("train").calls(*(event for round_line in rounds for event in round_line)))
    assert lines[4] == "├─ … 48 more rounds like these 3, 1 ms"
    assert lines[6] == "├─ loss@10  48.0 → 49.0"
    assert len(lines) == 8


def test_two_equal_calls_are_both_shown() -> None:
    assert sum("i:" in line for line in drawn(loop(2))) == 2


def test_full_folds_nothing() -> None:
    assert sum("i: " in line for line in drawn(loop(300), full=True)) == 300


def test_roots_fold_too() -> None:
    assert drawn(*(FakeCall() for _ in range(50))) == [
        "f  mod.py:1  1 ms",
        "… 48 more like it, 1 ms",
        "f  mod.py:1  1 ms",
    ]


# ---- limits


def test_a_long_tree_is_cut_and_says_what_is_missing() -> None:
    roots = [FakeCall(f"f{i}") for i in range(300)]
    lines = drawn(*roots, limit=50)
    assert len(lines) == 51
    assert lines[-1].startswith("… more; 300 calls in all")
    assert len(drawn(*roots, limit=None)) == 300


def test_a_tree_of_exactly_the_limit_is_not_reported_as_cut() -> None:
    assert len(drawn(*(FakeCall(f"f{i}") for i in range(50)), limit=50)) == 50


def test_a_recursion_deeper_than_pythons_is_drawn_and_its_margin_stays_short() -> None:
    call = FakeCall("deepest")
    for _ in range(3_000):
        call = FakeCall().calls(call)
    lines = drawn(call, full=True)
    assert len(lines) == 3_001
    assert "deepest" in lines[-1]
    assert lines[-1].startswith(f"…{3_000 - LEVELS} levels… ")
    assert max(map(len, lines)) < 200


def test_events_beyond_those_looked_at_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.show.tree.LOOKED_AT", 10)
    lines = drawn(loop(50))
    assert lines[-1] == "└─ … 40 more, not looked at (`--full` shows all)"


# ---- where it is written


def test_ascii_has_marks_every_console_can_show() -> None:
    root = FakeCall("f", {"x": "x" * 90}, 1).calls(FakeCall("g"), FakeCall("<log>", message="hi"))
    lines = drawn(root, ascii=True)
    assert lines[1:] == [
        "|- x: str[90] '" + "x" * 60 + "...'",
        "|- g  mod.py:1  1 ms",
        '|- "hi"',
        "`- -> 1",
    ]
    assert all(line.isascii() for line in lines)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437"])
def test_a_stream_that_cannot_show_the_marks_gets_ascii_ones(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    write_tree(FakeTree(FakeCall("f", {"x": "日本"}, 1)), stream)  # type: ignore[arg-type]
    stream.flush()
    assert raw.getvalue().decode(encoding).splitlines() == ["f  mod.py:1  1 ms", "|- x: '\\u65e5\\u672c'", "`- -> 1"]


def test_a_terminal_gets_colours_and_lines_cut_to_its_width(terminal: Terminal) -> None:
    write_tree(FakeTree(FakeCall("f", {"x": "word " * 30}, 1)), terminal)  # type: ignore[arg-type]
    assert "\x1b[" in terminal.getvalue()
    lines = _without_colours(terminal.getvalue())
    assert len(lines) == 3
    assert max(map(len, lines)) == 40
    assert lines[1].endswith("…")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours_is_plain(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    root = FakeCall("f", {"x": 1}, 1, error="ValueError: [red]no[/red]")
    write_tree(FakeTree(root), terminal)  # type: ignore[arg-type]
    assert not any(f"\x1b[{code}" in terminal.getvalue() for code in ("3", "9", "1;3"))
    assert "[red]no[/red]" in terminal.getvalue()


def test_a_pipe_gets_whole_plain_lines(terminal: Terminal) -> None:
    stream = io.StringIO()
    write_tree(FakeTree(FakeCall("f" * 300)), stream)  # type: ignore[arg-type]
    assert stream.getvalue() == "f" * 300 + "  mod.py:1  1 ms\n"


def test_wide_characters_are_cut_by_the_cells_they_take(terminal: Terminal) -> None:
    lines = list(tree_lines(FakeTree(FakeCall("日" * 60))))  # type: ignore[arg-type]
    (line,) = _without_colours(Pen(terminal).render(lines))
    assert len(line) < 22


def _without_colours(text: str) -> list[str]:
    from rich.text import Text

    return Text.from_ansi(text).plain.splitlines()

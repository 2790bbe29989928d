"""What clew does on a Python that it does not understand: it says so, once, and is slow instead of wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.commands.main import main
from clew.errors import GraphError, TargetError
from clew.instrument import grammar, selftest, source

CO_GENERATOR = 0x20


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    selftest._failure.cache_clear()
    yield
    selftest._failure.cache_clear()


@pytest.fixture
def unknown_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this Python had put a new flag on some functions of every program."""
    monkeypatch.setattr(source, "_KNOWN_FLAGS", source._KNOWN_FLAGS & ~CO_GENERATOR)


def counting() -> Callable[[int], int]:
    def count(n: int) -> int:
        total = 0
        for index in range(n):
            total += index
        return total

    return count


def fallbacks(run: Any) -> list[str]:
    return [str(note) for note in run.reader().ledger if note.kind == "fallback"]


def test_this_python_is_understood() -> None:
    assert selftest.failure() == ""


def test_with_an_unknown_flag_a_function_is_watched_by_events_and_the_ledger_says_why(unknown_flag: None) -> None:
    with clew.run() as run:
        assert clew.watch("total")(counting())(4) == 6
    assert run.reader()["total"].values == [0, 1, 3, 6]
    assert [note for note in fallbacks(run) if "events" in note and "(0x20)" in note]


def test_it_is_said_once_and_loudly(unknown_flag: None, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        clew.watch("total")(counting())
    assert capsys.readouterr().err.count("a flag of code objects (0x20)") == 1


def test_with_an_unknown_flag_nothing_can_be_followed_and_the_error_says_why(unknown_flag: None) -> None:
    with pytest.raises(TargetError, match="0x20"):
        clew.follow(counting())


def test_a_callee_with_an_unknown_flag_is_not_followed_and_the_ledger_says_why(tmp_path: Path, run_python: Any) -> None:
    (tmp_path / "program.py").write_text(
        "import clew\n"
        "from clew.instrument import source\n"
        "def numbers(n):\n    yield from range(n)\n"
        "def main():\n    return sum(numbers(3))\n"
        "with clew.run() as run:\n"
        "    followed = clew.follow(main, show=False)\n"
        f"    source._KNOWN_FLAGS &= ~{CO_GENERATOR}\n"
        "    print(followed())\n"
        "print(*run.reader().ledger)\n"
    )
    printed = run_python("import runpy; runpy.run_path('program.py', run_name='__main__')")
    assert printed.startswith("3\n")
    assert "numbers" in printed and "not followed" in printed and "(0x20)" in printed


def test_with_an_unknown_flag_no_graph_is_recorded(unknown_flag: None) -> None:
    with pytest.raises(GraphError, match="0x20") as refused:
        clew.record(counting(), 3)
    assert refused.value.slug == "graph-no-source"


def test_functions_that_are_compiled_in_another_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "same_code", lambda a, b: a.co_name != "streams")
    assert "(streams)" in selftest.failure()


def test_rewritten_functions_that_record_something_else_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_EXPECTED", [1.0])
    assert "do not record what they do" in selftest.failure()


def test_a_failure_of_the_test_itself_is_taken_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise KeyError("NEW_OPCODE")

    monkeypatch.setattr(source, "compile_alone", fail)
    assert "NEW_OPCODE" in selftest.failure()


def test_a_full_stack_is_no_reason_to_give_up_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> str:
        raise RecursionError

    monkeypatch.setattr(selftest, "_unrecognised", full)
    assert "no room" in selftest.failure()
    monkeypatch.undo()
    assert selftest.failure() == ""


def test_only_functions_with_unknown_syntax_are_watched_by_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "_ADDED", {"While": frozenset()})

    def loops(n: int) -> int:
        while n:
            n -= 1
        return n

    with clew.run() as run:
        clew.watch("n")(loops)(2)
        clew.watch("total")(counting())(2)
    (note,) = fallbacks(run)
    assert "loops" in note and "syntax" in note and "While" in note
    assert run.reader()["n"].values == [2, 1, 0]


def test_a_new_field_counts_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import ast

    monkeypatch.setattr(grammar, "_ADDED", {"Expr": frozenset({"is_new"})})
    tree = ast.parse("1")
    assert grammar.unknown_in(tree) == ""
    tree.body[0].is_new = 1  # type: ignore[attr-defined]
    assert grammar.unknown_in(tree) == "Expr"


def test_doctor_says_what_is_not_understood(unknown_flag: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 1
    assert "(0x20)" in capsys.readouterr().out


FREE = "import sys; sys._is_gil_enabled = lambda: False\n"


@pytest.mark.parametrize("use", ["clew.watch", "clew.follow", "clew.record", "clew.ModelTracer", "clew.items"])
def test_a_free_threaded_python_is_refused_with_the_remedy(use: str, tmp_path: Path, run_python: Any) -> None:
    done = run_python(FREE + f"import clew\ntry:\n    {use}\nexcept ImportError as error:\n    print(error)")
    assert "free-threaded" in done and "PYTHON_GIL=1" in done


def test_on_a_free_threaded_python_doctor_says_so(run_python: Any) -> None:
    done = run_python(FREE + "from clew.commands.main import main\nprint(main(['doctor']), main(['run', 'x.py']))")
    assert "free-threaded" in done and done.endswith("1 2")


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[[str], str]:
    import subprocess

    def run(program: str) -> str:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
        return done.stdout.strip()

    return run

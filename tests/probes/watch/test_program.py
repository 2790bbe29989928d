"""What `clew run` does to the modules that a program imports."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.probes.watch.unchanged_program import Program, _Finder


@pytest.fixture
def finders() -> Iterator[None]:
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before


def test_two_programs_in_one_process_do_not_ask_each_other_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finders: None
) -> None:
    (tmp_path / "imported_beside_two_programs.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(2):
        Program([]).install()
    assert importlib.import_module("imported_beside_two_programs").x == 1
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")


def test_a_module_that_is_not_there_is_looked_for_once_for_each_finder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    class Counting:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            asked.append(name)

    finders = [_Finder(Program([])) for _ in range(8)]
    monkeypatch.setattr(sys, "meta_path", [*finders, Counting])
    assert importlib.util.find_spec("a_module_that_is_not_there") is None
    assert len(asked) == len(finders) + 1  # Python asks each finder; asking each other, they would ask 256 times

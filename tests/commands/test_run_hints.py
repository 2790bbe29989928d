"""What `clew run` suggests leads somewhere when it is done."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import clew
from clew import recording
from clew.commands.main import main
from clew.recorder import child_processes

PROGRAM = """
import {library}

def train():
    loss = {library}.measure(2)
    return loss

train()
rate = 3
"""
LIBRARY = """
class Meter:
    def read(self, scale):
        total = scale * 2
        return total

    Itself = None

Meter.Itself = Meter

def measure(scale):
    return Meter().read(scale)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program, and the library it uses: a module of its own name, so that it is loaded anew."""
    library = f"meters_{tmp_path.name}"
    home = tmp_path / "site-packages"
    home.mkdir()
    (home / f"{library}.py").write_text(LIBRARY)
    monkeypatch.setattr(sys, "path", ["", str(home), *sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # workers that later tests start load it
    monkeypatch.setattr(child_processes, "_suppliers", {})  # what this process's children would be told
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(library=library))
    return program


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["run", *map(str, words)]) == 0
    recording.close_all()
    ledger = str(clew.open("latest").ledger)  # beside other tests, stderr shows the first of its lines only
    return capsys.readouterr().err + ledger


@pytest.mark.parametrize("option", ["--watch", "--follow"])
def test_a_function_of_a_library_is_suggested_by_its_full_name_which_works(
    option: str, script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, more = (": total", []) if option == "--watch" else ("", ["--no-show"])
    told = said(capsys, option, f"read{rest}", *more, script)
    hint = re.search(r"did you mean `(\w+\.Meter\.read)`", told)
    assert hint is not None, told
    monkeypatch.delitem(sys.modules, hint[1].partition(".")[0])
    assert "did you mean" not in said(capsys, option, f"{hint[1]}{rest}", *more, script)
    (call,) = clew.open("latest").calls("Meter.read")
    assert (call.result == 4) if option == "--follow" else (call.data["total"] == [4])


def test_a_name_of_the_module_level_is_suggested_there_and_found_there(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "did you mean `<module>: rate`" in said(capsys, "--watch", "train: rate", script)
    assert "did you mean `<module>: rate`" in said(capsys, "--watch", "trains: rate", script)
    said(capsys, "--watch", "<module>: rate", script)
    assert clew.open("latest")["rate"].values == [3]


def test_the_program_comes_first_where_no_library_has_the_very_name(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no function matches `trian`; did you mean `train`" in said(capsys, "--watch", "trian: loss", script)


def test_functions_of_modules_that_clew_had_loaded_are_not_suggested(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, "--watch", "json.dumps: obj", script)
    assert "`json` was loaded before the program began, and its functions are left alone" in told

"""`clew run --follow`: the calls of a program nobody has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import clew
from probes.follow.tracing import names

SCRIPT = """
import sys
import helper_of_follow

def f(x):
    y = x + 1
    return helper_of_follow.far(y)

def main():
    return [f(i) for i in range(2)]

print(main(), sys.argv[1:])
"""
MAKES = """
def make(n):
    class Part:
        def add(self, x):
            return x + n
    def add(x):
        return Part().add(x)
    return add

add = make(1)
add(2)
print(list(map(add, [3, 4])))
"""


def run_clew(folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], clew.Run]:
    (folder / "script.py").write_text(SCRIPT)
    (folder / "helper_of_follow.py").write_text("def far(y):\n    return -y\n")
    env = os.environ | {"CLEW_DIR": str(folder / "runs")}
    command = [sys.executable, "-c", "from clew.commands.main import main; raise SystemExit(main())", "run", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done, clew.runs(folder / "runs")[-1]


def test_a_function_is_followed_without_touching_the_code(tmp_path: Path) -> None:
    done, run = run_clew(tmp_path, "script.py", "--follow", "__main__:main", "--other", "1")
    assert (done.returncode, done.stdout) == (0, "[-1, -2] ['--other', '1']\n")
    assert names(run) == [["main", ["f", "far"], ["f", "far"]]]
    assert "→ list[2] [-1, -2]" in done.stderr


def test_a_function_of_an_imported_module(tmp_path: Path) -> None:
    done, run = run_clew(tmp_path, "--follow", "helper_of_follow:far", "--no-show", "script.py")
    assert names(run) == ["far", "far"]
    assert done.stderr == ""
    assert run.calls("far")[0].callers[0].function == "f"


def test_names_and_depth(tmp_path: Path) -> None:
    _, run = run_clew(tmp_path, "--follow", "main", "--names", "y", "--depth", "1", "--no-show", "script.py")
    assert names(run) == [["main", "f", "f"]]
    assert run["y"].values == [1, 2]


def test_watching_and_following_one_function(tmp_path: Path) -> None:
    _, run = run_clew(tmp_path, "--follow", "f", "--watch", "f: y", "--no-show", "script.py")
    assert names(run) == [["f", "far"], ["f", "far"]]
    assert run["y"].values == [1, 2]


def test_a_function_that_is_not_there_is_in_the_ledger(tmp_path: Path) -> None:
    done, run = run_clew(tmp_path, "--follow", "mian", "script.py")
    assert "did you mean `main`" in done.stderr
    assert [note.subject for note in run.ledger] == ["mian"]


def test_functions_made_by_followed_ones_are_followed_wherever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "makes.py").write_text(MAKES)
    _, run = run_clew(tmp_path, "--follow", "*", "--no-show", "makes.py")
    assert names(run) == ["make", *[["make.<locals>.add", "make.<locals>.Part.add"]] * 3]
    _, run = run_clew(tmp_path, "--follow", "makes:make", "--no-show", "makes.py")
    assert names(run) == ["make"]

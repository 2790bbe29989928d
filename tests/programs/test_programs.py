"""Every program in this folder behaves under each probe as it does under plain Python.

A program ends with a comment `# Output:` and what it prints. Before it, comments may say more: `# Status: 3` (how it
exits), `# Needs: joblib` (libraries without which it is left out), `# Arguments: a b`, `# Probes: watch+follow, model`
(the runs, if not the usual ones), `# Without: watch, follow, because ...` (probes it cannot run under).
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROBES = {
    "watch": ["--watch", "*: *"],
    "follow": ["--follow", "*", "--no-show"],
    "model": ["--model", "*: **"],
    "nonfinite": ["--nonfinite", "find"],
    "items": ["--items", "1000000"],
}
#: Runs, each with the probes that are joined by a plus. Without a model the last three have nothing to get in the way of
#: each other; what loads a large library runs as rarely as possible.
USUAL_RUNS = "watch, follow, model+nonfinite+items"
RUNS_WITH_LIBRARIES = "watch+follow, model+nonfinite+items"
RUNS_WITH_TORCH = "watch+follow, model+nonfinite, items"
#: Python may count threads before those of clew's have ended: see docs/limitations.md.
FORK_WARNING = r".*DeprecationWarning: This process .* is multi-threaded.*\n.*\n"
PROGRAMS = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_"))


def said(text: str, word: str, default: str = "") -> list[str]:
    """What a comment of the program says."""
    match = re.search(rf"^# {word}: (.*)$", text, re.MULTILINE)
    return re.split(r",?\s+", (match[1] if match else default).strip())


def output(text: str) -> str:
    lines = text.partition("\n# Output:\n")[2].splitlines(keepends=True)
    return "".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)


def cases() -> list[tuple[Path, str]]:
    found = []
    for path in PROGRAMS:
        text = path.read_text()
        if all(importlib.util.find_spec(name) for name in said(text, "Needs") if name):
            found += [(path, probes) for probes in ("plain", *runs_of(text))]
    return found


def runs_of(text: str) -> list[str]:
    """The runs of a program, apart from the plain one."""
    needs = said(text, "Needs")
    usual = RUNS_WITH_TORCH if "torch" in needs else RUNS_WITH_LIBRARIES if any(needs) else USUAL_RUNS
    runs = [[probe for probe in run.split("+") if probe not in without(text)] for run in said(text, "Probes", usual)]
    return ["+".join(run) for run in runs if run]


def without(text: str) -> set[str]:
    """Probes that a program cannot run under, here or anywhere."""
    match = re.search(r"^# Without: (.*), because \w", text, re.MULTILINE)
    named = set(match[1].split(", ")) if match else set()
    return named if importlib.util.find_spec("torch") else named | {"model", "nonfinite"}


def run(path: Path, probes: str, folder: Path) -> subprocess.CompletedProcess[str]:
    options = [] if probes == "plain" else [option for probe in probes.split("+") for option in PROBES[probe]]
    before = ["-m", "clew", "run", "--name", path.stem, *options] if options else []
    words = [word for word in said(path.read_text(), "Arguments") if word]
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs"), "CLEW_QUIET": "1", "PYTHONHASHSEED": "0"}
    environment["PYTHONWARNINGS"] = (
        "ignore::SyntaxWarning"  # since 3.14 about what some of these programs are there for
    )
    return subprocess.run(
        [sys.executable, *before, str(path), *words],
        cwd=folder, env=environment, input="", capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(("path", "probes"), cases(), ids=lambda value: value if isinstance(value, str) else value.stem)
def test_a_program_behaves_as_it_does_under_plain_python(path: Path, probes: str, tmp_path: Path) -> None:
    text = path.read_text()
    done = run(path, probes, tmp_path)
    assert (done.stdout, done.returncode) == (output(text), int(said(text, "Status", "0")[0])), done.stderr
    plain = "\n".join(said_on_stderr(text))
    errors = re.sub(FORK_WARNING, "", done.stderr) if sys.version_info >= (3, 12) else done.stderr
    assert errors.replace(str(path), "PROGRAM") == (plain + "\n" if plain else "")
    runs = list((tmp_path / "runs").glob("*/*"))
    assert [run.name.partition("-")[2] for run in runs] == ([] if probes == "plain" else [path.stem])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_under_every_probe_or_says_why_not(path: Path) -> None:
    text = path.read_text()
    assert {probe for run in runs_of(text) for probe in run.split("+")} | without(text) == set(PROBES)


def said_on_stderr(text: str) -> list[str]:
    """The comments between `# Errors:` and `# Output:`: what the program says on stderr, its own path as PROGRAM."""
    between = re.search(r"^# Errors:\n(.*?)^# Output:", text, re.MULTILINE | re.DOTALL)
    return [line[2:] for line in between[1].splitlines()] if between else []

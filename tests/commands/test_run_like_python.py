"""`clew run` starts whatever `python` starts, and what cannot be started is refused in the same words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import clew

SHOW = """\
import sys
print(list(globals()), type(__builtins__), sys.argv, sys.path[0], __name__, __package__, __doc__)
print(globals().get("__file__"), __spec__, __loader__, globals().get("__cached__"))
def work(n):
    loss = n * 2
    return loss
print(work(4))
"""
MOVES = """\
import os
os.chdir("elsewhere")
import sibling
print(sibling.work(4))
"""
SIBLING = "def work(n):\n    loss = n * 2\n    return loss\n"
WARNS = """\
import warnings
warnings.warn("here")
warnings.warn("old", DeprecationWarning)
warnings.warn("above", stacklevel=2)
warnings.warn("far above", stacklevel=4)
def f():
    warnings.warn("caller", stacklevel=2)
f()
text = "\\d"
import warning
def again():
    warnings.warn("shown once")
for name in ("sibling_of_warns", "other_of_warns"):
    again()
    exec("import " + name)
"""
OWN = """\
import platform, queue, random
import json, logging, dataclasses, os, re
print(queue.mine, platform.mine, json.mine, logging.mine, dataclasses.mine, hasattr(os, "mine"))
def work(n):
    for i in range(n):
        loss = i * 2
    return loss
print(work(3))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "show.py": SHOW, "folder/__main__.py": SHOW, "package/__init__.py": "", "package/__main__.py": SHOW,
        "package/job.py": SHOW, "empty/read.me": "", "bare/__init__.py": "", "broken/__init__.py": "1 / 0",
        "moves/__main__.py": MOVES, "moves/sibling.py": SIBLING, "elsewhere/read.me": "", "warns.py": WARNS,
        "sibling_of_warns.py": SIBLING + "work(1)\n", "other_of_warns.py": SIBLING + "work(2)\n",
        "warning.py": "import warnings\nwarnings.warn('importer', stacklevel=2)\n", "own/main.py": OWN,
        "fails.py": "import failing\n", "failing.py": "def f():\n    x = 1\n    raise OSError(x)\nf()\n",
        "ends.py": "import sys\nsys.exit('sorry')\n", "broken_text.py": "x = (\n", "reads.py": "import broken_text\n",
        "fails_first/__init__.py": "import failing\n", "fails_first/job.py": "", "zipped/bad.py": "1 / 0\n",
        "zipped/old.py": "import warnings\nwarnings.warn('importer', stacklevel=2)\n",
        "zips.py": "import sys\nsys.path.insert(0, 'zipped.zip')\nimport old\nimport bad\n",
    }  # fmt: skip
    for name in ("queue", "platform", "json", "logging", "dataclasses", "os"):
        files[f"own/{name}.py"] = "mine = True\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("folder", "moves", "zipped"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            for file in (tmp_path / name).iterdir():
                archive.write(file, file.name)
    return tmp_path


def said(folder: Path, *words: str) -> tuple[str, str, int]:
    environment = {**os.environ, "CLEW_DIR": str(folder / "runs")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, input=SHOW, capture_output=True, text=True, timeout=60
    )
    return re.sub(r" at 0x\w+", "", done.stdout), done.stderr, done.returncode


def runs(folder: Path) -> list[Path]:
    return list((folder / "runs").glob("*/*"))


STARTED = [
    ["show.py", "a", "--", "-m", "--watch"], ["./show.py"], ["folder", "a"], ["./folder/"], ["folder.zip", "-c"],
    ["-m", "package", "-m", "a"], ["-mpackage"], ["-m", "package.job"], ["-c", SHOW, "a", "-m"], ["-c" + SHOW],
    ["-", "a"], ["moves"], ["moves.zip"],
]  # fmt: skip


@pytest.mark.parametrize("words", STARTED, ids=lambda words: " ".join(words).partition("\n")[0])
def test_what_python_starts_is_started_and_watched(words: list[str], folder: Path) -> None:
    assert said(folder, "-m", "clew", "run", "--watch", "*: *", *words) == said(folder, *words)
    (run,) = runs(folder)
    assert clew.open(run)["loss"].values == [8]


def test_a_double_dash_before_the_script_ends_the_options(folder: Path) -> None:
    watched = said(folder, "-m", "clew", "run", "--watch", "work: loss", "--", "show.py", "--", "a")
    assert watched == said(folder, "show.py", "--", "a")


REFUSED = [["empty"], ["bare"], ["nowhere.py"], ["-m", "nowhere"], ["-m", "nowhere.at.all"], ["-m", "bare"],
           ["-m", "package.nowhere"]]  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_python_refuses_is_refused_in_its_words_and_leaves_no_run(words: list[str], folder: Path) -> None:
    assert said(folder, "-m", "clew", "run", "--watch", "*: *", *words) == said(folder, *words)
    assert runs(folder) == []


@pytest.mark.parametrize("words", [["warns.py"], ["fails.py"], ["ends.py"], ["reads.py"], ["zips.py"]], ids=" ".join)
def test_warnings_and_tracebacks_name_the_programs_lines(words: list[str], folder: Path) -> None:
    assert said(folder, "-m", "clew", "run", "--watch", "*: *", *words) == said(folder, *words)
    assert said(folder, "-m", "clew", "run", "--follow", "*", "--no-show", *words) == said(folder, *words)


@pytest.mark.parametrize("module", ["broken_text", "fails_first.job"])
def test_a_module_that_cannot_be_loaded_fails_with_its_own_traceback(module: str, folder: Path) -> None:
    def without_runpy(done: tuple[str, str, int]) -> tuple[str, int]:
        lines = done[1].splitlines()
        kept = [line for line in lines if "<frozen runpy>" not in line and "<frozen importlib" not in line]
        return "\n".join(kept), done[2]

    watched = said(folder, "-m", "clew", "run", "--watch", "*: *", "-m", module)
    assert without_runpy(watched) == without_runpy(said(folder, "-m", module))
    (run,) = runs(folder)
    assert clew.open(run).status == "failed"


@pytest.mark.parametrize("how", [["--watch", "*: *"], ["--follow", "work", "--no-show"]], ids=" ".join)
def test_a_program_finds_its_own_modules_before_those_of_python_and_clew_does_not(how: list[str], folder: Path) -> None:
    assert said(folder, "-m", "clew", "run", *how, "own/main.py") == said(folder, "own/main.py")
    (run,) = runs(folder)
    assert len(clew.open(run).calls("work")) == 1


def test_where_a_module_shadows_one_of_pythons_no_library_of_an_adapter_is_loaded(folder: Path) -> None:
    program = (
        "import sys; from clew.commands.shadows import step_aside; step_aside(sys.argv[1]);"
        "print(sorted({'torch', 'pandas', 'PIL', 'tensorflow', 'jax'} & {*sys.modules}))"
    )
    assert said(folder, "-c", program, str(folder / "own")) == ("[]\n", "", 0)


def test_python_m_clew_starts_beside_a_module_that_almost_all_others_import(folder: Path) -> None:
    (folder / "enum.py").write_text("mine = True\n")
    (folder / "typing.py").write_text("mine = True\n")
    (folder / "mine.py").write_text("import enum, typing\nprint(enum.mine, typing.mine)\n")
    words = ["mine.py"]
    assert said(folder, "-m", "clew", "run", "--watch", "*: *", *words) == said(folder, *words)


def test_so_it_does_in_the_current_folder(folder: Path) -> None:
    words = ["-m", "main"]
    plain = subprocess.run([sys.executable, *words], cwd=folder / "own", capture_output=True, text=True, timeout=60)
    watched = subprocess.run(
        [sys.executable, "-m", "clew", "run", "--watch", "work: loss", *words],
        cwd=folder / "own", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (watched.stdout, watched.stderr) == (plain.stdout, plain.stderr)
    assert clew.open("latest")["loss"].values == [0, 2, 4]

"""Whose code a file is, wherever packages are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.instrument import library_code


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    library_code.is_library.cache_clear()
    library_code._installed_into.cache_clear()
    yield
    library_code.is_library.cache_clear()


def made(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "place",
    [
        "/usr/lib/python3/dist-packages/yaml/__init__.py",
        "/usr/local/lib/python3.11/dist-packages/torch/nn/modules/module.py",
        "/opt/conda/envs/work/lib/python3.12/site-packages/torch/__init__.py",
        "/home/me/project/.venv/lib/python3.12/site-packages/six.py",
        "/home/me/.local/lib/python3.12/site-packages/six.py",
        "/srv/site-packages/old-1.0-py3.11.egg/old/core.py",
        sysconfig.get_paths()["stdlib"] + "/json/decoder.py",
        os.__file__,
        clew.__file__,
        pytest.__file__,
    ],
)
def test_what_is_installed_is_a_library(place: str) -> None:
    assert library_code.is_library(place)


@pytest.mark.parametrize("place", ["train.py", "/home/me/project/train.py", "/home/me/app.zip/app/core.py"])
def test_what_lies_anywhere_else_is_the_users(place: str) -> None:
    assert not library_code.is_library(place)


def test_a_file_that_is_linked_into_site_packages_is_a_library(tmp_path: Path) -> None:
    kept = made(tmp_path / "cache" / "numpy" / "core.py")
    package = tmp_path / "site-packages" / "numpy"
    package.mkdir(parents=True)
    (package / "core.py").symlink_to(kept)
    assert library_code.is_library(str(package / "core.py"))


def test_a_folder_that_is_linked_into_site_packages_is_under_development(tmp_path: Path) -> None:
    source = Path(made(tmp_path / "project" / "mine" / "core.py")).parent
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "mine").symlink_to(source)
    assert not library_code.is_library(str(packages / "mine" / "core.py"))


def test_a_site_packages_that_is_kept_elsewhere_holds_libraries(tmp_path: Path) -> None:
    made(tmp_path / "store" / "six.py")
    (tmp_path / "site-packages").symlink_to(tmp_path / "store")
    assert library_code.is_library(str(tmp_path / "site-packages" / "six.py"))


def test_what_pip_has_put_beside_a_program_is_a_library_and_the_program_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "dep-1.0.dist-info" / "RECORD", "dep/__init__.py,sha256=x,1\nsingle.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    own = [made(tmp_path / "train.py"), made(tmp_path / "mine" / "core.py")]
    installed = [made(tmp_path / "dep" / "core.py"), made(tmp_path / "single.py")]
    assert [library_code.is_library(file) for file in own + installed] == [False, False, True, True]


PROGRAM = """
import library, mine
def train():
    x = library.work(2)
    return mine.more(x)
train()
"""


def test_follow_leaves_dist_packages_alone_and_follows_a_package_in_development(tmp_path: Path) -> None:
    made(tmp_path / "lib" / "dist-packages" / "library.py", "def work(x):\n    y = x + 1\n    return y\n")
    made(tmp_path / "develop" / "mine.py", "def more(x):\n    y = x * 2\n    return y\n")
    script = made(tmp_path / "program.py", PROGRAM)
    paths = [
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
        tmp_path / "lib" / "dist-packages",
        tmp_path / "develop",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "CLEW_DIR": str(tmp_path / "runs")}
    command = [sys.executable, "-m", "clew", "run", "--follow", "train", "--no-show", script]
    subprocess.run(command, env=environment, check=True, timeout=60)
    (run,) = (tmp_path / "runs").glob("*/*")
    assert json.loads((run / "run.json").read_text())["how"] == "finished"
    assert [call.function for call in clew.open(run).calls()] == ["train", "more"]

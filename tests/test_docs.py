"""The documentation tells the truth: its programs run, its lists are complete, the files it names are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from documents import ROOT, program, run_page

DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = sorted(page for page in DOCS.glob("*.md") if program(page).strip())
PLAIN = [page for page in PAGES if "import torch" not in program(page)]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.name)
def test_the_programs_of_a_page_run(page: Path, tmp_path: Path) -> None:
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_pages_that_teach_have_programs() -> None:
    assert {"quickstart.md", "watch.md", "runs.md", "values.md", "reading.md", "ledger.md"} <= {p.name for p in PLAIN}


def test_a_page_that_is_wrong_fails(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("# Wrong\n\n```python\nassert 1 == 2\n```\n")
    done = run_page(page, tmp_path)
    assert done.returncode == 1
    assert "line 4" in done.stderr


def package(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0].lower()


def test_every_dependency_has_its_reason() -> None:
    for_users = (DOCS / "dependencies.md").read_text(encoding="utf-8").split("## For work on clew")[0]
    rows = set(re.findall(r"^\| `([\w-]+)` \|", for_users, re.MULTILINE))
    assert {package(each) for each in PROJECT["dependencies"]} | set(PROJECT["optional-dependencies"]) == rows


def test_every_tool_has_its_reason() -> None:
    text = (DOCS / "dependencies.md").read_text(encoding="utf-8").lower()
    tools = {
        package(line)
        for file in (ROOT / "requirements").glob("*.txt")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith(("#", "-"))
    }
    assert [tool for tool in sorted(tools) if f"`{tool}`" not in text] == []


def test_torch_is_only_ever_installed_as_one_version() -> None:
    """A range would fetch several gigabytes of CUDA packages."""
    lines = [line for file in (ROOT / "requirements").glob("*.txt") for line in file.read_text().splitlines()]
    assert {line for line in lines if package(line) == "torch"} == {"torch==2.13.0"}


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md", DOCS / "journeys.md"], ids=lambda page: page.name
)
def test_the_files_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:src|tests|docs|scripts|benchmarks|examples)/[\w./-]+)`", page.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["security.md", "limitations.md"])
def test_the_tests_that_guard_a_promise_are_there(page: str) -> None:
    """`tests/x/test_y.py::test_z`, and `::test_z` of the file that was named last."""
    file, missing = "", []
    for name in re.findall(r"`((?:tests/[\w/]+\.py)?(?:::\w+)?)`", (DOCS / page).read_text(encoding="utf-8")):
        path, _, function = name.partition("::")
        file = path or file
        text = (ROOT / file).read_text(encoding="utf-8") if file and (ROOT / file).exists() else ""
        if name and not (text and (not function or f"def {function}(" in text)):
            missing.append(name)
    assert missing == []


def test_every_picture_of_a_page_is_there() -> None:
    """`make docs` finds dead links between pages, but not these."""
    pictures = [
        (page.name, target)
        for page in DOCS.glob("*.md")
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)", page.read_text(encoding="utf-8"))
    ]
    assert pictures
    assert [(page, target) for page, target in pictures if not (DOCS / target).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in DOCS.glob("*.md") if page.name not in navigation] == []


def test_the_pages_fetch_nothing_from_outside() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in settings
    assert "http" not in settings
    assert [page.name for page in DOCS.glob("*.md") if "](http" in page.read_text() and "![" in page.read_text()] == []

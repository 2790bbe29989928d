"""The tables "promise by promise" of the pages for those who come from another tool: each row names its tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADING = "## Promise by promise"
PAGES = sorted(page for page in (ROOT / "docs").glob("coming-from-*.md") if HEADING in page.read_text("utf-8"))
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
}


def rows(page: Path) -> list[str]:
    section = page.read_text("utf-8").partition(HEADING)[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def test_the_pages_have_tables() -> None:
    assert len(PAGES) == 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_row_names_tests_that_exist(page: Path) -> None:
    for row in rows(page):
        named = re.findall(r"`(?:[\w/]+\.py::)?(test_\w+)`", row)
        assert named, row
        assert set(named) <= TESTS, row

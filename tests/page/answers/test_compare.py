"""Two runs, compared for the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.page.answers import compare
from clew.page.shelf import run_id
from page.asking import Page
from reading.writing import simple_run


@pytest.fixture
def two(base: Path) -> tuple[str, str]:
    runs = [
        simple_run(base, {"loss": values}, name=f"12000{number}-run")
        for number, values in enumerate(([1.0, 2.0, 3.0], [1.0, 2.5, 3.0]))
    ]
    return run_id(runs[0].path), run_id(runs[1].path)


def test_the_first_difference_is_reported(base: Path, two: tuple[str, str]) -> None:
    answer = Page(base).ask("/api/diff", a=two[0], b=two[1])
    assert answer["summary"]["differ"] == 1
    assert answer["first"]["name"] == "loss"


def test_settings_are_passed_on(base: Path, two: tuple[str, str]) -> None:
    page = Page(base)
    assert page.ask("/api/diff", a=two[0], b=two[1], atol=1)["summary"]["equal"]
    assert page.ask("/api/diff", a=two[0], b=two[1], ignore="loss, lr")["summary"]["compared"] < 5


def test_a_comparison_is_made_once(base: Path, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(base)
    computed: list[int] = []
    plain = compare._diff
    monkeypatch.setattr(compare, "_diff", lambda *given: computed.append(1) or plain(*given))
    for _ in range(3):
        page.ask("/api/diff", a=two[0], b=two[1], rtol=0.125)
    assert computed == [1]


def test_a_run_that_is_not_there_is_refused(base: Path, two: tuple[str, str]) -> None:
    page = Page(base)
    assert page.refused(404, "/api/diff", a=two[0], b="lost")["slug"] == "no-such-run"
    assert "`b=`" in page.refused(400, "/api/diff", a=two[0])["error"]
    assert page.refused(400, "/api/diff", a=two[0], b=two[1], map="x")["slug"] == "bad-query"

"""HTML for Jupyter: what was recorded is shown, and cannot act."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from clew.reading.run import Run
from reading.writing import Written, simple_run

EVIL = "<script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp;"
ALLOWED = {"div", "b", "i", "p", "br", "ul", "li", "table", "tr", "td", "th", "svg", "polyline", "rect"}
ALLOWED |= {"details", "summary"}


class Tags(HTMLParser):
    """The tags a page really has, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def evil(tmp_path: Path) -> Run:
    """Markup wherever text can come from."""
    writer = Written(tmp_path, argv=["t.py", EVIL], tags={EVIL: EVIL}, error=EVIL, how="failed", python=EVIL)
    (writer.folder / "run.json").write_text((writer.folder / "run.json").read_text())
    shard = writer.shard()
    call = shard.call(EVIL, args={EVIL: EVIL}, module=EVIL, file=EVIL, stage=EVIL)
    for value in (EVIL, 1.0, 2.0, {EVIL: [EVIL]}):
        shard.change(call, EVIL, value)
    shard.step(call, EVIL)
    shard.change(call, EVIL, 3.0)
    shard.end(call, error=EVIL)
    shard.note(EVIL, EVIL, EVIL)
    shard.close()
    return writer.open()


def test_nothing_recorded_becomes_markup(evil: Run) -> None:
    for shown in (evil, evil[EVIL], evil.calls()[0], evil.tree()):
        page = Tags(shown._repr_html_())  # type: ignore[union-attr]
        assert page.tags <= ALLOWED
        assert "<script>" in page.text, "it is there, as text"
        assert page.open == []


def test_a_run_shows_its_names_with_pictures(tmp_path: Path) -> None:
    page = simple_run(tmp_path, {"loss": [1.0, 0.5, 0.25], "note": ["a"]})._repr_html_()
    assert page.count("<svg") == 1
    assert "loss" in page
    assert "train.py --lr 0.1" in page


def test_a_run_with_many_names_says_how_many_are_not_shown(tmp_path: Path) -> None:
    page = simple_run(tmp_path, {f"n{i}": [i] for i in range(60)})._repr_html_()
    assert "10 more names" in page


def test_damage_is_shown(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"x": [1]})
    file = next(run.path.glob("shards/*/records.arrow"))
    file.write_bytes(file.read_bytes()[:-40])
    assert "problem" in Run(run.path)._repr_html_()


def test_a_call_shows_its_arguments_result_and_changes(tmp_path: Path) -> None:
    run = simple_run(tmp_path, {"x": list(range(50))})
    page = Tags(run.calls()[0]._repr_html_()).text
    assert "epochs" in page
    assert "0.5" in page
    assert "48 more like it" in page


def test_a_tree_opens_and_closes(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    top = shard.call("top", args={"n": 1})
    inner = shard.call("inner", parent=top)
    shard.change(inner, "x", 1)
    shard.end(inner, error="ValueError: no")
    shard.end(top, result=2)
    shard.close()
    page = writer.open().tree()._repr_html_()
    assert page.count("<details") == page.count("<summary>") == 2
    assert Tags(page).open == []
    content = page[page.index("inner") :]
    assert (
        content.index("x") < content.index("raised ValueError: no") < content.index("</details>") < content.index("→")
    )


def test_a_large_tree_is_bounded_and_says_what_is_missing(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    for number in range(2_000):
        shard.call(f"f{number}")
    shard.close()
    page = writer.open().tree()._repr_html_()
    assert len(page) < 200_000
    assert "2,000 calls in all" in Tags(page).text


def test_a_deep_recursion_is_not_nested_without_end(tmp_path: Path) -> None:
    writer = Written(tmp_path)
    shard = writer.shard()
    call = -1
    for _ in range(300):
        call = shard.call("f", parent=call)
    shard.close()
    page = Tags(writer.open().tree()._repr_html_())
    assert page.open == []
    assert "+249 f" in page.text


def test_a_tree_without_calls_says_so(tmp_path: Path) -> None:
    assert "no calls were recorded" in Written(tmp_path).open().tree()._repr_html_()


def test_an_empty_series_shows_itself(tmp_path: Path) -> None:
    assert "no changes" in simple_run(tmp_path, {"x": [1]})["x"][:0]._repr_html_()

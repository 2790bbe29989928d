"""A trace in a notebook: the words of the text, in boxes, with small pictures."""

from __future__ import annotations

import html as entities
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from clew.reading.trace import Trace
from clew.show import pipeline_html
from clew.show.pipeline import text
from clew.show.pipeline_html import html
from show.pipelines import IMAGE, passage, trace_of, whole

PARTS: list[Callable[[Trace], Any]] = [
    lambda trace: trace,
    lambda trace: trace["dataset"],
    lambda trace: trace["collate"][0],
    lambda trace: trace.item(7),
    lambda trace: trace.lineage(batch=0, row=1),
]


def words(page: str) -> list[str]:
    """What remains to be read when pictures and tags are gone."""
    without = re.sub(r"<svg.*?</svg>|<img[^>]*>", "", page, flags=re.DOTALL)
    parts = re.sub(r"</?(?:div|details|summary)[^>]*>", " ", without)
    return entities.unescape(re.sub(r"<[^>]*>", "", parts)).split()


class Tags(HTMLParser):
    """Notes every tag and attribute, and that what opens is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "img":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("part", PARTS, ids=["trace", "stage", "call", "item", "lineage"])
def test_the_words_are_those_of_the_text(part: Callable[[Trace], Any]) -> None:
    shown = part(whole())
    assert words(html(shown)) == text(shown).split()


def test_a_folded_trace_has_the_same_words_too() -> None:
    trace = trace_of(*(passage(inputs={"index": i}, started=i) for i in range(300)))
    assert words(html(trace)) == text(trace).split()


def test_a_notebook_shows_what_print_shows() -> None:
    trace = whole()
    assert words(trace._repr_html_()) == str(trace).split()


def test_stages_and_calls_are_boxes() -> None:
    assert html(whole()).count("<details") == 4 + 5


def test_every_box_is_closed_and_no_script_is_there() -> None:
    boxes_found = Tags(html(whole()))
    assert boxes_found.open == []
    assert boxes_found.tags <= {
        "div",
        "span",
        "b",
        "details",
        "summary",
        "img",
        "svg",
        "title",
        "text",
        "polyline",
        "rect",
    }
    assert not [name for name, _ in boxes_found.attributes if name.startswith("on")]


def test_nothing_is_fetched() -> None:
    links = [value for name, value in Tags(html(whole())).attributes if name in ("src", "href")]
    assert links and all((value or "").startswith("data:image/png;base64,") for value in links)


def test_what_was_recorded_cannot_become_a_tag() -> None:
    evil = "<script>alert(1)</script>"
    page = html(
        trace_of(passage(evil, evil, inputs={evil: {evil: IMAGE, "long": evil * 9}}, error=evil, files=(evil,)))
    )
    assert "<script" not in page


def test_images_sounds_and_masks_have_pictures() -> None:
    page = html(whole()["dataset"][0])
    assert page.count("<img") == 1 and page.count("<svg") == 1
    assert html(whole()["collate"][0]).count("<img") == 6


def test_numbers_that_can_be_read_have_no_picture() -> None:
    assert "<svg" not in html(trace_of(passage(outputs={"label": np.array([3, 0, 2])})))


def test_a_picture_stands_beside_its_value() -> None:
    page = html(trace_of(passage(outputs={"one": IMAGE, "two": 5})))
    assert page.index("one") < page.index("<img") < page.index("two")


def test_a_small_call_is_open_and_a_long_one_is_not() -> None:
    small = passage(inputs={"index": 3})
    long = passage(inputs={f"x{i}": i for i in range(60)}, started=1)
    openings = re.findall(r"<details[^>]*?( open)?>", html(trace_of(small, long)))
    assert openings == [" open", " open", ""]


def test_a_call_that_raised_is_open_however_long() -> None:
    long = passage(inputs={f"x{i}": i for i in range(60)}, error="ValueError: no")
    assert re.findall(r"<details[^>]*?( open)?>", html(trace_of(long))) == [" open", " open"]


def test_pictures_end_where_the_page_would_grow_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_html, "PICTURES", 1000)
    shown = trace_of(*(passage(outputs={"image": IMAGE}, started=i) for i in range(20)))
    page = html(shown)
    assert 0 < page.count("<img") < 20 and "not drawn" in page
    assert words(page) == text(shown).split()

"""Every page, clicked through in a real browser on runs that were really recorded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.page.report import make_report
from clew.page.serving import Served
from clew.page.shelf import Shelf
from clew.store.folder import list_runs

PROGRAMS = Path(__file__).parent / "programs.py"
Open = Callable[..., Any]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "runs"
    environment = os.environ | {"CLEW_DIR": str(folder)}
    subprocess.run([sys.executable, str(PROGRAMS)], env=environment, check=True, capture_output=True)
    return folder


@pytest.fixture
def served(recorded: Path, tmp_path: Path) -> Iterator[Served]:
    shutil.copytree(recorded, tmp_path / "runs")
    opened = Served(Shelf(tmp_path / "runs"), port=0)
    yield opened
    opened.close()


@pytest.fixture
def open_page(served: Served, page: Any) -> Iterator[Open]:
    """Opens a page of the run of that name; at the end no error may have been logged and no request have left."""
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: None if _is_own(asked.url, served) else wrong.append(asked.url))

    def open_it(name: str = "", kind: str = "", query: str = "") -> Any:
        ids = {row["name"]: row["id"] for row in served.shelf.rows()}
        route = f"/run/{ids[name]}/{kind}" if name else "/"
        page.goto("about:blank")
        page.goto(served.at(f"{route}{query}").address)
        return page

    yield open_it
    assert wrong == []


def _is_own(url: str, served: Served) -> bool:
    return url.startswith((f"http://127.0.0.1:{served.port}/", "data:", "blob:", "about:"))


# ---- runs


def test_runs_are_listed_searched_and_sorted(open_page: Open) -> None:
    page = open_page()
    page.get_by_text("second", exact=True).wait_for()
    assert page.get_by_text("7 runs").is_visible()
    page.get_by_role("searchbox").fill("calls")
    page.get_by_text("second", exact=True).wait_for(state="hidden")
    assert page.get_by_text("calls", exact=True).is_visible()


def test_a_run_is_deleted_only_after_a_question(open_page: Open, served: Served) -> None:
    page = open_page()
    page.get_by_text("empty", exact=True).wait_for()
    row = page.get_by_role("row").filter(has_text="empty")
    row.get_by_role("button").last.click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").wait_for()
    assert len(list_runs(served.shelf.base)) == 7
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert len(list_runs(served.shelf.base)) == 7


def test_two_chosen_runs_are_compared(open_page: Open) -> None:
    page = open_page()
    for name in ("first", "second"):
        page.get_by_role("row").filter(has_text=name).get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("First difference").first.wait_for()
    assert page.get_by_text("rate").first.is_visible()


# ---- series and tensors


def test_a_curve_is_drawn_and_a_click_leads_to_the_line(open_page: Open) -> None:
    page = open_page("first", "series", "?names=loss")
    page.get_by_text("100 values").wait_for()  # the curve is there
    page.locator(".u-over").click(position={"x": 300, "y": 100})
    point = page.get_by_label("The point")
    point.get_by_text("programs.py").first.wait_for()
    assert "programs.py" in point.inner_text()
    assert "train" in point.inner_text()
    assert "loss = 1.0 / (1 + rate * step)" in point.inner_text()
    point.get_by_role("link", name="Show the call").click()
    page.locator(".code-line").filter(has_text="loss = 1.0").get_by_text("/100").wait_for()
    assert page.get_by_label("Change", exact=True).get_attribute("aria-valuetext") != "after 202 of 202 changes"


def test_a_point_of_a_curve_is_reached_by_keys(open_page: Open) -> None:
    page = open_page("first", "series", "?names=loss")
    page.get_by_text("100 values").wait_for()
    page.get_by_role("img", name="Plot of loss").focus()
    page.keyboard.press("Shift+ArrowRight")
    before = page.locator(".tip").inner_text()
    for _ in range(4):
        page.keyboard.press("Shift+ArrowRight")
    page.locator(".tip").filter(has_not_text=before.splitlines()[0]).wait_for()
    page.keyboard.press("Enter")
    page.get_by_label("The point").get_by_text("programs.py").first.wait_for()
    page.keyboard.press("Escape")
    page.get_by_label("The point").wait_for(state="hidden")


def test_a_run_is_renamed_tagged_and_deleted(open_page: Open, served: Served) -> None:
    page = open_page()

    def choose(run: str, what: str) -> None:
        page.get_by_role("row").filter(has_text=run).get_by_role("button").last.click()
        page.get_by_role("menuitem", name=what).click()

    page.get_by_role("link", name="empty").wait_for()
    choose("empty", "Rename")
    page.get_by_role("textbox").fill("<b>other</b>")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="<b>other</b>").wait_for()
    choose("<b>other</b>", "Tags")
    page.get_by_role("textbox").fill("best: <i>yes</i>")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("best: <i>yes</i>").wait_for()
    choose("<b>other</b>", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="<b>other</b>").wait_for(state="hidden")
    assert len(list_runs(served.shelf.base)) == 6


def test_markup_in_values_is_text(open_page: Open) -> None:
    page = open_page("first", "tree")
    page.get_by_role("treeitem").filter(has_text="train").first.click()
    page.get_by_text("<b>bold</b>").filter(visible=True).first.wait_for()
    assert page.title() != "broken in"


def test_tensors_have_bands_and_one_of_them_its_values(open_page: Open) -> None:
    page = open_page("first", "tensor", "?name=weights")
    page.get_by_text("(4, 6)").first.wait_for()
    page.get_by_role("img").first.wait_for()
    page.get_by_role("link", name="Show the call and its source").click()
    page.locator(".code-line").filter(has_text="weights = weights - rate").get_by_text("100/100").wait_for()


# ---- calls


def test_the_tree_opens_with_the_keyboard_and_shows_the_source(open_page: Open) -> None:
    page = open_page("calls", "tree")
    page.get_by_role("treeitem").filter(has_text="work").first.click()  # before it, "Loading" is the first row
    page.keyboard.press("ArrowRight")
    page.get_by_role("treeitem").filter(has_text="double").first.wait_for()
    page.get_by_text("total = total + double(number)").wait_for()


def test_the_tree_is_filtered_by_errors(open_page: Open) -> None:
    page = open_page("calls", "tree")
    page.get_by_role("treeitem").first.wait_for()
    page.get_by_role("button", name="Errors").click()
    page.get_by_text("<i>no</i>").first.wait_for()


# ---- items, graphs, the ledger


def test_items_are_rows_and_stages_columns(open_page: Open) -> None:
    page = open_page("items", "pipeline")
    table = page.get_by_role("table", name="What each stage made of each item")
    table.wait_for()
    assert [cell.strip().split("\n")[0] for cell in table.get_by_role("columnheader").all_inner_texts()][-2:] == [
        "load",
        "clean",
    ]
    assert table.get_by_role("img").count() >= 3, "each item as a picture"


def test_a_recorded_graph_is_drawn_and_opened(open_page: Open) -> None:
    page = open_page("graph", "graph")
    page.get_by_role("button", name="Open all").click()
    page.get_by_text("tokenize").first.wait_for()
    page.get_by_text("count", exact=True).first.wait_for()
    assert page.locator(".graph-link-text").filter(has_text="'a,b,c'").count() == 1, "what went in stands on the edge"
    assert page.locator(".graph-link-text").filter(has_text="list[3]").filter(has_text="s").count() == 1


def test_a_picture_inside_a_row_of_a_dataset_is_drawn(open_page: Open) -> None:
    page = open_page("rows", "pipeline")
    table = page.get_by_role("table", name="What each stage made of each item")
    table.get_by_role("img").first.wait_for()
    assert table.get_by_role("img").count() == 4
    assert table.get_by_text("label").count() == 2


def test_the_ledger_says_what_was_never_seen(open_page: Open) -> None:
    page = open_page("first", "ledger")
    page.get_by_text("was followed and never called").first.wait_for()


def test_a_run_without_anything_says_what_to_do(open_page: Open) -> None:
    page = open_page("empty", "series")
    page.get_by_text("clew.watch").first.wait_for()


# ---- a report


def test_a_report_opens_from_disk_without_a_network(recorded: Path, browser: Any, tmp_path: Path) -> None:
    ids = {row["name"]: Path(row["path"]) for row in Shelf(recorded).rows()}
    wrong: list[str] = []
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    inside = ("file:", "data:", "blob:")
    page.on("request", lambda asked: None if asked.url.startswith(inside) else wrong.append(asked.url))
    page.goto(make_report(ids["calls"], tmp_path / "a report.html").path.as_uri())
    page.get_by_role("link", name="Tree").click()
    page.get_by_text("total = total + double(number)").wait_for()
    page.get_by_role("searchbox").fill("fail")
    page.get_by_text("1 call found in this report").wait_for()
    page.get_by_text("<i>no</i>").first.wait_for()
    page.goto(make_report(ids["first"], tmp_path / "another.html").path.as_uri())
    page.locator(".u-over").click(position={"x": 300, "y": 100})
    page.get_by_label("The point").get_by_text("loss = 1.0 /").wait_for()
    page.get_by_role("link", name="Tree").click()
    page.get_by_text("<b>bold</b>").filter(visible=True).first.wait_for()
    assert page.title() == "first · clew"
    context.close()
    assert wrong == []


# ---- what goes wrong


def test_a_wrong_token_is_told(served: Served, page: Any) -> None:
    page.goto(f"http://127.0.0.1:{served.port}/open/wrong")
    assert "works once" in page.inner_text("body")
    page.goto(f"http://127.0.0.1:{served.port}/")
    assert "token" in page.inner_text("body")


def test_a_run_deleted_while_it_is_shown_leaves_the_page_up(served: Served, page: Any) -> None:
    ids = {row["name"]: row for row in served.shelf.rows()}
    page.goto(served.at(f"/run/{ids['calls']['id']}/tree").address)
    page.get_by_role("treeitem").first.wait_for()
    shutil.rmtree(ids["calls"]["path"])
    page.reload()
    page.get_by_text("deleted").first.wait_for()


@pytest.mark.parametrize(("kind", "name"), [("series", "note"), ("tensor", "weights")])
def test_on_a_telephone_names_are_chosen_from_a_list_that_opens(
    open_page: Open, page: Any, kind: str, name: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_page("first", kind)
    page.get_by_label("Names").get_by_role("button").first.click()
    option = page.get_by_role("option").filter(has_text=name)
    option.click()
    assert option.get_attribute("aria-selected") == "true"


@pytest.mark.parametrize("kind", ["", "series", "tree", "pipeline", "graph", "ledger"])
def test_nothing_is_wider_than_a_telephone(open_page: Open, page: Any, kind: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    names = {"series": "first", "tree": "calls", "pipeline": "items", "graph": "graph", "ledger": "first"}
    open_page(names.get(kind, ""), kind)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

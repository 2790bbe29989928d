"""One file of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

import clew
from clew.errors import OptionError, PageError, UnknownNameError
from clew.page import server
from clew.page.report import make_report
from clew.page.shelf import run_id
from page.asking import Page, training
from page.contract import misfits
from reading.writing import simple_run

BUILT = (
    "<!doctype html><html><head><meta charset=utf-8><title>clew</title><style>a{}</style>"
    "<script type=module>let a = '<b>'</script></head><body></body></html>"
)
EMBEDDED = re.compile(r'<script id="clew-report" type="application/json">(.*?)</script>', re.DOTALL)


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "page.html"
    path.write_text(BUILT)
    monkeypatch.setattr(server, "PAGE", path)
    return path


def content(path: Path) -> dict[str, Any]:
    (inside,) = EMBEDDED.findall(path.read_text(encoding="utf-8"))
    return json.loads(inside)


def asked(report: dict[str, Any], what: str) -> list[tuple[dict[str, str], Any]]:
    """The answers of one kind: what was asked, and what was told."""
    start = f"/api/run/{report['run']}/{what}"
    keys = [key for key in report["answers"] if key.partition("?")[0] == start]
    return [(dict(parse_qsl(key.partition("?")[2])), report["answers"][key]) for key in keys]


def test_a_report_holds_what_the_page_would_ask(folder: Path, tmp_path: Path) -> None:
    made = make_report(clew.open(folder), tmp_path / "report.html")
    assert made.left_out == []
    assert made.size == made.path.stat().st_size
    report = content(made.path)
    assert (report["title"], report["run"]) == ("training", run_id(folder))
    kinds = {"series": "Curve", "tree": "Branch", "call": "CallDetail", "source": "Source", "graph": "Graph"}
    for what, kind in {**kinds, "tensors": "TensorCurve", "histogram": "Histogram", "slice": "Slice"}.items():
        answers = asked(report, what)
        assert answers, what
        assert [wrong for _, answer in answers for wrong in misfits(answer, kind)] == []
    assert misfits(report["answers"][f"/api/run/{report['run']}"], "Overview") == []


def test_its_answers_are_those_of_the_page(base: Path, folder: Path, tmp_path: Path) -> None:
    report = content(make_report(folder, tmp_path / "report.html").path)
    page = Page(base)
    for what in ("call", "tree", "graph", "source", "point"):
        for params, page_answer in asked(report, what):
            assert page_answer == page.of(folder, what, **params)


def test_a_whole_curve_is_kept_without_a_window(folder: Path, tmp_path: Path) -> None:
    report = content(make_report(folder, tmp_path / "report.html").path)
    assert ({"axis": "step", "name": "loss"}) in [params for params, _ in asked(report, "series")]


def test_keys_are_sorted_by_name(folder: Path, tmp_path: Path) -> None:
    for key in content(make_report(folder, tmp_path / "report.html").path)["answers"]:
        names = [name for name, _ in parse_qsl(key.partition("?")[2])]
        assert names == sorted(names)


def test_no_text_ends_the_element_it_is_in(base: Path, tmp_path: Path) -> None:
    folder = simple_run(base, {"x": ["</script><script>alert(1)</script>", "<!--"]}, name="120000-<b>").path
    report = make_report(folder, tmp_path / "report.html")
    text = report.path.read_text()
    assert text.count("</script>") == 2
    assert "<b>" not in EMBEDDED.sub("", text).replace("let a = '<b>'", "")
    assert "</script><script>alert(1)" in json.dumps(content(report.path))


def test_a_report_fetches_nothing_and_runs_only_its_own_script(folder: Path, tmp_path: Path) -> None:
    text = make_report(folder, tmp_path / "report.html").path.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "connect-src &#x27;none&#x27;" in policy[1]
    assert "sha256-" in policy[1]
    assert "<title>training" in text


def test_names_are_chosen_by_pattern(folder: Path, tmp_path: Path) -> None:
    report = content(make_report(folder, tmp_path / "report.html", names=["los*"]).path)
    assert {params["name"] for params, _ in asked(report, "series")} == {"loss"}
    assert asked(report, "tensors") == []
    with pytest.raises(UnknownNameError, match="did you mean `loss`"):
        make_report(folder, tmp_path / "report.html", names="lost")


def test_parts_are_left_out_on_request(folder: Path, tmp_path: Path) -> None:
    report = content(make_report(folder, tmp_path / "report.html", without=["tree", "source"]).path)
    assert asked(report, "tree") == asked(report, "source") == []
    with pytest.raises(OptionError, match="no part `trees`"):
        make_report(folder, tmp_path / "report.html", without="trees")


def test_without_source_no_line_of_it_is_included(base: Path, tmp_path: Path) -> None:
    writer = training(base, source="SECRET = 1\n" * 20)
    assert b"SECRET" in make_report(writer.folder, tmp_path / "with.html").path.read_bytes()
    report = make_report(writer.folder, tmp_path / "without.html", without=["source"])
    assert b"SECRET" not in report.path.read_bytes()


def test_the_limit_holds_and_what_was_left_out_is_listed(folder: Path, tmp_path: Path) -> None:
    full_size = make_report(folder, tmp_path / "whole.html").size
    made = make_report(folder, tmp_path / "report.html", limit=full_size // 2)
    assert made.size <= full_size // 2
    assert made.left_out
    report = content(made.path)
    assert report["left_out"] == made.left_out
    ledger = report["answers"][f"/api/run/{report['run']}"]["ledger"]
    assert [note["text"] for note in ledger if note["kind"] == "not-in-report"] == made.left_out
    assert asked(report, "series")


def test_a_limit_below_the_least_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="more than the limit leaves"):
        make_report(folder, tmp_path / "report.html", limit="5KB")
    assert not (tmp_path / "report.html").exists()


def test_without_the_built_page_it_says_how_to_build_it(folder: Path, tmp_path: Path, built: Path) -> None:
    built.unlink()
    with pytest.raises(PageError, match=r"scripts/build_page\.py"):
        make_report(folder, tmp_path / "report.html")


def test_a_path_that_cannot_be_written_is_reported(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PageError, match="cannot be written"):
        make_report(folder, tmp_path / "nowhere" / "report.html")


def test_a_run_makes_its_own_report(folder: Path, tmp_path: Path) -> None:
    report = clew.open(folder).report(tmp_path / "own.html", names="loss")
    assert str(report) == str(tmp_path / "own.html")


def test_repeated_calls_are_in_the_tree_as_the_page_opens_them(base: Path, folder: Path, tmp_path: Path) -> None:
    other = training(base, "130000-other").folder
    report = content(make_report(other, tmp_path / "report.html").path)
    fold = {"parent": "host-r0-100-0:1", "offset": "0", "limit": "21", "fold": "0"}
    assert fold in [params for params, _ in asked(report, "tree")]

"""A comparison as text and as HTML: folded, never silently cut, nothing recorded can act."""

from __future__ import annotations

from typing import Any

from clew.show.diff import diff_html, diff_lines, measure_text, tree_text


def node(label: str, differ: int = 0, *children: dict[str, Any], kind: str = "value") -> dict[str, Any]:
    return {
        "label": label,
        "path": label,
        "kind": kind,
        "compared": 10,
        "differ": differ,
        "worst": 0.5 if differ else 0.0,
        "children": list(children),
    }


def told(**changed: Any) -> dict[str, Any]:
    run = {"path": "/runs/a", "name": "a", "status": "finished", "problems": []}
    return {
        "runs": {"a": run, "b": run, "reference": None},
        "settings": {"rtol": 0.1, "atol": 0.0, "ulp": 0.0, "noise": None, "defaults": None},
        "summary": {
            "equal": True,
            "compared": 10,
            "identical": 10,
            "within": 0,
            "within_worst": 0.0,
            "differ": 0,
            "by_hash": 0,
            "by_summary": 0,
            "not_compared": 0,
        },
        "first": None,
        "differences": {"total": 0, "offset": 0, "limit": 10, "items": []},
        "only_in_a": [],
        "only_in_b": [],
        "not_compared": [],
        "renamed": {},
        "tree": {"places": node("run"), "steps": node("steps")},
        "circumstances": [],
        "notes": [],
        **changed,
    }


def test_what_agrees_is_folded_and_what_differs_is_opened() -> None:
    places = node("run", 1, node("a"), node("b"), node("c", 1, node("x", 1), node("y")), node("d"))
    assert tree_text(places, node("steps")).splitlines() == [
        "agreement",
        "  a … b: 2 that agree, 20 values",
        "  c: 1 of 10 differ, worst 0.5",
        "    x: 1 of 10 differ, worst 0.5",
        "    y: 10 values agree",
        "  d: 10 values agree",
    ]
    assert "  a: 10 values agree" in tree_text(places, node("steps"), full=True).splitlines()


def test_a_long_tree_says_how_much_is_left_out() -> None:
    places = node("run", 50, *(node(f"n{number}", 1) for number in range(50)))
    steps = node("steps", 0, *(node(str(number)) for number in range(45)))
    text = tree_text(places, steps)
    assert "... 10 more lines" in text
    assert "... 5 more ranges of steps" in text
    assert "more" not in tree_text(places, steps, full=True)


def test_what_is_only_in_one_run_is_listed_and_the_rest_counted() -> None:
    missing = {"what": "call", "name": "f", "function": "g", "calls": 2, "values": 3, "step": None}
    missing |= {"file": "a.py", "line": 7}
    lines = [text for text, _ in diff_lines(told(only_in_b=[missing] * 25))]
    assert lines.count("  2 calls of f in g, 3 values  a.py:7") == 20
    assert "  ... 5 more places" in lines


def test_measures_are_one_line() -> None:
    text = measure_text({"max_abs": 0.25, "max_rel": "Infinity", "count": 3, "total": 8, "first_index": [1, 2]})
    assert text == "max abs 0.25 · max rel ∞ · 3 of 8 elements · first at [1, 2]"


def test_where_only_nan_differs_no_distance_of_zero_is_reported() -> None:
    told = measure_text({"max_abs": 0.0, "max_rel": 0.0, "max_ulp": 0.0, "nan": [0, 1], "total": 3, "count": 1})
    assert told == "1 of 3 elements · NaN 0 against 1"


def test_html_is_escaped() -> None:
    html = diff_html(told(notes=["<script>alert(1)</script>"], renamed={"<b>": "<i>"}))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<b>" not in html

"""What a pipeline calls that is neither an operator nor its own: computed again, a constant, or called again."""

from __future__ import annotations

import collections
import copy
import datetime
import operator
import os
import pathlib
import random
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import GraphError
from clew.graph.recording.session import ConstantWarning
from graph.comparing import holds, recorded, same

NUMBER = re.compile(r"\d+")
LIBRARY = """
CALLS = []

class Page:
    def __init__(self, text):
        self.text = text
    def __enter__(self):
        return self
    def __exit__(self, *raised):
        pass

class Session:
    def __init__(self, host):
        self.host = host
    def get(self, path):
        CALLS.append(path)
        return Page(self.host + path)

def get(url, params=None):
    CALLS.append(url)
    return Page(f"{url}?{params}")

def post(url, data):
    CALLS.append(data)

def fill(items):
    items.append(1)
"""


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A library like requests, where libraries are."""
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / "webby.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(place))
    import webby  # type: ignore[import-not-found]

    yield webby
    del sys.modules["webby"]


def test_what_only_computes_is_computed_again() -> None:
    def pipeline(s: Any) -> Any:
        found = NUMBER.search(s)
        return (
            NUMBER.sub("#", s),
            [match.span() for match in NUMBER.finditer(s)],
            found.group() if found else None,
            datetime.datetime.strptime(s[:4], "%Y").year,
            dict.fromkeys(s, 0),
            int.from_bytes(s.encode(), "big"),
            pathlib.PurePosixPath(s, "x").name,
            operator.itemgetter(1)(s.split()),
            operator.methodcaller("upper")(s),
        )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        holds(pipeline, "2024 a1", "1999 x77")


def test_a_pattern_s_method_whose_result_is_not_used_is_left_out() -> None:
    def pipeline(s: Any) -> Any:
        NUMBER.sub("", s)
        return s

    assert not recorded(pipeline, "a").steps


def test_what_a_defaultdict_makes_is_the_pipeline_s_own() -> None:
    def pipeline(words: Any) -> Any:
        places: Any = collections.defaultdict(list)
        rows: Any = collections.deque([[0], [1]])
        for number, word in enumerate(words):
            places[word].append(number)
            rows[number % 2].append(word)
        return dict(places), list(rows)

    holds(pipeline, ["a", "b"], ["a", "b"], ["a", "a"], [])


def test_a_library_that_an_input_goes_into_is_called_again(web: Any) -> None:
    there = web.Session("there/")

    def pipeline(query: Any) -> Any:
        return web.get("host").text, web.get("host", query).text, there.get(query).text

    graph = recorded(pipeline, "a")
    web.CALLS.clear()
    assert graph("b") == ("host?None", "host?b", "there/b")
    assert web.CALLS == ["host", "b"]


def test_what_a_library_gives_for_an_input_is_a_constant_on_request_and_said(web: Any) -> None:
    def pipeline(query: Any) -> Any:
        return web.get("host").text, web.get("host", query).text

    with pytest.warns(ConstantWarning, match=r"test_libraries.py:\d+: what get\(\) gave is a constant") as said:
        graph = clew.record(pipeline, "a", library="constant")
    assert len(said) == 1  # the first call goes by no input
    assert os.path.samefile(said[0].filename, __file__)
    web.CALLS.clear()
    assert graph("b") == ("host?None", "host?a")
    assert web.CALLS == []
    assert [(note.kind, note.name) for note in graph.notes] == [
        ("constant", "webby.get"),
        ("constant by input", "get"),
    ]
    assert "it depends on an input, and is a constant of the graph" in graph.show()


def test_libraries_are_called_again_if_asked_for(web: Any) -> None:
    there = web.Session("there/")

    def pipeline(query: Any) -> Any:
        web.post("host", query)
        with web.get("host", query) as page:
            return page.text, web.get("host").text, there.get(query).text, web.Session(query).get("x").text

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = clew.record(pipeline, "a", library="operator")
    web.CALLS.clear()
    assert graph("b") == ("host?b", "host?None", "there/b", "bx")
    assert web.CALLS == ["b", "host", "host", "b", "x"]  # the first is for what it does, and its result is not used


def test_random_numbers_of_the_standard_library_are_drawn_again_unless_constants_are_asked_for() -> None:
    def pipeline(seed: Any) -> Any:
        random.seed(seed)
        return random.random(), random.randint(0, 10**9)

    for graph in (recorded(pipeline, 1), clew.record(pipeline, 1, library="operator")):
        assert same(graph(2), pipeline(2))
    with pytest.warns(ConstantWarning):
        clew.record(pipeline, 1, library="constant")


def test_a_library_that_changes_what_holds_a_recorded_value_is_refused(web: Any) -> None:
    def own(x: Any) -> Any:
        items = [x]
        web.fill(items)
        return items

    def given(xs: Any) -> Any:
        web.fill(xs)
        return xs

    for pipeline, example, other in ((own, 1, 2), (given, [1], [2])):
        with pytest.raises(GraphError, match=r"fill\(\) changes a recorded value, and the graph would not"):
            clew.record(pipeline, [example], library="constant")
        assert same(recorded(pipeline, example)(copy.deepcopy(other)), pipeline(other))


def test_recording_loads_no_library_that_the_program_has_not() -> None:
    script = """
        import sys, clew
        from clew.graph import operations
        assert operations.name_of(object()) is None
        assert operations.name_of([].append) is None
        print(sorted({"torch", "numpy", "tensorflow"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout

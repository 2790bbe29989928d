"""Loops in bundles: of inputs with other lengths than the examples', all are equal in a process without the source."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import clew
from graph.bundling import project, python, write

__all__ = ["project"]
INPUTS = 50

ELSEWHERE = """
    import json, sys
    import clew

    def compared(bundle, name, inputs, expected):
        graph = clew.load(bundle, trusted=True)
        counts = {"equal": 0, "refused": 0, "wrong": 0}
        for value, wanted in zip(inputs, expected, strict=True):
            try:
                result = json.loads(json.dumps(graph(**{name: value})))
            except clew.GuardError:
                counts["refused"] += 1
            else:
                counts["equal" if result == wanted else "wrong"] += 1
        return counts

    print(json.dumps([compared(*case) for case in json.loads(open(sys.argv[1]).read())]))
"""


class Case(NamedTuple):
    """A pipeline of one argument: its name, examples of it, and what makes random ones."""

    pipeline: Any
    name: str
    examples: list[Any]
    make: Callable[[], Any]


def compare_elsewhere(cases: list[Case], folder: Path) -> list[dict[str, int]]:
    """Record and save pipelines, load them in another process, and compare for random inputs."""
    data = []
    for number, case in enumerate(cases):
        bundle = folder / f"bundle{number}"
        clew.record(case.pipeline, [{case.name: example} for example in case.examples]).save(bundle)
        inputs = [case.make() for _ in range(INPUTS)]
        data.append([str(bundle), case.name, inputs, [json.loads(json.dumps(case.pipeline(one))) for one in inputs]])
    (folder / "data.json").write_text(json.dumps(data))
    counts: list[dict[str, int]] = json.loads(python(ELSEWHERE, folder / "elsewhere", str(folder / "data.json")))
    return counts


ALL_EQUAL = {"equal": INPUTS, "refused": 0, "wrong": 0}

SERIES = """
    import statistics

    WEIGHTS = {"low": 1.0}

    def load(high):
        WEIGHTS["high"] = high  # state that the module gets after its import

    def level(value):
        return WEIGHTS["high"] if value > 0.5 else WEIGHTS["low"]

    def windows(series, width):
        for end in range(1, len(series) + 1):
            yield series[max(0, end - width):end]

    def smoothed(series):
        width = max(1, len(series) // 4)
        means, peak = [], None
        for window in windows(series, width):
            mean = sum(level(value) * value for value in window) / len(window)
            means.append(round(mean, 9))
            if peak is None or mean > peak:
                peak = mean
        spread = statistics.pstdev(means) if len(means) > 1 else 0.0
        return {"means": means, "peak": peak, "spread": spread, "width": width}

    def runs(series):
        found, start = [], 0
        while start < len(series):
            end = start
            while end < len(series) and (series[end] > 0.5) == (series[start] > 0.5):
                end += 1
            found.append([start, end])
            start = end
        return found
"""


def _series(source: random.Random, least: int) -> Callable[[], list[float]]:
    return lambda: [source.random() for _ in range(source.randrange(least, 40))]


def test_a_series_with_a_variable_window_is_equal_for_other_lengths(project: Path, tmp_path: Path) -> None:
    write(project, {"series.py": SERIES})
    series = importlib.import_module("series")
    series.load(2.5)
    source = random.Random(1)
    cases = [
        Case(getattr(series, name), "series", [[0.1, 0.7, 0.4]], _series(source, least))
        for name, least in (("smoothed", 2), ("runs", 0))
    ]
    assert compare_elsewhere(cases, tmp_path) == [ALL_EQUAL, ALL_EQUAL]


SCRIPT = """
    import json, sys
    import clew

    SCALE = 3

    def scaled(row):
        return [value * SCALE for value in row]

    def made(limit):
        table = {0: "even", 1: "odd"}

        class Counted:
            def __init__(self, words):
                self.__words = words

            def word(self, number):
                return self.__words[number % 2]

        counted = Counted(table)

        def pipeline(rows):
            words = []
            for row in rows:
                total = sum(scaled(row))
                if total > limit:
                    return {"stopped": len(words), "words": words}
                words.append(counted.word(total))
            return {"words": words, "rows": [scaled(row) for row in rows]}

        return pipeline

    if __name__ == "__main__":
        clew.record(made(60), rows=[[1, 2], [3]]).save(sys.argv[1])
        print(json.dumps([made(60)(rows) for rows in json.loads(sys.argv[2])]))
"""


def test_loops_of_a_script_with_closures_are_equal_elsewhere(tmp_path: Path) -> None:
    source = random.Random(2)
    inputs = [
        [[source.randrange(6) for _ in range(source.randrange(4))] for _ in range(source.randrange(7))]
        for _ in range(INPUTS)
    ]
    bundle, data = tmp_path / "bundle", tmp_path / "data.json"
    expected = json.loads(python(SCRIPT, tmp_path / "author", str(bundle), json.dumps(inputs)))
    data.write_text(json.dumps([[str(bundle), "rows", inputs, expected]]))
    counts = json.loads(python(ELSEWHERE, tmp_path / "elsewhere", str(data)))
    assert counts == [ALL_EQUAL]


def test_a_loaded_graph_of_loops_can_be_saved_again(project: Path, tmp_path: Path) -> None:
    write(project, {"series.py": SERIES})
    series = importlib.import_module("series")
    series.load(0.5)
    clew.record(series.runs, series=[0.1]).save(tmp_path / "first")
    clew.load(tmp_path / "first", trusted=True).save(tmp_path / "second")
    again = clew.load(tmp_path / "second", trusted=True)
    assert again(series=[0.1, 0.9, 0.8]) == [[0, 1], [1, 3]]


def test_the_code_of_a_bundle_shows_the_loop(project: Path, tmp_path: Path) -> None:
    write(project, {"series.py": SERIES})
    series = importlib.import_module("series")
    clew.record(series.runs, series=[0.1]).save(tmp_path / "bundle")
    text = (tmp_path / "bundle" / "code" / "parts" / "0.py").read_text()
    assert "while start < len(series):" in text

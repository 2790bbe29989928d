"""Functions that look at the variables of who calls them: they are given these, or are refused by name."""

from __future__ import annotations

import inspect
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import GraphError
from clew.values import capture

pandas = pytest.importorskip("pandas")
LIMIT = 1


def _frame(seed: int) -> Any:
    chance = random.Random(seed)
    count = chance.randint(2, 6)
    return pandas.DataFrame(
        {"x": [chance.randint(-5, 5) for _ in range(count)], "v": [chance.random() for _ in range(count)]}
    )


TABLE = pandas.DataFrame({"x": range(-9, 9)})


def plain(df: Any) -> Any:
    limit = 2
    return df.query("x < @limit")


def recorded_limit(df: Any) -> Any:
    limit = df["x"].mean()
    return df.query("x > @limit")["v"].sum()


def of_the_module(df: Any) -> Any:
    return df.query("x > @LIMIT")


def a_name_that_clew_has_too(df: Any) -> Any:
    value = df["x"].max() - 1
    return df.query("x >= @value")


def evaluated(df: Any) -> Any:
    factor = df["v"].sum()
    return df.eval("z = x * @factor"), pandas.eval("factor * 2")


def in_place(df: Any) -> Any:
    factor = 3
    df.eval("z = x * @factor", inplace=True)
    return df


def by_reference(df: Any) -> Any:
    limit, query = df["x"].mean(), df.query
    return query("x > @limit")


def chained(df: Any) -> Any:
    middle = df.v.mean()
    return df.assign(w=1).query("v > @middle").query("x > -@middle")


def of_a_table(df: Any) -> Any:
    limit = df["x"].max()
    return TABLE.query("x > @limit")


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pandas 3.1
@pytest.mark.parametrize(
    "pipeline",
    [
        plain,
        recorded_limit,
        of_the_module,
        a_name_that_clew_has_too,
        evaluated,
        in_place,
        by_reference,
        chained,
        of_a_table,
    ],
)
def test_a_query_finds_the_variables_of_the_pipeline(pipeline: Any, tmp_path: Path) -> None:
    graph = clew.record(pipeline, _frame(0))
    graph.save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    for seed in range(1, 51):
        wanted = capture(pipeline(_frame(seed))).digest
        assert capture(graph(_frame(seed))).digest == wanted
        assert capture(loaded(_frame(seed))).digest == wanted


def test_variables_of_another_function_are_refused() -> None:
    def asked(df: Any) -> Any:
        return df.query("x > @limit", level=1)

    def pipeline(df: Any) -> Any:
        limit = 3
        return asked(df), limit

    with pytest.raises(GraphError, match=r"query\(level=\) looks at the variables") as caught:
        clew.record(pipeline, _frame(0))
    assert caught.value.slug == "graph-frame"


def current(n: Any) -> Any:
    frame = inspect.currentframe()
    return n if frame is None else frame.f_locals["n"]


def got(n: Any) -> Any:
    return sys._getframe().f_locals["n"]


def stacked(n: Any) -> Any:
    return inspect.stack()[0].frame.f_locals["n"]


def renamed(n: Any) -> Any:
    names = locals
    return names()["n"]


@pytest.mark.parametrize("pipeline", [current, got, stacked, renamed])
def test_functions_that_give_frames_are_refused_by_name(pipeline: Any) -> None:
    with pytest.raises(GraphError, match=r"(currentframe|_getframe|stack|locals)\(\) looks at the variables") as caught:
        clew.record(pipeline, 3)
    assert caught.value.slug == "graph-frame"


def test_names_of_the_function_itself_are_found_as_ever() -> None:
    def pipeline(n: Any) -> Any:
        m = n + 1
        return "{n} {m}".format(**locals()), eval("n + 1"), vars()["m"]

    graph = clew.record(pipeline, 3)
    assert graph(5) == pipeline(5)


def test_a_library_that_searches_the_caller_is_refused_if_it_would_find_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "duckdb.py").write_text("def sql(text):\n    return text.upper()\n")
    monkeypatch.syspath_prepend(str(folder))
    import duckdb  # type: ignore[import-not-found]

    def pipeline(n: Any) -> Any:
        rows = [n]
        return duckdb.sql("select * from rows"), rows

    with pytest.raises(GraphError, match=r"sql\(\) of duckdb looks up `rows`"):
        clew.record(pipeline, 3)
    assert clew.record(lambda text: duckdb.sql(text), "select 1")("select 2") == "SELECT 2"
    del sys.modules["duckdb"]

"""`graph.map`: order, failures, retries, back-pressure, what an item is, and where it runs."""

from __future__ import annotations

import itertools
import os
import pickle
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import clew
from clew.engines.local import Processes
from clew.errors import GraphError
from clew.graph import Graph
from clew.graph.mapping.map_job import Failure
from clew.graph.mapping.worker import BundleWork, How
from graph import mapops

HERE = ({"workers": 1}, {"workers": 3})
names = pytest.mark.parametrize


@pytest.fixture
def graph() -> Graph:
    return clew.record(mapops.simple, 1, signature={"x": "any"})


def results(mapped: Any) -> list[Any]:
    return [value for value in mapped if not isinstance(value, Failure)]


@names("options", HERE)
def test_results_come_in_the_order_of_the_items(graph: Graph, options: dict[str, Any]) -> None:
    assert list(graph.map(range(5000), **options)) == [10 * x for x in range(5000)]


@names("options", HERE)
def test_unordered_results_are_all_there_with_their_numbers(graph: Graph, options: dict[str, Any]) -> None:
    found = graph.map((f"{x}" for x in range(1000)), ordered=False, **options).indexed()
    assert sorted(found) == [(x, f"{x}" * 10) for x in range(1000)]


def test_processes_give_the_same_and_each_loads_the_graph_itself(graph: Graph, tmp_path: Path) -> None:
    items = [*range(300), f"pid:{tmp_path}"]
    assert list(graph.map(items, processes=True, workers=1)) == [*(10 * x for x in range(300)), 0]
    (ran,) = tmp_path.glob("ran-*")
    assert ran.name != f"ran-{os.getpid()}"


def test_a_graph_that_was_loaded_runs_in_processes(graph: Graph, tmp_path: Path) -> None:
    from clew.graph.bundle import load

    loaded = load(graph.save(tmp_path / "bundle"), trusted=True)
    assert list(loaded.map([1, 2], processes=True, workers=1)) == [10, 20]


@names("target", ["bundle", "bundle.zip"])
def test_a_worker_that_does_not_see_the_bundle_is_sent_it(graph: Graph, tmp_path: Path, target: str) -> None:
    path = graph.save(tmp_path / target)
    work = BundleWork.of(path, How())
    assert work.is_here()
    sent = pickle.loads(pickle.dumps(work.with_content()))
    path.rename(tmp_path / "elsewhere")
    assert not sent.is_here()
    assert sent.prepare()([1, 2]).results == [10, 20]


def test_nothing_gives_nothing(graph: Graph) -> None:
    mapped = graph.map([])
    assert list(mapped) == []
    assert repr(mapped) == "<clew map: 0 of 0 items done, 0 failed>"


def test_results_can_be_taken_one_by_one_and_the_rest_given_up(graph: Graph) -> None:
    with graph.map(itertools.count(), workers=2) as mapped:
        assert [next(mapped), next(mapped)] == [0, 10]
    assert list(mapped) == []


class Watched(Processes):
    closed = 0

    def close(self) -> None:
        Watched.closed += 1
        super().close()


def test_a_loop_that_is_left_early_lets_go_of_the_workers_at_once(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "closed", 0)
    for _ in graph.map(itertools.count(), engine=Watched, workers=1):
        assert Watched.closed == 0
        break
    assert Watched.closed == 1


def test_values_and_numbered_values_may_be_taken_in_turn(graph: Graph) -> None:
    mapped = graph.map(range(200), workers=1)
    found: list[Any] = [(place, next(mapped)) for place in range(20)]
    numbered = mapped.indexed()
    found += itertools.islice(numbered, 30)
    found += [(50, next(mapped)), *numbered]
    assert found == [(x, 10 * x) for x in range(200)]


@names("options", [*HERE, {"workers": 1, "processes": True}])
def test_no_more_items_are_taken_than_can_be_under_way(graph: Graph, options: dict[str, Any]) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(10**9):
            taken += 1
            yield number

    with graph.map(items(), **options) as mapped:
        next(mapped)
        assert taken < 100
        most = 0
        for done, _ in enumerate(itertools.islice(mapped, 200_000)):
            most = max(most, taken - done)
    assert most < 20_000 * 10


@names("options", [*HERE, {"workers": 1, "processes": True}])
def test_what_is_done_is_given_though_the_collection_has_become_slow(graph: Graph, options: dict[str, Any]) -> None:
    given, waits = 0, 0

    def items() -> Iterator[int]:
        nonlocal waits
        yield from range(30_000)
        for number in range(30_000, 30_100):
            waits += 1
            time.sleep(0.06)
            yield number

    with graph.map(items(), **options) as mapped:
        for given, _ in enumerate(mapped, 1):
            if given == 30_000:
                break
    assert waits < 50


# ---- failures


@names("options", [*HERE, {"workers": 1, "processes": True}])
def test_a_failed_item_has_its_failure_in_place_of_a_result(options: dict[str, Any]) -> None:
    graph = clew.record(mapops.inverted, 1)
    mapped = graph.map([1, 0, 4], **options)
    assert results(mapped) == [1.0, 0.25]
    (failure,) = mapped.failures
    assert (failure.index, failure.input, failure.error) == (1, 0, "ZeroDivisionError: division by zero")
    assert "mapops.py" in failure.traceback
    assert "return 1 / x" in failure.traceback
    assert "working.py" not in failure.traceback


def test_places_are_kept(graph: Graph) -> None:
    values = list(clew.record(mapops.inverted, 1).map([0, 2, 0]))
    assert [type(value) for value in values] == [Failure, float, Failure]
    assert [value.index for value in values if isinstance(value, Failure)] == [0, 2]


def test_a_decision_that_was_never_recorded_is_a_failure_with_its_line() -> None:
    mapped = clew.record(mapops.guarded, 1).map(range(10))
    assert results(mapped) == [0, 10, 20, 30, 40, 50]
    assert [failure.index for failure in mapped.failures] == [6, 7, 8, 9]
    assert "mapops.py" in mapped.failures[0].error
    assert "y > 50" in mapped.failures[0].error


def test_on_request_the_first_failure_ends_the_job() -> None:
    mapped = clew.record(mapops.inverted, 1).map([2, 1, 0, 1], on_error="raise", workers=1)
    assert next(mapped) == 0.5
    with pytest.raises(GraphError, match="item 2 failed: ZeroDivisionError") as raised:
        list(mapped)
    assert "return 1 / x" in raised.value.__notes__[0]


def test_an_operator_that_leaves_the_program_has_failed(graph: Graph) -> None:
    mapped = graph.map([1, "exit", 2], workers=2)
    assert results(mapped) == [10, 20]
    assert mapped.failures[0].error == "SystemExit: 3"


def test_an_item_is_tried_again_as_often_as_asked(tmp_path: Path) -> None:
    graph = clew.record(mapops.trying, _tried_twice(tmp_path / "example"))
    items = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert [failure.error for failure in graph.map(items, workers=1, retries=0)] == ["OSError: try 1"] * 2
    assert list(graph.map(items, workers=1, retries=1)) == [3, 3]


def _tried_twice(path: Path) -> str:
    path.write_text("xx")
    return str(path)


def test_what_brings_a_worker_down_is_found_and_the_others_are_done(graph: Graph) -> None:
    mapped = graph.map([1, 2, "die", 4, 5, 6, 7, 8], processes=True, workers=1)
    assert results(mapped) == [10, 20, 40, 50, 60, 70, 80]
    (failure,) = mapped.failures
    assert (failure.index, failure.input) == (2, "die")
    assert failure.error == "the worker died (signal SIGKILL)"


def test_what_cannot_travel_fails_alone(graph: Graph) -> None:
    mapped = graph.map([1, lambda: None, "function", 2], processes=True, workers=1)
    assert results(mapped) == [10, 20]
    assert [failure.index for failure in mapped.failures] == [1, 2]
    assert "cannot be sent" in mapped.failures[0].error


def test_a_failure_can_be_kept(graph: Graph) -> None:
    failure = Failure(3, "x", "ValueError: no", "Traceback ...")
    assert pickle.loads(pickle.dumps(failure)) == failure


def test_a_collection_that_raises_does_so_after_its_items_are_done(graph: Graph) -> None:
    def items() -> Iterator[int]:
        yield from (1, 2, 3)
        raise RuntimeError("the file is cut")

    mapped = graph.map(items(), workers=2)
    found = []
    with pytest.raises(GraphError, match="raised RuntimeError: the file is cut \\(after 3 items\\)") as raised:
        found.extend(mapped)
    assert found == [10, 20, 30]
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_a_failure_is_public_and_false_and_results_say_whether_there_are_any(graph: Graph) -> None:
    mapped = graph.map([1, "exit", 2], workers=1)
    found = list(mapped)
    assert [isinstance(value, clew.Failure) for value in found] == [False, True, False]
    assert [value for value in found if value] == [10, 20]
    assert mapped.failures == [found[1]]
    assert not mapped.ok
    fine = graph.map([1, 2])
    assert (list(fine), fine.ok, fine.failures) == ([10, 20], True, [])


# ---- what an item is


@names(
    ("item", "expected"),
    [(7, 6), ((7,), 6), ((7, 2), 5), ({"a": 7}, 6), ({"b": 3, "a": 7}, 4)],
)
def test_an_item_is_the_first_input_or_a_tuple_or_a_dictionary(item: Any, expected: int) -> None:
    graph = clew.record(mapops.difference, 5, 4)
    assert list(graph.map([item])) == [expected]


@names(("item", "expected"), [([1], [1] * 10), ((1,), (1,) * 10), ({"x": 2}, 20)])
def test_of_one_input_an_item_is_its_value_whatever_it_is(graph: Graph, item: Any, expected: Any) -> None:
    assert list(graph.map([item])) == [expected]


@names("item", [{"txt": "abc"}, {"text": "abc", "id": 3}, {}])
def test_a_dictionary_is_no_value_for_an_input_that_was_recorded_with_something_else(item: Any) -> None:
    graph = clew.record(mapops.doubled_text, "a")
    with pytest.raises(GraphError) as raised:
        graph.map([item])
    assert raised.value.slug == "graph-inputs"
    mapped = graph.map([{"text": "x"}, item, "y"])
    assert results(mapped) == ["xx", "yy"]
    assert [failure.index for failure in mapped.failures] == [1]


def test_a_dictionary_is_the_value_of_an_input_that_was_recorded_with_one() -> None:
    graph = clew.record(mapops.counted_columns, record={"a": 1})
    assert list(graph.map([{"a": 1, "b": 2}, {}, {"record": {"c": 3}}])) == [2, 0, 1]


def test_a_dictionary_is_a_row_where_the_other_inputs_have_defaults() -> None:
    graph = clew.record(lambda row, by=2: row["a"] * by, {"a": 1}, params=True)
    items = [{"a": 3, "b": 0}, {"row": {"a": 4}, "by": 5}, ({"a": 5}, 3)]
    assert list(graph.map(items, workers=1)) == [6, 20, 15]


@names("item", [3, {"text": {"a": 1}}])
def test_an_item_of_another_kind_than_the_examples_has_failed(item: Any) -> None:
    graph = clew.record(mapops.doubled_text, "a")
    mapped = graph.map(["x", item, "y"])
    assert results(mapped) == ["xx", "yy"]
    assert mapped.failures[0].error.startswith("SignatureError: the input `text` is ")


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize("item", [[7, 3], Pair(7, 3), OrderedDict(b=3, a=7)])
def test_what_cannot_be_one_input_of_several_is_all_of_them(item: Any) -> None:
    assert list(clew.record(mapops.between, 1, 2).map([item])) == [4]


def test_a_wrong_name_is_said_before_anything_runs() -> None:
    graph = clew.record(mapops.difference, 5, 4)
    with pytest.raises(GraphError, match="no input of the graph"):
        graph.map([{"aa": 1}])
    with pytest.raises(GraphError, match="does not give the input `a`"):
        graph.map([{"b": 1}])
    with pytest.raises(GraphError, match="a tuple of 3"):
        graph.map([(1, 2, 3)])


TABLE = {"b": [1, 2, 3], "note": ["x", "y", "z"], "a": [10, 20, 30]}


@names(
    "table",
    [pa.table(TABLE), pa.record_batch(TABLE), pa.table(TABLE).to_reader()],
    ids=["table", "record batch", "reader"],
)
def test_the_rows_of_a_table_give_the_inputs_by_their_names(table: Any) -> None:
    mapped = clew.record(mapops.difference, 5, 4).map(table)
    assert list(mapped) == [9, 18, 27]


def test_the_values_of_an_arrow_array_are_plain(graph: Graph) -> None:
    assert list(graph.map(pa.chunked_array([[1], [2]]))) == [10, 20]


def test_a_failed_row_is_shown_by_names() -> None:
    mapped = clew.record(mapops.difference, 5, 4).map(pa.table({"a": [1, None], "b": [1, 1]}))
    assert results(mapped) == [0]
    assert mapped.failures[0].input == {"a": None, "b": 1}


def test_a_table_of_one_column_is_the_one_input(graph: Graph) -> None:
    assert list(graph.map(pa.table({"number": [1, 2]}))) == [10, 20]


def test_a_table_without_a_column_for_an_input_is_refused() -> None:
    with pytest.raises(GraphError, match="no column for the input `a`"):
        clew.record(mapops.difference, 5, 4).map(pa.table({"b": [1], "c": [2]}))


class ByNumber:
    """A Dataset that does not know how to end."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        return index % 4


def test_items_by_number_are_each_asked_for_once(graph: Graph) -> None:
    dataset = ByNumber()
    assert list(graph.map(dataset)) == [0, 10, 20, 30]
    assert sorted(dataset.asked) == [0, 1, 2, 3]


def test_an_array_is_gone_through(graph: Graph) -> None:
    found = list(graph.map(np.arange(6).reshape(3, 2)))
    assert [value.tolist() for value in found] == [[0, 10], [20, 30], [40, 50]]


@names("items", ["text", {"x": 1}, 3])
def test_what_is_no_collection_is_refused(graph: Graph, items: Any) -> None:
    with pytest.raises(GraphError, match="takes a collection of items"):
        graph.map(items)


# ---- batches


def test_a_batch_is_a_list_for_the_input_and_is_parted_again() -> None:
    graph = clew.record(mapops.summed, [[1.0, 2.0]])
    found = list(graph.map([10, 20, 30, 40, 50], batch=2, workers=1))
    assert found == [{"sum": 12}, {"sum": 22}, {"sum": 32}, {"sum": 42}, {"sum": 51}]


def test_a_batch_that_fails_is_run_in_parts_and_only_the_row_to_blame_fails(capsys: pytest.CaptureFixture[str]) -> None:
    mapped = clew.record(mapops.refused_rows, [["a", "b"]]).map(["a", "b", "fail", *"cdefgh"], batch=9, workers=1)
    assert results(mapped) == ["A", "B", *"CDEFGH"]
    assert [(failure.index, failure.error) for failure in mapped.failures] == [(2, "ValueError: fail")]
    assert mapped.batches_split == 1
    assert (
        "a batch could not be run as a whole, and was run in parts or failed (ValueError: fail)"
        in capsys.readouterr().err
    )


def test_a_batch_is_one_call_however_items_are_sent() -> None:
    graph = clew.record(mapops.summed, [[1.0, 2.0]])
    assert [found["sum"] for found in graph.map([0] * 1000, batch=50, workers=2)] == [50] * 1000


def test_an_input_that_no_item_gives_has_its_default_in_a_batch() -> None:
    graph = clew.record(mapops.offset, [([5, 6], 4)])
    assert list(graph.map([1, 2], batch=2)) == [101, 102]


def test_a_graph_that_was_recorded_with_one_row_refuses_batches_at_once(graph: Graph) -> None:
    with pytest.raises(GraphError, match="several rows at once to the input `x`, and it was recorded with an int"):
        graph.map([1, 2], batch=2)


def test_a_graph_that_does_not_give_a_result_for_each_row_of_a_batch_says_so() -> None:
    mapped = clew.record(mapops.simple, x=[1, 2]).map([1, 2], batch=2)
    with pytest.raises(GraphError, match="for a batch of 2 rows the graph gave a list of 20"):
        list(mapped)


def test_a_graph_that_takes_no_list_of_rows_says_so_at_once() -> None:
    with pytest.raises(GraphError, match="recorded with a list of: number; a batch would be a list of: list"):
        clew.record(mapops.summed, xs=[1.0, 2.0]).map([[1.0, 2.0], [3.0, 4.0]], batch=2)


def test_a_graph_that_holds_for_batches_of_one_length_says_so_and_is_not_run_row_by_row() -> None:
    for count in (1, 2, 3):
        graph = clew.record(mapops.by_length, xs=[1.0] * count)
        with pytest.raises(GraphError, match="batch=4: the graph cannot take so many rows at once") as raised:
            list(graph.map([1.0] * 8, batch=4))
        assert raised.value.slug == "graph-batch"


def test_a_last_batch_of_another_length_fails_if_the_graph_decides_by_it() -> None:
    mapped = clew.record(mapops.by_length, xs=[1.0] * 4).map([1.0] * 10, batch=4)
    assert results(mapped) == [2.0] * 8
    assert [failure.index for failure in mapped.failures] == [8, 9]
    assert "(in a batch of 2 rows)" in mapped.failures[0].error
    mapped = clew.record(mapops.by_length, [[1.0] * 4, [1.0] * 2]).map([1.0] * 10, batch=4)
    assert results(mapped) == [2.0] * 10


def test_an_input_that_was_recorded_with_a_tuple_is_given_one() -> None:
    graph = clew.record(mapops.named_rows, xs=(1, 2))
    assert list(graph.map([1, 2, 3], batch=2)) == ["tuple"] * 3


# ---- where it runs


@names(
    ("options", "kind"),
    [({}, "serial"), ({"workers": 1}, "serial"), ({"workers": 2, "processes": False}, "threads")],
)
def test_it_says_where_items_were_run(graph: Graph, options: dict[str, Any], kind: str) -> None:
    mapped = graph.map([1, 2], **options)
    assert mapped.chosen is None
    list(mapped)
    assert mapped.chosen.kind == kind
    assert (mapped.chosen.reason == "as asked for") is bool(options)


def test_a_choice_of_processes_is_respected(graph: Graph) -> None:
    mapped = graph.map([1], processes=True, workers=1)
    assert list(mapped) == [10]
    assert str(mapped.chosen) == "in 1 processes (as asked for)"


def test_an_input_that_was_recorded_with_a_dictionary_takes_the_rows_of_a_table() -> None:
    graph = clew.record(mapops.summed_columns, record={"a": 1, "b": 2})
    assert list(graph.map(pa.table(TABLE))) == [11, 22, 33]


# ---- options


@names(
    "options",
    [{"engine": "ray"}, {"on_error": "ignore"}, {"workers": 0}, {"retries": -1}, {"batch": 0}, {"workers": 1.5}],
)
def test_an_option_that_makes_no_sense_is_refused_at_once(graph: Graph, options: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as raised:
        graph.map([1], **options)
    assert raised.value.slug == "bad-option"


def test_there_is_no_bar_where_nobody_looks(graph: Graph, capfd: pytest.CaptureFixture[str]) -> None:
    list(graph.map(range(10)))
    assert capfd.readouterr() == ("", "")


def test_on_a_terminal_there_is_a_bar(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    list(graph.map(range(10)))
    assert "clew map" in terminal.getvalue()
    shown = len(terminal.getvalue())
    list(graph.map(range(10), progress=False))
    assert len(terminal.getvalue()) == shown

"""The signature of a graph: from its examples or given; inputs are checked by it before the graph runs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.commands.main import main
from clew.errors import GraphError, SignatureError
from graph.bundling import project, reseal

__all__ = ["project"]  # the fixture


@clew.op
def add(a: Any, b: Any) -> Any:
    return a + b


@clew.op
def total(values: Any) -> Any:
    return sum(values)


def double(x: Any) -> Any:
    return add(x, x)


class CustomError(Exception):
    pass


def refused(graph: Any, *args: Any, **named: Any) -> str:
    with pytest.raises(SignatureError) as caught:
        graph(*args, **named)
    assert caught.value.slug == "graph-signature"
    return str(caught.value)


# ---- what it says


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "int"),
        (1.5, "float"),
        ("a", "str"),
        (None, "NoneType"),
        ([1, "a", 2], "list[int | str]"),
        ((1.0,), "tuple[float]"),
        ({"a": 1, "b": [2.0]}, "dict{a: int, b: list[float]}"),
        ({1: "a", 2: "b"}, "dict[str]"),
        (np.zeros((2, 3), dtype="float32"), "ndarray float32[2, 3]"),
        (np.float32(1), "float32"),
        (b"x", "bytes"),
    ],
)
def test_it_says_what_an_input_is_like(value: Any, words: str) -> None:
    graph = clew.record(lambda x: [x], x=value)
    assert str(graph.signature.inputs["x"]) == f"x: {words}"
    assert str(graph.signature).splitlines()[-1] == f"→ list[{words}]"


def test_sizes_that_examples_vary_are_open_and_other_kinds_are_alternatives() -> None:
    graph = clew.record(double, [np.zeros((2, 3)), np.zeros((5, 3)), 1.0])
    assert str(graph.signature) == "x: ndarray float64[*, 3] | float\n→ ndarray float64[*, 3] | float"


def test_keys_that_only_some_examples_have_are_marked() -> None:
    graph = clew.record(lambda row: add(row["a"], 1), [{"a": 1, "b": 2}, {"a": 1}])
    assert str(graph.signature.inputs["row"]) == "row: dict{a: int, b?: int}"


def test_the_columns_of_frames_are_told_with_their_dtypes() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.0]})
    graph = clew.record(lambda frame: add(frame["a"], frame["b"]), frame)
    assert str(graph.signature) == "frame: DataFrame{a: int64, b: float64}\n→ Series float64[2]"


def test_inspect_shows_it_with_the_steps() -> None:
    shown = clew.record(double, 1).inspect()
    assert shown.startswith("x: int\n→ int\n") and "add" in shown


def test_what_the_pipeline_does_to_an_input_is_not_in_it() -> None:
    def pipeline(row: Any) -> Any:
        row["more"] = 1
        return add(row["a"], row["more"])

    graph = clew.record(pipeline, {"a": 1})
    assert str(graph.signature.inputs["row"]) == "row: dict{a: int}"
    assert graph({"a": 2}) == 3


# ---- what is refused


@pytest.mark.parametrize(
    ("example", "other", "came"),
    [
        (1, "a", "is str; the graph was recorded with int"),
        (1.0, {"a": 1}, "is dict{a: int}"),
        (1, [1], "is list[int]"),
        ("a", 5, "is int; the graph was recorded with str"),
        ([1, 2], "ab", "is str"),
        ([1, 2], {"a": 1}, "is dict"),
        ({"a": 1}, [1], "is list[int]"),
        (np.zeros((2, 3)), np.zeros(3), "is ndarray float64[3]; the graph was recorded with ndarray float64[2, 3]"),
        (np.zeros(3), np.zeros((1, 3)), "is ndarray float64[1, 3]"),
        (np.zeros(3), "abc", "is str"),
        (np.zeros(3), 1.0, "is float"),
    ],
)
def test_a_contradiction_is_refused_before_anything_runs(example: Any, other: Any, came: str) -> None:
    calls: list[Any] = []

    def note(x: Any) -> Any:
        calls.append(x)
        return x

    operator = clew.op(note)
    graph = clew.record(lambda x: operator(x), x=example)
    calls.clear()
    for run in (lambda: graph(other), lambda: graph(x=other), lambda: graph.run({"x": other})):
        with pytest.raises(SignatureError) as caught:
            run()
        assert "the input `x` " + came in str(caught.value)
    assert calls == []


@pytest.mark.parametrize(
    ("example", "others"),
    [
        (1.5, [2, np.float32(2), np.int64(3), True, np.array(2.0)]),
        (1, [2.5, np.int8(3)]),
        ((1, 2), [[3, 4], np.array([1, 2]), range(2), ()]),
        ([1, 2], [(3, 4), [0.5], []]),
        (np.zeros((2, 3)), [np.zeros((9, 3)), np.zeros((2, 7), dtype=int), np.zeros((0, 3)), [[1, 2, 3]]]),
        ({"a": 1}, [{"a": 2, "b": 3}, {"a": None}, {}]),
        (np.zeros(3), [np.zeros(5), np.zeros(3, dtype="float32")]),
        ("a", [np.str_("b"), b"a", None, ["a"]]),
    ],
)
def test_what_may_work_is_run(example: Any, others: list[Any]) -> None:
    held = clew.op(lambda x: [x])
    graph = clew.record(lambda x: held(x), x=example)
    for other in others:
        assert graph(other)[0] is other


def test_an_input_that_is_only_compared_shown_or_passed_through_may_be_anything() -> None:
    graph = clew.record(lambda id, x: {"id": id, "text": f"{id}", "same": id == 5, "x": add(x, 1)}, 17, 1)
    assert graph("a17", 1) == {"id": "a17", "text": "a17", "same": False, "x": 2}


def test_a_key_that_is_read_must_be_there_and_others_need_not() -> None:
    graph = clew.record(lambda row: add(row["a"], 1), {"a": 1, "unused": 2})
    assert graph({"a": 2}) == 3
    assert "the input `row` lacks the key `a` (int); it has `b`" in refused(graph, {"b": 1})
    assert graph(defaultdict(int)) == 1


def test_a_key_that_is_written_before_it_is_read_need_not_be_there() -> None:
    def pipeline(row: Any) -> Any:
        row["a"] = 5
        return add(row["a"], row["b"])

    assert clew.record(pipeline, {"a": 1, "b": 2})({"b": 3}) == 8


def test_a_key_that_only_one_branch_reads_need_not_be_there_for_the_other() -> None:
    def pipeline(row: Any) -> Any:
        return add(row["a"], 1) if "a" in row else 0

    graph = clew.record(pipeline, [{"a": 1, "b": 1}, {"b": 1}])
    assert graph({"b": 2}) == 0


def test_a_column_that_is_read_must_be_there_and_others_need_not() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.0], "label": ["x", "y"]})
    graph = clew.record(lambda frame: add(frame["a"], frame.b), frame)
    assert graph(frame[["a", "b"]]).tolist() == [1.5, 3.0]
    assert "lacks the column `a` (int64); it has `b`, `label`" in refused(graph, frame[["b", "label"]])
    assert "lacks the column `b`" in refused(graph, frame[["a"]])


# ---- what fails and is explained


def test_a_failure_with_an_input_of_other_sizes_says_so_and_is_still_what_it_was() -> None:
    weights = np.ones((4, 2))
    graph = clew.record(lambda x: x @ weights, [np.ones((2, 4)), np.ones((3, 4))])
    with pytest.raises(ValueError, match=r"is ndarray float64\[2, 5\]; .* with ndarray float64\[\*, 4\]\. It failed"):
        graph(np.ones((2, 5)))


def test_a_failure_with_inputs_as_they_were_recorded_stays_as_it_is() -> None:
    def fail(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        return x

    operator = clew.op(fail)
    graph = clew.record(lambda x: operator(x), 1)
    with pytest.raises(ValueError, match=r"^negative$") as caught:
        graph(-1)
    assert not isinstance(caught.value, GraphError)


def test_an_error_of_the_users_own_keeps_its_class_and_gets_a_note() -> None:
    def fail(xs: Any) -> Any:
        if "a" in xs:
            raise CustomError("a letter")
        return xs

    operator = clew.op(fail)
    graph = clew.record(lambda xs: operator(xs), xs=[1, 2])
    with pytest.raises(CustomError) as caught:
        graph(["a"])
    assert "the input `xs` is list[str]; recorded with list[int]" in caught.value.__notes__[0]


def test_a_missing_column_that_a_whole_frame_operator_reads_is_named() -> None:
    pandas = pytest.importorskip("pandas")
    operator = clew.op(lambda frame: frame["a"] * 2)
    frame = pandas.DataFrame({"a": [1], "b": [2]})
    graph = clew.record(lambda frame: operator(frame), frame)
    with pytest.raises(KeyError, match=r"lacks the column `a` .int64.; it has `b`"):
        graph(frame[["b"]])


def test_a_guard_that_does_not_hold_is_told_as_such() -> None:
    graph = clew.record(lambda xs: total(xs) if len(xs) > 1 else 0, xs=[1, 2])
    with pytest.raises(clew.GuardError):
        graph(xs=[0.5])


def test_other_ways_to_run_check_as_well() -> None:
    graph = clew.record(lambda x, y: (double(x), double(y)), 1, 2)
    with pytest.raises(SignatureError):
        graph.run({"x": [1], "y": 1}, parallel=2)
    with pytest.raises(SignatureError):
        graph.profile({"x": [1], "y": 1})
    graph.parallel = 2
    assert "`y` is list" in refused(graph, 1, [1])


def test_a_graph_inside_a_recording_is_not_hindered() -> None:
    inner = clew.record(double, 1)
    outer = clew.record(lambda x: inner(x=x), 3)
    assert outer(4) == 8


# ---- how it is called


@pytest.mark.parametrize("name", ["type", "_run", "v1", "self", "graph", "error"])
def test_inputs_may_have_any_name(name: str) -> None:
    pipeline = eval(f"lambda {name}: add({name}, 1)", {"add": add})
    graph = clew.record(pipeline, 1)
    assert graph.run({name: 2}) == 3 and graph(2) == 3
    if name != "self":
        assert graph(**{name: 2}) == 3


def test_inputs_of_more_keywords_may_be_no_names_at_all() -> None:
    graph = clew.record(lambda **more: add(more["a-b"], more["class"]), **{"a-b": 1, "class": 2})
    assert graph(**{"a-b": 3, "class": 4}) == 7


def test_a_type_error_of_the_graph_is_not_taken_for_one_of_the_call() -> None:
    def fail(x: Any) -> Any:
        if x > 1:
            raise TypeError("of the operator")
        return x

    operator = clew.op(fail)
    graph = clew.record(lambda x: operator(x), 1)
    with pytest.raises(TypeError, match="of the operator"):
        graph(2)


# ---- parameters


def scaled(x: Any, factor: float = 2.0, offset: int = 1) -> Any:
    return add(x * factor, offset)


def test_an_argument_left_to_its_default_can_be_a_parameter() -> None:
    graph = clew.record(scaled, 3.0, params=["factor"])
    assert graph.input_names == ["x", "factor"]
    assert graph(3.0) == 7.0
    assert graph(3.0, factor=10.0) == graph(3.0, 10.0) == graph.run({"x": 3.0, "factor": 10.0}) == 31.0
    assert str(graph.signature.inputs["factor"]) == "factor: float = 2.0"
    with pytest.raises(GraphError, match="params="):
        graph(3.0, offset=2)


def test_all_arguments_with_defaults_can_be_parameters() -> None:
    graph = clew.record(scaled, 3.0, params=True)
    assert graph(3.0, factor=1.0, offset=0) == 3.0


def test_a_parameter_that_is_none_of_the_pipelines_is_refused() -> None:
    with pytest.raises(GraphError, match=r"`factr`.*did you mean `factor`"):
        clew.record(scaled, 3.0, params=["factr"])


def test_parameters_are_in_the_bundle_with_their_defaults(project: Path) -> None:
    clew.record(scaled, 3.0, params=True).save("bundle")
    loaded = clew.load("bundle", trusted=True)
    assert loaded(3.0) == 7.0 and loaded(3.0, offset=5) == 11.0


def test_what_only_some_examples_give_is_an_input() -> None:
    graph = clew.record(scaled, [(3.0,), {"x": 3.0, "factor": 1.0}])
    assert graph(3.0) == 7.0 and graph(3.0, factor=4.0) == 13.0


def test_a_pipeline_with_arguments_of_these_names_gets_them() -> None:
    def pipeline(x: Any, params: Any, signature: Any) -> Any:
        return add(x, params["a"]) + signature

    graph = clew.record(pipeline, 1, params={"a": 2}, signature=3)
    assert graph(x=1, params={"a": 5}, signature=0) == 6


# ---- given


def test_a_signature_that_is_given_refuses_whatever_differs() -> None:
    graph = clew.record(double, np.zeros((2, 4), dtype="float32"), signature={"x": "float32[*, 4]"})
    assert graph(np.ones((7, 4), dtype="float32")).sum() == 56
    assert "its signature is float32[*, 4]" in refused(graph, np.ones((2, 5), dtype="float32"))
    assert "is ndarray float64[2, 4]" in refused(graph, np.ones((2, 4)))


@pytest.mark.parametrize(
    ("said", "fits", "others"),
    [
        (int, [1, True, np.int64(2)], [1.5, "a", None]),
        (float, [1, 1.5, np.float32(1)], ["a", None, 1j]),
        ("str | None", ["a", None], [1]),
        ((int, str), [1, "a"], [1.5, None]),
        ({"a": int}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": "x"}, [1]]),
        ([str], [["a"], []], [[1]]),
        ("float64[n, n]", [np.zeros((2, 3))], [np.zeros(3), [[1.0]]]),
        (np.ndarray, [np.zeros(2), np.zeros((2, 2), dtype=int)], [[1]]),
        ("any", [1, "a", None], []),
        (object, [1, "a", None], []),
    ],
)
def test_ways_to_give_one(said: Any, fits: list[Any], others: list[Any]) -> None:
    held = clew.op(lambda x: [x])
    graph = clew.record(lambda x: held(x), x=1)
    graph.signature = {"x": said}
    for value in fits:
        assert graph(value)[0] is value
    for value in others:
        refused(graph, value)


def test_columns_can_be_given_for_frames() -> None:
    pandas = pytest.importorskip("pandas")
    held = clew.op(lambda x: [x])
    frame = pandas.DataFrame({"a": [1], "b": ["x"]})
    graph = clew.record(lambda x: held(x), frame, signature={"x": {"a": "int64"}})
    graph(frame[["a"]])
    assert "lacks the column `a`" in refused(graph, frame[["b"]])
    assert "has the column `a` as float64, not int64" in refused(graph, frame.astype({"a": float}))


@pytest.mark.parametrize("said", [{"y": int}, {"x": "float32[a b]"}, {"x": 5}, "int", {"x": "[3]"}])
def test_a_signature_that_makes_no_sense_is_refused(said: Any) -> None:
    with pytest.raises(GraphError) as caught:
        clew.record(double, 1, signature=said)
    assert caught.value.slug == "bad-option"


# ---- in bundles


def test_it_is_in_the_bundle_and_checked_where_that_is_loaded(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = clew.record(scaled, [np.zeros((2, 3)), np.zeros((4, 3))], params=["factor"])
    graph.save("bundle")
    loaded = clew.load("bundle", trusted=True)
    assert str(loaded.signature) == str(graph.signature)
    refused(loaded, "a")
    assert main(["inspect", "bundle"]) == 0
    shown = capsys.readouterr().out
    assert "\n  x: ndarray float64[*, 3]\n  factor: float = 2.0\n" in shown
    assert "\noutput\n  ndarray float64[*, 3]\n" in shown
    assert main(["inspect", "bundle", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signature"]["inputs"][1]["default"] == "2.0"


def test_one_that_was_given_stays_strict(project: Path) -> None:
    clew.record(double, 1, signature={"x": int}).save("bundle")
    refused(clew.load("bundle", trusted=True), 1.5)


def test_a_bundle_without_one_loads_and_takes_anything(project: Path) -> None:
    clew.record(double, 1).save("bundle")

    def older(page: Any) -> None:
        del page["output"]
        for said in page["inputs"]:
            del said["like"]

    reseal(project / "bundle", older)
    loaded = clew.load("bundle", trusted=True)
    assert loaded("ab") == "abab"
    assert str(loaded.signature) == "x: anything\n→ anything"
    assert main(["inspect", "bundle"]) == 0


SPEC = {"kind": "number", "type": "int"}


@pytest.mark.parametrize(
    "like",
    [
        5,
        [{"kind": "number"}],
        [{**SPEC, "kind": "__class__"}],
        [{**SPEC, "kind": []}],
        [{**SPEC, "shape": [-1]}],
        [{**SPEC, "fields": [["a"]]}],
        [{**SPEC, "more": 1}],
        [{**SPEC, "items": [1]}],
    ],
)
@pytest.mark.parametrize("part", ["inputs", "output"])
def test_a_forged_one_is_refused(part: str, like: Any, project: Path) -> None:
    clew.record(double, 1).save("bundle")
    inputs = [{"id": 0, "name": "x", "like": like}]
    reseal(project / "bundle", lambda page: page.update({"inputs": inputs} if part == "inputs" else {"output": like}))
    with pytest.raises(clew.ClewError) as caught:
        clew.load("bundle", trusted=True)
    assert caught.value.slug == "bundle-damaged"


def test_what_a_forged_one_says_cannot_act_on_the_terminal(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clew.record(double, 1).save("bundle")
    said = {"kind": "number", "type": "\x1b[2Jint\nsha256 forged"}
    reseal(project / "bundle", lambda page: page["inputs"][0].update(like=[said]))
    assert main(["inspect", "bundle"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\nsha256 forged" not in shown

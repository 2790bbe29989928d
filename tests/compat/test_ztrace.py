"""Every example of ztrace's document, its import line changed."""

from __future__ import annotations

import collections
import enum
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.compat.ztrace import ztrace
from clew.export import ztrace_log


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ztrace_log, "_path", None)
    monkeypatch.setattr(ztrace_log, "_calls", {})


def log() -> dict[str, Any]:
    (path,) = Path("ztrace_logs").glob("*/*.json")
    assert re.fullmatch(r"ztrace_logs/\d{8}/\d{6}\.json", path.as_posix())
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def data(function: str) -> Any:
    return log()[function][-1]["data"]


def test_the_log_of_three_calls_of_two_functions() -> None:
    @ztrace(["variable_a", "variable_b"])
    def func_a(t):
        variable_a, variable_b = 0, 0
        for i in range(t):
            variable_a = i
            variable_b = i * 2

    @ztrace(["variable_a"])
    def func_b(t):
        variable_a = ""
        for i in range(t):
            variable_a += str(i)

    func_a(3)
    assert len(log()["func_a()"]) == 1  # complete when the call returns
    func_a(4)
    func_b(3)
    found = log()
    assert [c["data"] for c in found["func_a()"]] == [
        {"variable_a": [0, 1, 2], "variable_b": [0, 2, 4]},
        {"variable_a": [0, 1, 2, 3], "variable_b": [0, 2, 4, 6]},
    ]
    assert [c["data"] for c in found["func_b()"]] == [{"variable_a": ["", "0", "01", "012"]}]
    assert all(re.fullmatch(r"\d{14}", call["time"]) for calls in found.values() for call in calls)


def test_basic_immutable_data() -> None:
    @ztrace(["t", "res"])
    def trace_basic_immutable_data(t):
        res = 0
        for i in range(t):
            res += i
        res *= 2

        res = ""
        for i in range(t):
            res += str(i)
        res *= 2

    trace_basic_immutable_data(3)
    expected = {"t": 3, "res": [0, 1, 3, 6, "", "0", "01", "012", "012012"]}
    assert data("trace_basic_immutable_data()") == expected


def test_basic_mutable_data() -> None:
    @ztrace(["arr", "obj"])
    def trace_basic_mutable_data(t):
        arr = []
        obj = {}
        for i in range(t):
            arr += [i]
            obj[str(i)] = i

    trace_basic_mutable_data(3)
    assert data("trace_basic_mutable_data()") == {
        "arr": [[], [0], [0, 1], [0, 1, 2]],
        "obj": [{}, {"0": 0}, {"0": 0, "1": 1}, {"0": 0, "1": 1, "2": 2}],
    }


def test_attributes_and_elements() -> None:
    @ztrace(["arr[1]", 'obj["a"]["b"]', "cls.a"])
    def trace_attr(t):
        arr = [None for _ in range(t)]
        obj = {"a": {"b": None}}

        class Cls:
            a = None

        cls = Cls()

        for i in range(t):
            arr[1] = i
            obj["a"]["b"] = i
            cls.a = i

    trace_attr(3)
    values = [None, 0, 1, 2]
    assert data("trace_attr()") == {"arr[1]": values, 'obj["a"]["b"]': values, "cls.a": values}


def test_ignoring() -> None:
    @ztrace(["t", "res"])
    def trace_with_ignoring(t):
        res = 0
        for i in range(t):
            res += i  # ztrace: ignore
        res *= 2

        res = ""  # ztrace: ignore
        for i in range(t):
            res += str(i)
        res *= 2

    trace_with_ignoring(3)
    assert data("trace_with_ignoring()") == {"t": 3, "res": [0, 6, "0", "01", "012", "012012"]}


def test_a_comment_on_any_line_of_a_statement_leaves_the_statement_out() -> None:
    @ztrace(["res"])
    def f(t):
        res = [
            t,  # ztrace: ignore
            t + 1,
        ]
        res = [
            t,
        ]  # ztrace: ignore
        res = [t]

    f(3)
    assert data("f()") == {"res": []}


def test_the_typical_scene_of_a_training_loss() -> None:
    @ztrace(["training_loss"])
    def train(num_epochs, losses):
        for _epoch_index in range(num_epochs):
            training_loss = 0.0  # ztrace: ignore
            for loss in losses:
                training_loss += loss  # ztrace: ignore
            training_loss /= len(losses)

    train(2, [1.0, 3.0])
    assert data("train()") == {"training_loss": [2.0, 2.0]}


def test_one_element_in_the_middle_of_a_long_list_is_recorded() -> None:
    @ztrace(["arr"])
    def change_the_middle():
        arr = [0] * 5000
        arr[2500] = 1

    change_the_middle()
    assert [values[2500] for values in data("change_the_middle()")["arr"]] == [0, 1]


def test_the_records_are_in_the_run_too() -> None:
    @ztrace(["x"])
    def f():
        x = 1

    f()
    current = clew.current()
    assert current is not None and current["x"].values == [1]


# ---- the format beyond the examples: each text is what json.dumps(..., indent=2) makes of the values


Pair = collections.namedtuple("Pair", "left right")


Scored = collections.namedtuple("Scored", "value step")


class Colour(enum.IntEnum):
    RED = 1


class Track(list[Any]):
    pass


def written(value: Any) -> str:
    """What the log has for a name that holds this value, as it stands in the file."""

    @ztrace(["x"])
    def hold(given):
        x = given

    hold(value)
    (path,) = Path("ztrace_logs").glob("*/*.json")
    text = path.read_text()
    data = text[text.index('"data": ') + len('"data": ') : text.index(',\n      "time"')]
    return re.sub(r"\s*\n\s*", "", data).removeprefix('{"x": ').removesuffix("}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (-float("inf"), "-Infinity"),
        (-0.0, "-0.0"),
        (10**30, "1" + "0" * 30),
        ("é", '"\\u00e9"'),
        ([float("nan"), 1], "[NaN,1]"),
        ({1: "a"}, '{"1": "a"}'),
        ({None: 1, True: 2, 2.5: 3}, '{"null": 1,"true": 2,"2.5": 3}'),
        ({Colour.RED: 1}, '{"1": 1}'),
        (Pair(1, "b"), '[1,"b"]'),
        ([Pair(1, [2])], "[[1,[2]]]"),
        (Scored(1, 2), "[1,2]"),
        (Colour.RED, "1"),
        (Track([1, 2]), "[1,2]"),
        (collections.OrderedDict(z=1, a=2), '{"z": 1,"a": 2}'),
        (np.float32(0.1), "0.10000000149011612"),
        (np.int64(7), "7"),
        (np.array(1.5), "1.5"),
        ([np.zeros(2), {"a": np.eye(2)}], '[[0.0,0.0],{"a": [[1.0,0.0],[0.0,1.0]]}]'),
        ((), "[]"),
    ],
)
def test_a_value_is_written_as_json_dumps_writes_it(value: Any, text: str) -> None:
    assert written(value) == text


class Point:
    def __init__(self) -> None:
        self.x = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({3, 1, 2}, "[1,2,3]"),
        ({"b", 1}, '[1,"b"]'),
        (b"ab", "\"b'ab'\""),
        (1 + 2j, '{"real": 1.0,"imag": 2.0}'),
        ({(1, 2): 3}, '{"(1, 2)": 3}'),
        (np.bool_(True), "true"),
        (collections.deque([1]), "[1]"),
        (Point(), '{"type": "tests.compat.test_ztrace.Point","attributes": {"x": 1}}'),
        (len, '"<builtin_function_or_method len>"'),
    ],
)
def test_what_ztrace_could_not_write_is_written_readably(value: Any, text: str) -> None:
    assert written(value).replace("tests.compat.", "") == text.replace("tests.compat.", "")


def test_a_list_that_contains_itself_is_written_once() -> None:
    around: list[Any] = [1]
    around.append(around)
    assert written(around) == '[1,{"left_out": "it contains itself"}]'


def test_a_large_value_is_written_in_full() -> None:
    assert len(json.loads(written(list(range(150_000))))) == 150_000


def test_a_name_that_was_never_bound_is_an_empty_list() -> None:
    @ztrace(["x", "never", "x.y", "never.z"])
    def f():
        x = 1

    f()
    assert list(data("f()").items()) == [("x", 1), ("never", []), ("x.y", []), ("never.z", [])]


def test_names_stand_in_the_order_they_were_given_in() -> None:
    @ztrace(["b", "a"])
    def f():
        a = 1
        b = 2

    f()
    assert list(data("f()")) == ["b", "a"]


def test_del_leaves_no_entry_and_the_same_value_again_is_no_change() -> None:
    @ztrace(["x", 'd["k"]'])
    def f():
        d = {"k": 1}
        x = 1
        del x
        x = 1
        del x, d["k"]
        x = 1.0
        d["k"] = 1

    f()
    assert json.dumps(data("f()")) == '{"x": [1, 1.0], "d[\\"k\\"]": 1}'


def test_after_del_an_ignored_value_counts_as_the_value_of_before() -> None:
    @ztrace(["average", "x", "y", 'd["k"]', "late"])
    def f(n):
        for _ in range(n):
            average = 0  # ztrace: ignore
            average += 2
            del average
        x = y = 1
        d = {"k": 1}
        z = x  # ztrace: ignore
        if n == 0:
            y = 5  # ztrace: ignore
        del z, x, y, d  # ztrace: ignore
        x = y = 1
        d = {}  # ztrace: ignore
        d = {"k": 1}
        late = [1]  # ztrace: ignore
        del late
        late = [1]

    f(2)
    assert data("f()") == {"average": [2, 2], "x": 1, "y": 1, 'd["k"]': 1, "late": []}


def test_deletions_that_clew_watches_on_the_same_function_leave_no_entry() -> None:
    @clew.watch("x")
    @ztrace(["x"])
    def f():
        x = 1
        del x
        x = 2

    f()
    assert data("f()") == {"x": [1, 2]}


def test_without_names_each_call_has_an_entry_without_values() -> None:
    @ztrace([])
    def f(n):
        return n + 1

    assert f(1) == 2
    assert data("f()") == {}


def test_functions_of_one_name_in_two_files_are_kept_apart(tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 2)):
        path = tmp_path / f"{name}.py"
        path.write_text(f"def f():\n    x = {value}\n")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        ztrace(["x"])(module.f)()
    found = {key: calls[0]["data"]["x"] for key, calls in log().items()}
    assert found == {f"{tmp_path}/one/f()": 1, f"{tmp_path}/two/f()": 2}


def test_one_name_need_not_be_in_a_list() -> None:
    @ztrace("loss")
    def f():
        loss = 0.5

    f()
    assert data("f()") == {"loss": 0.5}


def test_a_call_that_raises_is_in_the_log() -> None:
    @ztrace(["x"])
    def f():
        x = 1
        raise ValueError

    with pytest.raises(ValueError):
        f()
    assert data("f()") == {"x": 1}


def test_a_traced_function_inside_another_leaves_that_one_traced() -> None:
    @ztrace(["x"])
    def inner():
        x = 1

    @ztrace(["y"])
    def outer():
        y = 1
        inner()
        y = 2

    outer()
    assert (data("inner()"), data("outer()")) == ({"x": 1}, {"y": [1, 2]})


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.compat.ztrace.DISABLED", True)

    @ztrace(["x"])
    def f():
        x = 1
        return x

    assert f() == 1
    assert not Path("ztrace_logs").exists()


# ---- where ztrace itself fails, or says less


def test_each_call_of_a_recursion_is_in_the_log() -> None:
    @ztrace(["n"])
    def f(n):
        if n:
            f(n - 1)

    f(2)
    assert [call["data"]["n"] for call in log()["f()"]] == [0, 1, 2]


def test_a_generator_is_in_the_log_when_it_has_ended() -> None:
    @ztrace(["x"])
    def f():
        for x in range(3):
            yield x

    assert list(f()) == [0, 1, 2]
    assert data("f()") == {"x": [0, 1, 2]}


def test_every_statement_of_a_line_counts() -> None:
    @ztrace(["x"])
    def f():
        x = 1; x = 2  # fmt: skip  # noqa: E702

    f()
    assert data("f()") == {"x": [1, 2]}


def test_an_element_that_is_not_there_yet_has_no_entry() -> None:
    @ztrace(["arr[1]"])
    def f():
        arr = []
        arr.append(1)
        arr.append(2)

    f()
    assert data("f()") == {"arr[1]": 2}


def test_a_value_that_cannot_be_copied_does_no_harm() -> None:
    import threading

    @ztrace(["lock", "x"])
    def f():
        lock = threading.Lock()
        x = 1
        return lock

    assert f() is not None
    assert data("f()")["x"] == 1


def test_two_programs_of_one_second_have_a_log_each(monkeypatch: pytest.MonkeyPatch) -> None:
    @ztrace(["x"])
    def f():
        x = 1

    f()
    (first,) = Path("ztrace_logs").glob("*/*.json")
    first.rename(first.with_suffix(".old"))
    monkeypatch.setattr(ztrace_log, "_path", None)
    monkeypatch.setattr(ztrace_log, "datetime", _Frozen)
    f()
    monkeypatch.setattr(ztrace_log, "_path", None)
    f()
    assert sorted(path.name for path in Path("ztrace_logs").glob("20200101/*.json")) == ["000000-2.json", "000000.json"]


class _Frozen:
    @staticmethod
    def now() -> Any:
        from datetime import datetime

        return datetime(2020, 1, 1)


WHERE = "of the module"


def test_a_name_of_the_module_is_traced_too() -> None:
    @ztrace(["WHERE"])
    def f():
        global WHERE
        WHERE = "changed"

    f()
    assert data("f()") == {"WHERE": ["of the module", "changed"]}


def test_of_a_very_long_text_the_length_and_a_part_are_written() -> None:
    found = json.loads(written("ab" * 600_000))
    assert found["summary"] == {"length": 1_200_000}
    assert found["part"].startswith("abab")

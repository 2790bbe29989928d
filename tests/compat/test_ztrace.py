"""Every example of ztrace's document, its import line changed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.compat.ztrace import ztrace
from clew.export import ztracelog


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ztracelog, "_path", None)
    monkeypatch.setattr(ztracelog, "_calls", {})


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

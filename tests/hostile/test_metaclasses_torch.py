"""Values whose classes answer for themselves, as what a traced model is given, holds, binds and gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

import clew

from .test_metaclasses import CONTAINERS, KEYS, OBJECTS


class Layer(torch.nn.Module):
    def forward(self, value: Any) -> Any:
        return value


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()
        self.held: Any = None

    def forward(self, value: Any) -> Any:
        self.held = [value]
        local = self.layer(value)
        return self.passed(local)

    def passed(self, value: Any) -> Any:
        return value


PATHS = ["forward", "forward.local", "forward.local.**", "forward.value", "layer", "layer.input", "layer.*", "passed"]
PATHS += ["held", "held.**", "forward.self.held"]
WAYS: list[dict[str, Any]] = [
    {"store": True},
    {"store": True, "keep": "summary"},
    {"store": True, "keep": "last 2 steps"},
    {"store": False, "repeats": "tensors"},
    {"store": False, "nonfinite": "find", "spike": 10.0},
]


def traced_twice(value: Any, options: dict[str, Any]) -> Any:
    model = Net()
    with clew.run(), clew.ModelTracer(model, PATHS, **options):
        model(value)
        return model(value)


@pytest.mark.parametrize("container", ["alone", "in a dictionary"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_values_that_answer_for_themselves_pass_a_traced_model(kind: str, container: str) -> None:
    value = CONTAINERS[container](OBJECTS[kind])
    for options in WAYS:
        assert traced_twice(value, options) is value


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_keys_of_a_dictionary_at_a_path_may_have_such_a_class(options: dict[str, Any]) -> None:
    value = {KEYS[0](): torch.ones(1)}
    assert traced_twice(value, options) is value


def test_no_code_of_a_key_runs_when_a_dictionary_is_compared() -> None:
    asked = []

    class Key:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return self is other

    model = Net()
    with clew.ModelTracer(model, ["forward"], store=False):
        model({Key(): 1})
        model({Key(): 1})
    assert asked == []


def test_no_code_of_a_list_runs_when_its_items_are_looked_at() -> None:
    class Numbers(list[int]):
        def __iter__(self) -> Any:
            raise ValueError("iter")

    model = Net()
    with clew.ModelTracer(model, ["forward.local.*"], store=False) as tracer:
        model(Numbers([1, 2]))
    assert tracer.results["forward.local.1"].values == [2]


def test_items_of_a_named_tuple_still_have_its_names() -> None:
    class Pair(NamedTuple):
        first: int
        second: int

    model = Net()
    with clew.ModelTracer(model, ["forward.local.*"], store=False) as tracer:
        model(Pair(1, 2))
    assert tracer.results["forward.local.second"].values == [2]

"""What `clew.op` makes of functions, classes, methods and objects."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.errors import GraphError, TargetError
from clew.graph import operators
from clew.graph.operators import made
from graph.comparing import holds, recorded


@clew.op
class Added:
    """Adds."""

    def __init__(self, by: Any) -> None:
        self.by = by

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("nobody asked")

    def __call__(self, x: Any) -> Any:
        return x + self.by

    def size(self) -> Any:
        return self.by

    @staticmethod
    def twice(x: Any) -> Any:
        return x * 2

    @classmethod
    def thrice(cls, x: Any) -> Any:
        return x * 3


@clew.op
class Below(Added):
    def less(self, x: Any) -> Any:
        return x - self.by


class Plain:
    """A class that nobody made an operator of."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, x: Any) -> Any:
        return x + self.by

    def less(self, x: Any) -> Any:
        return x - self.by

    @staticmethod
    def twice(x: Any) -> Any:
        return x * 2

    @classmethod
    def thrice(cls, x: Any) -> Any:
        return x * 3


@clew.op
class Inheriting(Plain):
    pass


@clew.op
class Largest(functools.partial[Any]):
    """Is called by a method of a library's class."""


def test_what_an_operator_class_inherits_is_an_operator_too() -> None:
    five, largest = Inheriting(5), Largest(max, 5)
    graph = holds(lambda x: (five(x), five.less(x), five.twice(x), Inheriting.thrice(x), largest(x)), 1, 10)
    assert [step.kind for step in graph.steps] == ["operator"] * 5
    assert [step.kind for step in clew.record(lambda: five(1)).steps] == ["operator"]


def test_the_class_that_an_operator_class_inherits_from_stays_as_it_is() -> None:
    plain = Plain(5)
    assert not any(operators.is_operator(thing) for thing in (plain, Plain, plain.less, Plain.__call__))


def test_instances_and_public_methods_are_operators() -> None:
    five = Added(5)
    graph = holds(lambda x: (five(x), five.size(), five.twice(x), Added.twice(x), Added.thrice(x)), 1, 10)
    assert {step.kind for step in graph.steps} == {"operator"}
    assert len(graph.steps) == 5


def test_an_operator_class_below_another_has_operators_of_its_own() -> None:
    two = Below(2)
    graph = holds(lambda x: (two(x), two.less(x)), 1, 10)
    assert [step.target.name for step in graph.steps] == ["Added.__call__", "Below.less"]
    assert made(two).cls is Below  # type: ignore[union-attr]


def test_an_object_made_of_a_recorded_value_is_made_again() -> None:
    holds(lambda x: Added(x)(1), 1, 10)


def test_slots_dataclasses_and_classes_with_new_alone_are_operators() -> None:
    @clew.op
    class Slotted:
        __slots__ = ("a",)

        def __init__(self, a: Any) -> None:
            self.a = a

        def __call__(self, x: Any) -> Any:
            return x + self.a

    @clew.op
    @dataclasses.dataclass
    class Data:
        a: int = 3

        def __call__(self, x: Any, *rest: Any, k: Any = 1) -> Any:
            return x + self.a * k + sum(rest)

    @clew.op
    class New:
        x: Any

        def __new__(cls, x: Any) -> Any:
            it = super().__new__(cls)
            it.x = x
            return it

        def more(self, y: Any) -> Any:
            return y + self.x

    slotted, data, new = Slotted(1), Data(), New(4)
    holds(lambda x: (slotted(x), data(x, 1, 2, k=x), new.more(x)), 1, 10)


def test_a_decorated_class_stays_what_it_was() -> None:
    five = Added(5)
    assert isinstance(five, Added)
    assert Added.__doc__ == "Adds."
    assert list(inspect.signature(Added).parameters) == ["by"]
    assert copy.deepcopy(five).by == 5
    assert pickle.loads(pickle.dumps(five)).by == 5


def test_bound_methods_and_partials_are_operators() -> None:
    upper, plus = clew.op("ab".replace), clew.op(functools.partial(lambda a, b: a + b, b=2))
    holds(lambda x: upper("a", x), "q", "z")
    holds(lambda x: plus(x), 1, 5)


def test_an_estimator_is_an_operator_by_its_methods() -> None:
    linear = importlib.import_module("sklearn.linear_model")
    model = clew.op(linear.LinearRegression().fit(np.arange(6.0).reshape(3, 2), [1, 2, 3]))
    graph = holds(lambda x: model.predict(x).mean(), np.ones((2, 2)), np.zeros((3, 2)))
    assert graph.steps[0].target.name == "LinearRegression.predict"


def test_two_operators_of_one_name_are_two() -> None:
    one, two = clew.op(lambda x: x + 1, name="same"), clew.op(lambda x: x + 2, name="same")
    holds(lambda x: (one(x), two(x)), 1, 10)


def test_operators_inside_operators_are_no_steps() -> None:
    inner = clew.op(lambda x: x * 2)
    outer = clew.op(lambda x: inner(x) + 1)
    assert len(recorded(lambda x: outer(x), 1).steps) == 1


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TargetError, match="cannot be called"):
        clew.op(5)


@clew.op
def doubled(x: Any) -> Any:
    return x * 2


def test_an_operator_is_pickled_and_copied_like_the_function_it_is_made_of() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled
    bound = clew.op(Added(5).__call__)
    assert pickle.loads(pickle.dumps(bound))(1) == 6


def test_an_operator_made_again_with_options_has_them() -> None:
    again = clew.op(doubled, name="twice", side_effects=True)
    assert (again.name, again.side_effects, again(2)) == ("twice", True, 4)
    assert (doubled.name, doubled.side_effects) == ("doubled", False)
    assert clew.op(doubled) is doubled


def test_an_operator_class_without_a_constructor_takes_no_arguments() -> None:
    @clew.op
    class Empty:
        pass

    with pytest.raises(TypeError, match=r"Empty\(\) takes no arguments"):
        Empty(1)


# ---- what fails in clew outside a recording


def _cyclic() -> list[Any]:
    """A list that holds itself: whoever looks into it to the end fails."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    return cyclic


@pytest.mark.usefixtures("no_garbage")
def test_an_object_is_made_also_when_its_making_cannot_be_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    given = _cyclic()
    assert Below(given).by is given


def test_an_object_whose_making_could_not_be_noted_is_not_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    with monkeypatch.context() as failing:
        failing.setattr(operators, "copied", lambda value: 1 / 0)
        below = Below(5)
    graph = recorded(lambda x: below(x), 1)
    with pytest.raises(GraphError, match="how it was made") as caught:
        graph.save(tmp_path / "bundle")
    assert caught.value.slug == "bundle-cannot-save"


@pytest.mark.usefixtures("no_garbage")
def test_a_class_above_does_not_note_what_the_class_below_could_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")

    @clew.op
    class Doubled(Added):
        def __init__(self, lists: Any) -> None:
            super().__init__(len(lists) * 2)

    doubled = Doubled(_cyclic())
    assert doubled.by == 2
    assert made(doubled) is operators.UNKNOWN


@pytest.mark.usefixtures("no_garbage")
def test_a_constructor_that_fails_does_so_with_its_own_error_also_when_noting_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    calls = []

    @clew.op
    class Failing:
        def __init__(self, given: Any) -> None:
            calls.append(given)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        Failing(_cyclic())
    assert len(calls) == 1
    assert caught.traceback[-1].name == "__init__"
    assert caught.value.__context__ is None

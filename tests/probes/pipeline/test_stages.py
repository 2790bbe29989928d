"""`clew.stage`: what can be a stage, what is captured of it, and that nothing is there when nobody traces."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

import clew
from clew.errors import OptionError, TargetError
from clew.instrument.code_swap import Swap


@clew.stage("module level", result="doubled")
def double(x: float) -> float:
    return x * 2


def test_a_function_is_the_same_function_and_its_code_the_same_code_unless_a_trace_is_open() -> None:
    def plain(x: int, *, y: int = 2) -> int:
        """What it says."""
        return x + y

    code, signature = plain.__code__, inspect.signature(plain)
    staged = clew.stage("add")(plain)
    assert staged is plain
    assert plain.__code__ is code
    with clew.items(1) as trace:
        assert plain(1) == 3
    assert plain.__code__ is code
    assert inspect.signature(plain) == signature
    assert trace.add[0].inputs == {"x": 1, "y": 2}
    assert trace.add[0].outputs == {"result": 3}
    assert not Swap._all


def test_a_decorated_function_pickles_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(double)) is double


class Methods:
    @clew.stage("instance")
    def instance(self, x: int) -> int:
        return x + 1

    @clew.stage("static over")
    @staticmethod
    def static_over(x: int) -> int:
        return x + 2

    @staticmethod
    @clew.stage("static under")
    def static_under(x: int) -> int:
        return x + 3

    @clew.stage("class over")
    @classmethod
    def class_over(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x

    @classmethod
    @clew.stage("class under")
    def class_under(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x


@pytest.mark.parametrize("name", ["instance", "static_over", "static_under", "class_over", "class_under"])
def test_methods_of_every_kind_are_stages_and_their_receiver_is_no_argument(name: str) -> None:
    expected = getattr(Methods(), name)(5)
    with clew.items(1) as trace:
        assert getattr(Methods(), name)(5) == expected
    (call,) = trace[name.replace("_", " ")]
    assert call.function == f"Methods.{name}"
    assert call.inputs == {"x": 5}
    assert call["result"] == expected


def test_a_subclass_that_inherits_a_stage_passes_it() -> None:
    class Child(Methods):
        pass

    with clew.items(1) as trace:
        Child().instance(1)
    assert len(trace.instance) == 1


def test_super_and_closures_work_inside_a_stage() -> None:
    class Base:
        def value(self) -> int:
            return 1

    offset = 10

    class Derived(Base):
        @clew.stage("value")
        def value(self) -> int:
            return super().value() + offset

    with clew.items(1) as trace:
        assert Derived().value() == 11
    assert trace.value[0].result == 11


def test_an_async_function_is_still_one_and_its_result_is_what_it_waited_for() -> None:
    @clew.stage("fetch", result="page")
    async def fetch(n: int) -> int:
        await asyncio.sleep(0)
        return n * 10

    async def main() -> list[int]:
        return list(await asyncio.gather(fetch(1), fetch(2)))

    with clew.items(2) as trace:
        assert inspect.iscoroutinefunction(fetch)
        assert asyncio.run(main()) == [10, 20]
    assert [(call.n, call.page) for call in trace.fetch] == [(1, 10), (2, 20)]


def test_an_async_generator_gives_its_items_to_the_trace() -> None:
    @clew.stage("stream", result="event")
    async def stream(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    async def main() -> list[int]:
        return [event async for event in stream(5)]

    with clew.items(3) as trace:
        assert asyncio.run(main()) == [0, 1, 2]
    assert [call.event for call in trace.stream] == [0, 1, 2]


def test_params_are_chosen_by_name_position_and_under_another_name() -> None:
    @clew.stage("a", params=["size"])
    def by_name(image: object, size: int) -> None: ...

    @clew.stage("b", params=[1])
    def by_position(image: object, size: int) -> None: ...

    @clew.stage("c", params={"picture": 0, "pixels": "size"})
    def renamed(image: object, size: int) -> None: ...

    @clew.stage("d", params="extra")
    def by_keyword(image: object, **options: object) -> None: ...

    with clew.items(1) as trace:
        by_name("i", 3)
        by_position("i", size=3)
        renamed("i", size=3)
        by_keyword("i", extra=4, other=5)
    assert [call.inputs for call in trace.calls] == [
        {"size": 3},
        {"size": 3},
        {"picture": "i", "pixels": 3},
        {"extra": 4},
    ]


def test_all_arguments_are_captured_by_name_if_none_is_chosen() -> None:
    @clew.stage("a")
    def f(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> None: ...

    with clew.items(1) as trace:
        f(1, 2, 7, 8, d=4)
    assert trace.a[0].inputs == {"a": 1, "b": 2, "rest": (7, 8), "c": 3, "d": 4}


def test_a_tuple_that_is_given_can_have_a_name_for_each_of_its_items() -> None:
    @clew.stage("load", result=("image", "label"))
    def load(i: int) -> tuple[int, int]:
        return i, i * i

    with clew.items(1) as trace:
        load(3)
    assert (trace.load[0].image, trace.load[0].label) == (3, 9)


def test_a_parameter_called_result_does_not_hide_what_the_function_gives() -> None:
    @clew.stage("a")
    def f(result: int) -> int:
        return result + 1

    with clew.items(1) as trace:
        f(1)
    assert (trace.a[0].result, trace.a[0].returned) == (1, 2)


def test_values_are_copies_of_what_they_were_at_that_moment() -> None:
    @clew.stage("clear")
    def clear(row: Any) -> Any:
        row[:] = 0
        return row

    row = np.ones(3)
    with clew.items(1) as trace:
        clear(row)
    row[:] = 7
    assert trace.clear[0].row.tolist() == [1, 1, 1]
    assert trace.clear[0].result.tolist() == [0, 0, 0]


def test_an_exception_passes_and_is_written_at_its_stage() -> None:
    @clew.stage("fail")
    def fail(x: int) -> int:
        raise ValueError("no such row")

    with pytest.raises(ValueError, match="no such row") as caught, clew.items(1) as trace:
        fail(3)
    assert trace.fail[0].error == "ValueError: no such row"
    assert trace.error == "ValueError: no such row"
    assert any("clew.open(" in note for note in caught.value.__notes__)
    with pytest.raises(AttributeError, match="It raised ValueError"):
        _ = trace.fail[0].result


def test_a_call_that_cannot_be_made_raises_what_it_would_have_raised() -> None:
    @clew.stage("a")
    def f(x: int) -> int:
        return x

    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'x'"), clew.items(1):
        f()  # type: ignore[call-arg]


def test_built_in_functions_and_callable_objects_are_stages_too() -> None:
    class Adder:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, x: int) -> int:
            return x + self.n

    length, add = clew.stage("len")(len), clew.stage("add")(Adder(2))
    with clew.items(1) as trace:
        assert (length([1, 2]), add(1)) == (2, 3)
    assert (length([1]), add(2)) == (1, 4)
    assert (trace["len"][0].result, trace.add[0].x, trace.add[0].result) == (2, 1, 3)


def test_a_class_whose_objects_are_called_is_a_stage() -> None:
    @clew.stage("scale")
    class Scale:
        def __call__(self, x: int) -> int:
            return x * 3

    with clew.items(1) as trace:
        assert Scale()(2) == 6
    assert trace.scale[0].function == "Scale.__call__"


# ---- code one cannot edit


class Theirs:
    def load(self, index: int) -> int:
        return index * 2

    @staticmethod
    def parse(text: str) -> str:
        return text.upper()


def test_a_method_of_a_class_is_instrumented_from_outside() -> None:
    clew.stage.instrument(Theirs, "load", stage="load one", params=["index"], result="row")
    before = Theirs.__dict__["load"]
    with clew.items(1) as trace:
        Theirs().load(4)
    assert Theirs.__dict__["load"] is before
    (call,) = trace["load one"]
    assert (call.function, call.index, call.row) == ("Theirs.load", 4, 8)


def test_only_the_object_that_was_named_is_instrumented() -> None:
    class Loader:
        def load(self, i: int) -> int:
            return i

    one, other = Loader(), Loader()
    clew.stage.instrument(one, "load", stage="one")
    with clew.items(3) as trace:
        other.load(1)
        one.load(2)
    assert [call.i for call in trace.one] == [2]
    assert vars(one) == {}


def test_an_inherited_method_is_instrumented_for_the_class_that_was_named() -> None:
    class Own(Theirs):
        pass

    clew.stage.instrument(Own, "load", stage="own")
    with clew.items(2) as trace:
        for index in range(3):
            Theirs().load(index)
            Own().load(10 + index)
    assert [call.inputs["index"] for call in trace.own] == [10, 11]


def test_one_object_comes_before_its_class() -> None:
    one = Theirs()
    clew.stage.instrument(one, "load", stage="one")
    clew.stage.instrument(Theirs, "load", stage="others")
    with clew.items(1, auto=False) as trace:
        one.load(1)
        Theirs().load(2)
    assert [(call.stage, call.inputs["index"]) for call in trace.calls] == [("one", 1), ("others", 2)]


def test_a_function_of_a_module_is_instrumented() -> None:
    import json

    clew.stage.instrument(json, "loads", stage="parse", params={"text": 0})
    with clew.items(1) as trace:
        json.loads("[1]")
    assert (trace.parse[0].text, trace.parse[0].result) == ("[1]", [1])


# ---- bad input


def test_what_cannot_be_called_is_no_stage() -> None:
    with pytest.raises(TargetError, match=r"clew.stage\('a'\) was put on a int, which cannot be called"):
        clew.stage("a")(3)
    with pytest.raises(TargetError, match="the class Plain, whose objects cannot be called"):

        @clew.stage("a")
        class Plain:
            pass


def test_a_stage_has_a_name() -> None:
    with pytest.raises(OptionError, match=r'Write @clew.stage\("clean"\)'):

        @clew.stage  # type: ignore[arg-type]
        def f() -> None: ...


def test_a_parameter_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(OptionError, match=r"has no parameter 'rwo'. It has: row, size"):

        @clew.stage("a", params=["rwo"])
        def f(row: int, size: int) -> None: ...


def test_a_position_counts_without_self_and_must_be_there() -> None:
    with pytest.raises(OptionError, match=r"has no parameter 1\. It has: x"):

        class A:
            @clew.stage("a", params=[1])
            def f(self, x: int) -> None: ...


@pytest.mark.parametrize("options", [{"params": 2.5}, {"params": object()}, {"result": 5}, {"result": ("a", 5)}])
def test_an_option_of_a_wrong_type_is_named(options: Any) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(options))}="):
        clew.stage("scale", **options)(lambda a: a)


def test_a_single_position_need_not_be_a_list() -> None:
    @clew.stage("scale", params=1)
    def scale(value: int, by: int) -> int:
        return value * by

    with clew.items(1) as trace:
        scale(2, 3)
    assert trace.scale[0].inputs == {"by": 3}


def test_a_result_has_no_name_of_a_parameter() -> None:
    with pytest.raises(OptionError, match="is also the name of something the stage is given"):

        @clew.stage("a", result="row")
        def f(row: int) -> int:
            return row


def test_a_method_that_is_not_there_is_an_error_with_the_nearest() -> None:
    with pytest.raises(TargetError, match=r"Theirs has no `laod`; did you mean `load`"):
        clew.stage.instrument(Theirs, "laod", stage="a")


def test_what_is_written_in_c_cannot_be_instrumented_and_says_so() -> None:
    with pytest.raises(TargetError, match="not a Python function"):
        clew.stage.instrument(dict, "get", stage="a")


# ---- generators


@clew.stage("read", result="row")
def read(n: int) -> Iterator[dict[str, int]]:
    for i in range(n):
        yield {"i": i}


def test_each_thing_a_generator_gives_passes_the_stage() -> None:
    with clew.items(3) as trace:
        assert inspect.isgeneratorfunction(read)
        rows = list(read(100))
    assert rows == [{"i": 0}, {"i": 1}, {"i": 2}]
    assert [(call.n, call.row, call.ids) for call in trace.read] == [(100, row, (row["i"],)) for row in rows]


def test_a_generator_keeps_what_is_sent_thrown_and_returned() -> None:
    seen: list[object] = []

    @clew.stage("talk")
    def talk() -> Iterator[Any]:
        try:
            seen.append((yield 1))
        except KeyError:
            seen.append("caught")
        yield 2
        return "the end"

    with clew.items(9):
        conversation: Any = talk()
        assert next(conversation) == 1
        assert conversation.throw(KeyError()) == 2
        with pytest.raises(StopIteration) as stopped:
            conversation.send("x")
    assert stopped.value.value == "the end"
    assert seen == ["caught"]


def test_closing_a_generator_runs_its_finally() -> None:
    closed: list[bool] = []

    @clew.stage("open")
    def opened() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append(True)

    with clew.items(5):
        generator: Any = opened()
        next(generator)
        generator.close()
    assert closed == [True]


def test_a_generator_that_is_still_going_when_the_trace_ends_goes_on() -> None:
    with clew.items(50) as trace:
        rows = read(4)
        next(rows)
    assert list(rows) == [{"i": 1}, {"i": 2}, {"i": 3}]
    assert len(trace.read) == 1

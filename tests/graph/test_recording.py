"""What a pipeline does with its values is in its graph, and done again for other values."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import re
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.errors import GraphError, GuardError
from clew.graph.recording.session import ConstantWarning
from graph.comparing import holds, recorded, refuses, same

WORDS = {"a": 1, "b": 2}
GROUPS = {"a": [1], "b": [2, 3]}
LOG: list[Any] = []


@clew.op
def square(x: Any) -> Any:
    return x * x


@clew.op
def itself(x: Any) -> Any:
    return x


@clew.op
def boxed(x: Any) -> Any:
    return [x]


@clew.op
def add_one(xs: list[Any]) -> int:
    xs.append(1)
    return len(xs)


@clew.op
def drop_negative(xs: list[Any]) -> int:
    if xs and xs[0] < 0:
        del xs[0]
    return len(xs)


@clew.op
def count_up(n: int) -> Any:
    yield from range(n)


def test_arithmetic_indexing_slices_and_unpacking_are_done_again() -> None:
    def pipeline(xs: Any) -> Any:
        first, *rest = xs
        return -first + 2 ** rest[0], xs[1:], xs[::-1], "abcdef"[: xs[0]], divmod(rest[-1], 3), abs(first), first // 2

    holds(pipeline, [3, 1, 2], [4, 5, 6])


def test_texts_are_formatted_again() -> None:
    def pipeline(x: Any) -> Any:
        text = "<%s>"
        text %= x
        return f"{x!r:>6}|{x:{x}d}", "%d %s" % (x, x), "{} {a}".format(x, a=x), str(x), repr([x]), text

    holds(pipeline, 3, 4)


def test_containers_of_every_kind_are_made_again() -> None:
    def pipeline(x: Any) -> Any:
        queue = collections.deque([x, 1], maxlen=3)
        queue.append(x + 1)
        by_name = collections.defaultdict(list)
        by_name["a"].append(x)
        return (
            [x, 1],
            (x,),
            {"k": x},
            {x, 7},
            {str(x): 1},
            {i * x for i in range(3)},
            queue,
            itself(by_name),
            {**{"z": x}},
        )

    holds(pipeline, 3, 4)


def test_python_s_functions_over_values_are_done_again() -> None:
    def pipeline(xs: Any) -> Any:
        nearest = xs[0]
        return (
            sorted(xs, key=lambda v: -v),
            [i * v for i, v in enumerate(xs)],
            list(zip(xs, reversed(xs), strict=True)),
            sum(v for v in xs),
            any(v > 2 for v in xs),
            max(xs, key=lambda v: -v),
            list(map(str, xs)),
            ",".join(str(v) for v in xs),
            functools.reduce(lambda a, b: a + b * nearest, xs),
        )

    holds(pipeline, [3, 1, 2], [3, 2, 1])


def test_identity_is_asked_of_the_values_themselves() -> None:
    def pipeline(x: Any) -> Any:
        return x is None, x is not None, type(x) is int, type(x).__name__, x is True

    holds(pipeline, None, 5, True, 1.0)


def test_an_equal_constant_is_not_taken_for_a_value_nor_a_value_for_a_constant() -> None:
    def pipeline(x: Any) -> Any:
        five, text = 5, "a"
        return x, five, itself(None), None, itself("a"), text, itself(True), True, itself(5), x == five

    graph = holds(pipeline, 5, 6, True, "a", None)
    assert graph(6)[1] == 5


def test_a_list_that_an_operator_changes_goes_on_changed() -> None:
    def pipeline(x: Any) -> Any:
        xs, plain = [x, 5], [1, 2]
        add_one(xs)
        return xs, add_one(plain), plain

    holds(pipeline, 3, 4)


def test_an_operator_that_changes_only_some_values_is_kept_for_all() -> None:
    def pipeline(xs: Any) -> Any:
        drop_negative(xs)
        return xs

    holds(pipeline, [1, 2], [-1, 2], [-1])


def test_a_change_of_a_part_is_a_change_of_the_whole() -> None:
    def pipeline(d: Any) -> Any:
        d["b"].append(7)
        return d

    holds(pipeline, {"b": [1]}, {"b": []})


def test_a_constant_is_as_it_was_when_it_was_used() -> None:
    def pipeline(key: Any) -> Any:
        table = {"a": 1, "b": 2}
        before = table[key]
        table["a"], table["b"] = 5, 6
        return before, table[key], WORDS.get(key, -1), key in WORDS

    holds(pipeline, "a", "b")


def test_a_container_that_a_step_keeps_may_not_be_changed_afterwards() -> None:
    def pipeline(x: Any) -> Any:
        own = [x]
        box = boxed(own)
        own.append(9)
        return box

    with pytest.raises(GraphError, match="kept by this step"):
        recorded(pipeline, 1)


def test_a_container_that_a_step_gives_back_may_be_changed_if_the_pipeline_has_let_go_of_it() -> None:
    def pipeline(x: Any) -> Any:
        constant, own = itself([1, 2]), itself([x, [x]])
        constant.append(x)
        own.append(3)
        own[1].append(4)
        return constant, own

    holds(pipeline, 1, 5)


def test_an_operator_that_returns_its_argument_is_followed() -> None:
    def pipeline(xs: Any) -> Any:
        again = itself(xs)
        again.append(1)
        return xs, again is xs

    holds(pipeline, [1], [2, 3])


def test_a_change_of_an_input_is_done_again_for_the_caller() -> None:
    def pipeline(xs: Any) -> int:
        xs.append(1)
        return 5

    given = [3]
    recorded(pipeline, [])(given)
    assert given == [3, 1]


def test_iterators_are_drawn_from_one_by_one() -> None:
    def pipeline(n: Any) -> Any:
        numbers = count_up(n)
        return next(numbers), next(numbers, None), list(numbers), next(numbers, "over")

    holds(pipeline, 3, 4)


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2

    def sum(self) -> int:
        return self.x + self.y

    @property
    def ten(self) -> int:
        return self.x * 10


def test_objects_of_the_user_s_classes_pass_through() -> None:
    def pipeline(x: Any) -> Any:
        point, other = Point(x), Point(1)
        point.y, other.x = x + 1, x
        return point, point.sum(), point.ten, other.sum(), point == Point(x, x + 1), itself(point)

    holds(pipeline, 3, 4)


def test_an_object_that_hides_a_value_is_refused() -> None:
    def pipeline(x: Any) -> Any:
        point = Point(1)
        point.x = x
        return itself(point)

    with pytest.raises(GraphError, match="holds recorded values"):
        recorded(pipeline, 3)


def test_arrays_are_filled_masked_and_changed_again() -> None:
    def pipeline(x: Any) -> Any:
        out = np.zeros(4)
        out[0], out[1:] = x[0], x[1:] * 2
        out += 1
        np.add(out, x, out=out)
        x[x < 0] = 0
        view = x[:]
        np.maximum(view, 1, out=view)
        return out, x, np.where(x > 1, x, -x), np.stack([x, out]), x.mean(), x.shape, x.dtype, np.array([x[0], 1.0])

    holds(pipeline, np.arange(4.0), np.array([-1.0, 2, -3, 4]))


def test_random_numbers_are_drawn_again() -> None:
    def pipeline(x: Any) -> Any:
        np.random.seed(3)
        np.random.rand(2)
        generator = np.random.default_rng(0)
        generator.normal()
        return x + np.random.rand(3), generator.normal(size=2)

    holds(pipeline, np.ones(3), np.zeros(3))


def test_a_library_s_context_is_entered_again_and_left_when_a_step_fails() -> None:
    def pipeline(x: Any) -> Any:
        with np.errstate(divide="raise"):
            return 1 / x

    graph = holds(pipeline, np.ones(2), np.full(2, 2.0))
    before = np.geterr()
    with pytest.raises(FloatingPointError):
        graph(np.zeros(2))
    assert np.geterr() == before


def test_a_pool_of_the_pipeline_s_own_is_recorded() -> None:
    def pipeline(x: Any) -> Any:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return pool.submit(square, x).result(), list(pool.map(square, [x, x + 1]))

    holds(pipeline, 2, 3)


def test_a_thread_of_the_pipeline_s_own_is_recorded() -> None:
    def pipeline(x: Any) -> Any:
        found: dict[str, Any] = {}

        def work() -> None:
            found["a"] = square(x) + 1

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found

    holds(pipeline, 2, 3)


def test_threads_record_at_the_same_time_without_mixing() -> None:
    wrong: list[Any] = []

    def many(number: int) -> None:
        for example in range(20):
            graph = clew.record(lambda x: square(x) + number, example)
            if graph(x=7) != 49 + number or len(graph.steps) != 2:
                wrong.append(number)

    threads = [threading.Thread(target=many, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_operator_may_record_a_graph_of_its_own() -> None:
    @clew.op
    def inside(x: Any) -> Any:
        return clew.record(lambda y: square(y), x)(y=x)

    graph = holds(lambda x: inside(x) + 1, 3, 5)
    assert len(graph.steps) == 2


def test_methods_partials_and_lambdas_are_pipelines() -> None:
    class Scaled:
        k = 3

        def run(self, x: Any) -> Any:
            return square(x) * self.k if x is not None else 0

    holds(Scaled().run, 1, 4)
    holds(functools.partial(lambda a, b: a + b, b=2), 1, 4)


def test_a_function_without_source_is_recorded_by_its_values() -> None:
    scope: dict[str, Any] = {"square": square}
    exec("def pipeline(x):\n    return square(x) + 1 if x > 3 else f'{x}'", scope)
    holds(scope["pipeline"], 5, 6)
    refuses(recorded(scope["pipeline"], 5), 1)
    refuses(recorded(scope["pipeline"], 1), 2)


def test_a_function_without_source_that_asks_is_is_refused() -> None:
    scope: dict[str, Any] = {}
    exec("def pipeline(x):\n    return 'none' if x is None else x", scope)
    with pytest.raises(GraphError, match="source is not known"):
        recorded(scope["pipeline"], 5)


@pytest.mark.parametrize("line", ["total.put(x); return total.kept", "mine = Total(); mine.put(x); return mine.kept"])
def test_a_function_without_source_that_reads_of_objects_is_refused(line: str) -> None:
    class Total:
        kept = 0

        def put(self, x: Any) -> None:
            self.kept = x

    scope: dict[str, Any] = {"Total": clew.op(Total), "total": Total()}
    exec(f"def pipeline(x):\n    {line}", scope)
    with pytest.raises(GraphError, match="source is not known"):
        recorded(scope["pipeline"], 5)
    exec("def pipeline(x):\n    total.put(x); return x + 1", scope)
    assert recorded(scope["pipeline"], 5)(6) == 7


def test_what_the_pipeline_changes_outside_itself_is_said_and_left_plain() -> None:
    def pipeline(x: Any) -> Any:
        LOG.append(x)
        return square(x)

    LOG.clear()
    with pytest.warns(ConstantWarning, match="changed LOG"):
        recorded(pipeline, 3)
    assert type(LOG[0]) is int


@clew.op
def remembered(x: Any) -> Any:
    LOG.append(x)
    del LOG[:-1]
    return x


def test_what_an_operator_changes_and_the_pipeline_reads_is_said() -> None:
    def pipeline(x: Any) -> Any:
        remembered(x)
        return LOG[0]

    pipeline(3)  # as it will be: the values tell nothing
    with pytest.warns(ConstantWarning, match="an operator changes LOG"):
        recorded(pipeline, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorded(lambda x: remembered(x), 3)


class Settings:
    limit = 1


class Outer:
    def __init__(self) -> None:
        self.inner = Settings()


OUTER = Outer()
STAGES = [Outer(), (Outer(),)]


def test_what_the_pipeline_changes_in_objects_of_a_list_is_said() -> None:
    def pipeline(x: Any) -> Any:
        STAGES[1][0].inner.limit += 1  # type: ignore[index]
        return x, STAGES[1][0].inner.limit  # type: ignore[index]

    with pytest.warns(ConstantWarning, match="the pipeline changed STAGES"):
        recorded(pipeline, 3)


@pytest.mark.parametrize("name", ["Settings.limit", "OUTER"])
def test_what_the_pipeline_changes_in_classes_and_deep_in_objects_is_said(name: str) -> None:
    def of_class(x: Any) -> Any:
        Settings.limit = x
        return Settings.limit + 1

    def deep(x: Any) -> Any:
        OUTER.inner.limit = x
        return OUTER.inner.limit + 1

    pipeline, holder = (of_class, Settings) if name == "Settings.limit" else (deep, OUTER.inner)
    with pytest.warns(ConstantWarning, match=rf"comparing.py:\d+: the pipeline changed {name} while it was recorded"):
        graph = recorded(pipeline, 3)
    assert type(holder.limit) is int
    assert graph(5) == 6


def test_a_generator_of_the_pipeline_s_own_is_sent_values() -> None:
    def echo(x: Any) -> Any:
        got = yield x
        yield got * 2

    def pipeline(x: Any) -> Any:
        it = echo(x)
        first = next(it)
        return first, it.send(first + 1)

    holds(pipeline, 1, 4)


def test_a_library_that_wants_plain_values_of_a_function_of_the_pipeline_is_refused() -> None:
    def pipeline(s: Any) -> Any:
        seen: list[Any] = []
        return re.sub("a", lambda m: (seen.append(s), s)[1], "banana"), seen

    with pytest.raises(
        GraphError, match=r"test_recording.py:\d+: sub\(\) calls a function that goes by recorded values"
    ):
        recorded(pipeline, "x")


def test_values_of_a_rest_are_given_one_by_one_or_by_name(tmp_path: Path) -> None:
    def pipeline(first: Any, *rest: Any, by: Any = 1) -> Any:
        return [first, *(square(one) for one in rest), by]

    graph = clew.record(pipeline, 1, 2, 3, by=2)
    graph.save(tmp_path / "bundle")
    for one in (graph, clew.load(tmp_path / "bundle", trusted=True)):
        assert one(5, 6, 7, by=0) == one(first=5, rest=(6, 7), by=0) == pipeline(5, 6, 7, by=0)
        with pytest.raises(GuardError):
            one(5, 6, 7, 8, by=1)


def test_an_exception_of_the_user_s_own_is_made_by_its_own_constructor() -> None:
    class Invalid(Exception):
        def __init__(self, field: str, reason: str) -> None:
            super().__init__(f"{field}: {reason}")
            self.field = field

    def pipeline(text: Any) -> Any:
        try:
            if len(text) > 2:
                raise Invalid("text", text)
        except Invalid as error:
            return error.field, str(error), f"<{error}>"
        return text

    graph = clew.record(pipeline, ["abc", "a"])
    for text in ("abc", "wxyz", "", "b"):
        assert graph(text) == pipeline(text)


def test_a_method_of_a_type_is_called_with_a_container_of_the_pipeline_s_own() -> None:
    def pipeline(x: Any) -> Any:
        numbers = [1]
        list.append(numbers, x)
        return numbers, str.join("-", ["a", x])

    holds(pipeline, "b", "c")


def test_a_dictionary_that_is_spread_may_have_any_keys() -> None:
    def pipeline(row: Any) -> Any:
        defaults = {"a": 0, "q": 5}
        out = {**defaults, "z": 1, **row, "score": row["a"] * 2}
        out["more"] = out["q"]
        return out, list({**row})

    holds(pipeline, {"a": 1}, {"a": 5, "q": 3}, {"q": 2, "a": 4}, {"z": 0, "b": 1, "a": 4})


def test_what_is_no_mapping_is_not_spread() -> None:
    def pipeline(row: Any) -> Any:
        try:
            return {**row["a"]}
        except TypeError as error:
            return str(error)

    holds(pipeline, {"a": 1}, {"a": 2})


def test_unused_results_are_left_out_and_marked_effects_are_kept() -> None:
    seen: list[Any] = []

    @clew.op(side_effects=True)
    def tell(x: Any) -> None:
        seen.append(x)

    def pipeline(x: Any) -> Any:
        square(x)
        tell(x)
        return x + 1

    graph = recorded(pipeline, 1)
    graph(5)
    assert [step.kind for step in graph.steps] == ["operator", "python"]
    assert seen == [1, 5]


def test_a_lambda_in_the_graph_is_the_user_s_own() -> None:
    graph = recorded(lambda xs: sorted(xs, key=lambda v: -v), [1, 2])
    key = graph.steps[0].kwargs["key"].value  # type: ignore[union-attr]
    assert not any("hooks" in str(const) for const in key.__code__.co_consts)
    assert same(graph([1, 3]), [3, 1])

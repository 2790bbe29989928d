"""A loop whose length depends on an input is one step of the graph, which holds for all lengths."""

from __future__ import annotations

import collections
import contextlib
import functools
import heapq
import importlib
import itertools
import queue
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import GraphError
from graph.comparing import holds, recorded, refuses

LENGTHS: list[list[int]] = [[], [5], [4, 4, 1, 0, 9, 2], list(range(12)), [2, 2, 2, 7]]
SEEN: list[Any] = []


@clew.op
def double(x: Any) -> Any:
    return x + x


@clew.op
class Bag:
    def __init__(self) -> None:
        self.items: list[Any] = []

    def add(self, x: Any) -> None:
        self.items.append(x)

    def reset(self) -> None:
        self.items = []


@clew.op(side_effects=True)
def tell(x: Any) -> None:
    SEEN.append(x)


bag = Bag()


def clipped(v: int, most: int = 3) -> int:
    return v if v < most else most


def windows(xs: Any, width: int) -> Iterator[Any]:
    for start in range(len(xs) - width + 1):
        yield xs[start : start + width]


class Scaler:
    def __init__(self, factor: int) -> None:
        self.__factor = factor
        self.calls = 0

    def scaled(self, x: Any) -> Any:
        return x * self.__factor

    def counted(self, x: Any) -> Any:
        self.calls += 1
        return x

    def __call__(self, xs: Any) -> Any:
        return [self.__factor + self.scaled(x) for x in xs]

    def pairs(self, xs: Any) -> Any:
        for x in xs:
            yield x, self.scaled(x)


scaler = Scaler(3)


def by_list_comprehension(xs: Any) -> Any:
    return [double(x) for x in xs]


def by_condition(xs: Any) -> Any:
    return [x for x in xs if clipped(x) < 3], [i for i in (1, 2, 30) if i > len(xs)]


def by_set_and_dictionary(xs: Any) -> Any:
    return {x % 3 for x in xs}, {str(x): double(x) for x in xs}


def by_nested_comprehension(xs: Any) -> Any:
    return [[x * y for y in xs] for x in xs], [x + y for x in (1, 2) for y in xs]


def by_generator(xs: Any) -> Any:
    return sum(clipped(x) for x in xs), max((x for x in xs), default=None), ",".join(str(x) for x in xs)


def by_generator_that_ends_early(xs: Any) -> Any:
    return any(12 / (x - 9) < 0 for x in xs), next((x for x in xs if x > 3), None)


def by_map_and_filter(xs: Any) -> Any:
    return list(map(clipped, xs)), list(filter(lambda x: x > len(xs), xs)), sum(map(double, xs))


def by_zip(xs: Any) -> Any:
    return dict(zip(xs, xs[2:], strict=False)), [a - b for a, b in zip(xs, reversed(xs), strict=True)]


def by_enumerate(xs: Any) -> Any:
    return [i * x for i, x in enumerate(xs, start=1)], list(enumerate(xs))


def by_key(xs: Any) -> Any:
    counts = {x: xs.count(x) for x in xs}
    return sorted(counts, key=lambda x: (-counts[x], x))


def by_itertools(xs: Any) -> Any:
    return [a - b for a, b in itertools.pairwise(xs)], functools.reduce(lambda a, b: a * len(xs) + b, xs, 0)


def by_generator_function(xs: Any) -> Any:
    return [sum(w) for w in windows(xs, 2)], list(windows(xs, 3)), [p for p in scaler.pairs(xs)]


def by_inner_function(xs: Any) -> Any:
    def near(x: Any) -> Any:
        return [x + y for y in xs]

    def nearest(x: Any) -> Any:
        return min(near(x))

    def each() -> Any:
        for x in xs:
            yield nearest(x)

    return [nearest(x) for x in xs], list(each())


def by_method(xs: Any) -> Any:
    return scaler(xs)


def appending(xs: Any) -> Any:
    out = []
    for x in xs:
        out.append(double(x))
    out.append(-1)
    return out, len(out)


def grouping(xs: Any) -> Any:
    groups: Any = {}
    tally: Any = collections.Counter()
    rest: Any = collections.deque(maxlen=2)
    lists: Any = collections.defaultdict(list)
    for x in xs:
        groups.setdefault(x % 2, []).append(x)
        tally[x] += 1
        rest.append(x)
        lists[x % 3].append(x)
    return groups, dict(tally), list(rest), dict(lists)


def changing_a_nested_list(xs: Any) -> Any:
    rows: list[list[int]] = [[], []]
    for x in xs:
        rows[x % 2].append(x)
    return rows


def changing_the_input(xs: Any) -> Any:
    for i, x in enumerate(xs):
        xs[i] = x + 1
    return xs


def breaking(xs: Any) -> Any:
    total = 0
    for i, x in enumerate(xs):
        if x == 0:
            break
        if x == 5:
            continue
        total += x
    else:
        i = -1
    return total, i


def returning(xs: Any) -> Any:
    for x in xs:
        if x > 4:
            return "large", x
    rest = [x for x in xs if x != 2]
    rest.append(1)
    return "small", rest


def returning_from_a_block(xs: Any) -> Any:
    if SEEN is not None:
        with contextlib.nullcontext():
            for x in xs:
                if x > 4:
                    return x
    return sum(xs)


def nested(xs: Any) -> Any:
    count = 0
    for x in xs:
        for y in xs:
            if y == 2 * x:
                count += 1
                break
        else:
            count += 10
    return count


def by_while(xs: Any) -> Any:
    start, runs = 0, []
    while start < len(xs):
        end = start
        while end < len(xs) and xs[end] == xs[start]:
            end += 1
        runs.append((xs[start], end - start))
        start = end
    else:
        runs.append(None)
    return runs


def by_while_true(xs: Any) -> Any:
    n, steps = sum(xs), 0
    while True:
        if n <= 1 or steps > 20:
            break
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return n, steps


def ending_early(xs: Any) -> Any:
    ids = [1]
    for _ in range(10):
        following = (sum(ids) * 3 + sum(xs)) % 7
        if following == 0:
            break
        ids.append(following)
    return ids


def catching_inside(xs: Any) -> Any:
    out = []
    for x in xs:
        try:
            out.append(12 // (x - 5))
        except ZeroDivisionError as error:
            out.append(str(error))
    return out


def catching_outside(xs: Any) -> Any:
    out, reason = [], None
    try:
        for x in xs:
            out.append(12 // (x - 5))
    except ZeroDivisionError as error:
        reason = str(error)
    return out, reason


def constants_decided_by_the_input(xs: Any) -> Any:
    found = 0
    for number, weight in {2: 1, 4: 10, 5: 100}.items():
        if number in xs:
            found += weight
    for place, number in enumerate([7, 9]):
        if number in xs:
            return place, found
    return None, found


def the_same_name_twice(xs: Any) -> Any:
    first, second = [], []
    for x in xs:
        first.append(x)
    for x in first:
        second.append(x + 1)
    return second, [x for x in second]


PIPELINES = [
    by_list_comprehension, by_condition, by_set_and_dictionary, by_nested_comprehension, by_generator,
    by_generator_that_ends_early, by_map_and_filter, by_zip, by_enumerate, by_key, by_itertools, by_generator_function,
    by_inner_function, by_method, appending, grouping, changing_a_nested_list, changing_the_input, returning,
    returning_from_a_block, nested, by_while, by_while_true, ending_early, catching_inside, catching_outside,
    constants_decided_by_the_input, the_same_name_twice,
]  # fmt: skip


@pytest.mark.parametrize("example", [[3, 1, 2], []], ids=["three items", "no items"])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_graph_of_a_loop_holds_for_other_lengths(pipeline: Any, example: list[int]) -> None:
    graph = holds(pipeline, example, *LENGTHS)
    assert not graph.guards


def test_a_loop_that_may_leave_a_name_without_a_value_is_guarded_by_that() -> None:
    holds(breaking, [3, 1, 2], *LENGTHS)

    def last(xs: Any) -> Any:
        for x in xs:
            found = x
        return found if xs else None

    assert "for x in xs:" in refuses(recorded(last, [1]), [])
    graph = clew.record(last, [[1], []])
    assert [graph(xs=xs) for xs in ([1, 2], [], [3])] == [2, None, 3]


def test_a_loop_of_constant_length_is_unrolled() -> None:
    def pipeline(x: Any) -> Any:
        for _ in range(3):
            x = double(x)
        return x

    graph = recorded(pipeline, 1)
    assert [step.kind for step in graph.steps] == ["operator"] * 3
    assert graph(x=2) == 16


def test_examples_of_other_lengths_make_one_graph() -> None:
    graph = clew.record(appending, [([1, 2],), ([],), ([3],)])
    assert [graph(xs=xs) for xs in LENGTHS] == [appending(list(xs)) for xs in LENGTHS]
    assert not graph.guards


def test_a_list_that_others_refer_to_stays_the_pipeline_s_own() -> None:
    def pipeline(xs: Any) -> Any:
        out: list[Any] = []
        held = {"out": out}
        for x in xs:
            out.append(x)
        return held

    graph = holds(pipeline, [1, 2], [3, 4])
    assert "for x in xs:" in refuses(graph, [1])


def test_an_object_that_the_loop_changes_stays_the_pipeline_s_own() -> None:
    def pipeline(xs: Any) -> Any:
        bag.reset()
        for x in xs:
            bag.add(x)
        return list(bag.items)

    graph = holds(pipeline, [1, 2], [3, 4])
    refuses(graph, [1])


class Heap:
    def __init__(self) -> None:
        self.items: list[Any] = []

    def put(self, x: Any) -> None:
        heapq.heappush(self.items, x)

    def size(self) -> int:
        return len(self.items)


def by_an_object_of_its_own(xs: Any) -> Any:
    heap = Heap()
    for x in xs:
        heap.put(x)
    return list(heap.items)


def by_an_attribute_that_is_set(xs: Any) -> Any:
    heap = Heap()
    for x in xs:
        heap.items.append(x)
    return heap.items


def by_a_queue_of_a_library(xs: Any) -> Any:
    waiting: Any = queue.SimpleQueue()
    for x in xs:
        waiting.put(x)
    return waiting.qsize()


def by_a_method_of_a_list(xs: Any) -> Any:
    out: list[Any] = []
    push = out.append
    for x in xs:
        push(x)
    return out


@pytest.mark.parametrize("example", [[1, 2], []], ids=["two items", "no items"])
@pytest.mark.parametrize(
    "pipeline",
    [by_an_object_of_its_own, by_an_attribute_that_is_set, by_a_queue_of_a_library, by_a_method_of_a_list],
)
@pytest.mark.filterwarnings("ignore::clew.graph.recording.session.ConstantWarning")  # said, and so not silent
def test_what_the_pipeline_makes_is_made_anew_in_each_run(pipeline: Any, example: Any) -> None:
    graph = recorded(pipeline, example)
    for xs in ([1, 2], [], [5, 6, 7], [1, 2]):
        with contextlib.suppress(clew.GuardError):
            assert graph(xs=xs) == pipeline(xs)


def test_an_object_that_is_only_looked_at_does_not_keep_a_loop_from_being_a_step() -> None:
    def pipeline(xs: Any) -> Any:
        heap = Heap()
        return [x + heap.size() for x in xs]

    assert not holds(pipeline, [1, 2], [], [5]).guards


def test_a_loop_that_changes_an_object_of_before_is_told_and_unrolled() -> None:
    class Counting:
        def __init__(self) -> None:
            self.last = 0

        def run(self, xs: Any) -> Any:
            for x in xs:
                self.last = x
            return self.last

    with pytest.warns(UserWarning, match="the pipeline changed"):
        graph = clew.record(Counting().run, xs=[1, 2])
    refuses(graph, [1])


def test_a_function_that_sets_variables_of_the_pipeline_is_seen_through() -> None:
    def pipeline(xs: Any) -> Any:
        total = 0

        def add(x: Any) -> Any:
            nonlocal total
            total += x
            return total

        return [add(x) for x in xs], total

    refuses(holds(pipeline, [1, 2], [3, 4]), [1])


def test_a_function_that_is_called_after_a_loop_sees_what_the_loop_has_set() -> None:
    def pipeline(xs: Any) -> Any:
        total = 0

        def shown() -> str:
            return f"<{total}>"

        for x in xs:
            total += x
        return shown()

    assert not holds(pipeline, [1, 2], *LENGTHS).guards


def test_a_variable_that_a_function_in_a_list_sees_is_not_set_behind_its_back() -> None:
    def pipeline(xs: Any) -> Any:
        total = 0

        def more(x: Any) -> Any:
            return x + total

        functions = [more]
        for x in xs:
            total = functions[0](x)
        return total

    refuses(holds(pipeline, [1, 2], [3, 4]), [1])


def test_a_variable_that_a_function_sees_is_not_set_behind_its_back() -> None:
    def pipeline(xs: Any) -> Any:
        total = 0

        def more(x: Any) -> Any:
            return x + total

        for x in xs:
            total = more(x)
        return total

    refuses(holds(pipeline, [1, 2], [3, 4]), [1])


def test_a_loop_with_side_effects_is_kept_when_nobody_uses_what_it_gives() -> None:
    def pipeline(xs: Any) -> Any:
        for x in xs:
            tell(x)
        [tell(-x) for x in xs]
        return len(xs)

    graph = recorded(pipeline, [1])
    SEEN.clear()
    assert graph(xs=[5, 6]) == 2
    assert SEEN == [5, 6, -5, -6]
    assert all(op.side_effects for op in graph.operators)


def test_what_a_loop_raises_is_raised_from_its_line() -> None:
    def pipeline(xs: Any) -> Any:
        out = []
        for x in xs:
            out.append(1 // x)
        return out

    graph = recorded(pipeline, [1, 2])
    with pytest.raises(ZeroDivisionError) as raised:
        graph(xs=[1, 0])
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.filename == __file__
    assert last.line == "out.append(1 // x)"
    with pytest.raises(ZeroDivisionError):
        recorded(pipeline, [0])


class Swallowing:
    def __enter__(self) -> None: ...

    def __exit__(self, *raised: Any) -> bool:
        return True


def test_a_loop_that_raised_and_whose_changes_are_used_is_refused() -> None:
    def pipeline(xs: Any) -> Any:
        out = []
        with Swallowing():
            for x in xs:
                out.append(1 // x)
        return out

    with pytest.raises(GraphError) as refused:
        recorded(pipeline, [1, 0])
    assert refused.value.slug == "graph-loop"
    assert recorded(pipeline, [1, 2])(xs=[1, 1, 3]) == [1, 1, 0]


def test_what_a_pipeline_closes_over_is_not_copied() -> None:
    def made() -> Any:
        table = {1: "one"}

        def pipeline(xs: Any) -> Any:
            return [table.get(x, "?") for x in xs], table

        return pipeline, table

    pipeline, table = made()
    graph = recorded(lambda xs: [table.get(x, "?") for x in xs], [1])
    table[2] = "two"
    assert graph(xs=[1, 2, 3]) == ["one", "two", "?"]
    assert pipeline([2])[0] == ["two"]


def test_generators_stay_what_they_are_where_nobody_uses_them_up() -> None:
    def pipeline(xs: Any) -> Any:
        total = 1
        later = (x + total for x in xs)
        total = 10
        return list(later)

    holds(pipeline, [1, 2], [3, 4])


def test_a_loop_is_named_by_its_first_line() -> None:
    graph = recorded(appending, [1])
    assert [op.name for op in graph.operators] == ["for x in xs"]
    assert "for x in xs" in graph.show()
    assert graph.profile({"xs": [1, 2]})


def test_warnings_of_the_compiler_are_not_repeated_for_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.py").write_text("def pipeline(xs):\n    return [x if 2 is None else -x for x in xs]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = importlib.import_module("odd").pipeline
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clew.record(pipeline, xs=[1])(xs=[1, 2]) == [-1, -2]


class Mean:
    def __init__(self) -> None:
        self.total, self.count = 0, 0

    def push(self, x: int) -> None:
        self.total, self.count = self.total + x, self.count + 1


def test_a_loop_that_is_unrolled_says_what_to_do_for_other_lengths() -> None:
    def pipeline(xs: Any) -> Any:
        mean = Mean()
        for x in xs:
            mean.push(x)
        return mean.total, mean.count

    graph = recorded(pipeline, [1, 2])
    assert graph(xs=[3, 4]) == pipeline([3, 4])
    with pytest.raises(clew.GuardError, match=r"for x in xs.*length 2.*Make a clew.op of a function that has the loop"):
        graph(xs=[3])

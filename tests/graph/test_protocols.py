"""What Python calls by itself: operators, questions and properties of the user's own classes, threads, contexts."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew
from graph.comparing import holds, recorded, refuses, same


@clew.op
def positive(x: Any) -> Any:
    return x if x > 0 else None


class Descriptor:
    def __get__(self, owner: Any, kind: Any) -> Any:
        return 0 if owner.v is None else owner.v


class Box:
    """It asks `is`, `type` and `not` about what it holds, which no recorded value can answer by itself."""

    slot = Descriptor()

    def __init__(self) -> None:
        self.v: Any = None

    @property
    def safe(self) -> Any:
        return 0 if self.v is None else self.v

    @functools.cached_property
    def kind(self) -> str:
        return type(self.v).__name__

    def __getattr__(self, name: str) -> Any:
        if name != "dynamic":
            raise AttributeError(name)
        return "nothing" if self.v is None else "something"

    def __add__(self, other: Any) -> Any:
        return -1 if self.v is None else self.v + other

    def __eq__(self, other: Any) -> Any:
        return self.v is other

    def __lt__(self, other: Any) -> Any:
        return self.v is None

    def __getitem__(self, key: Any) -> Any:
        return key if self.v is None else self.v

    def __setitem__(self, key: Any, value: Any) -> None:
        self.v = 0 if value is None else value

    def __contains__(self, item: Any) -> bool:
        return self.v is item

    def __iter__(self) -> Iterator[Any]:
        return iter([] if self.v is None else [self.v])

    def __len__(self) -> int:
        return 0 if self.v is None else 3

    def __bool__(self) -> bool:
        return self.v is not None

    def __int__(self) -> int:
        return -1 if self.v is None else 1

    def __str__(self) -> str:
        return "nothing" if self.v is None else f"<{self.v}>"

    def __hash__(self) -> int:
        return 1


def filled(x: Any) -> Any:
    box = Box()
    box.v = positive(x)
    return box


def put(x: Any) -> Any:
    box = Box()
    box[0] = positive(x)
    return box.v


ASKED: dict[str, Callable[[Any], Any]] = {
    "property": lambda x: filled(x).safe,
    "cached property": lambda x: filled(x).kind,
    "descriptor": lambda x: filled(x).slot,
    "getattr": lambda x: filled(x).dynamic,
    "add": lambda x: filled(x) + 1,
    "eq": lambda x: filled(x) == None,  # noqa: E711
    "lt": lambda x: filled(x) < 2,
    "getitem": lambda x: filled(x)[5],
    "getitem by a value": lambda x: filled(x)[x],
    "setitem": put,
    "contains": lambda x: None in filled(x),
    "contains a value": lambda x: x in filled(x),
    "iter": lambda x: list(filled(x)),
    "len": lambda x: len(filled(x)),
    "bool": lambda x: 1 if filled(x) else 2,
    "not": lambda x: not filled(x),
    "int": lambda x: int(filled(x)),
    "str": lambda x: (str(filled(x)), f"{filled(x)}"),
}


@pytest.mark.parametrize("pipeline", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("example", [3, -3])
def test_an_object_of_the_pipeline_s_own_answers_for_the_values_it_holds(
    pipeline: Callable[[Any], Any], example: int
) -> None:
    graph = holds(pipeline, example)
    for other in (4, -4):
        try:
            assert same(graph(other), pipeline(other))
        except clew.GuardError:
            continue


def test_the_user_s_classes_are_as_they_were_afterwards() -> None:
    codes = {name: part.__code__ for name, part in vars(Box).items() if hasattr(part, "__code__")}
    recorded(ASKED["add"], 1)
    with pytest.raises(ZeroDivisionError):
        recorded(lambda x: filled(x) + x / 0, 1)
    assert {name: part.__code__ for name, part in vars(Box).items() if hasattr(part, "__code__")} == codes


def test_another_recording_that_ends_first_leaves_the_classes_seen_through() -> None:
    def pipeline(x: Any) -> Any:
        box = filled(x)
        clew.record(lambda y: filled(y).safe, 2)
        return box.safe

    assert "is None" in refuses(recorded(pipeline, 3), -3)


def test_a_pattern_of_match_may_name_an_attribute() -> None:
    def pipeline(x: Any) -> str:
        match x % 2:
            case Constants.ODD if x is not None:
                return "odd"
            case _:
                return "even"

    graph = holds(pipeline, 3, 5)
    refuses(graph, 4)


class Constants:
    ODD = 1


# ---- threads and contexts --------------------------------------------------------------------------------------------


def keep(value: Any, found: list[Any]) -> None:
    found.append(0 if value is None else value)


def in_a_thread(x: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=keep, args=(positive(x), found))
    thread.start()
    thread.join()
    return found


def in_a_timer(x: Any) -> Any:
    found: list[Any] = []
    thread = threading.Timer(0, keep, (positive(x), found))
    thread.start()
    thread.join()
    return found


class Worker(threading.Thread):
    value: Any = 1

    def run(self) -> None:
        self.result = 0 if self.value is None else self.value


def in_a_class_of_thread(x: Any) -> Any:
    worker = Worker()
    worker.value = positive(x)
    worker.start()
    worker.join()
    return worker.result


@pytest.mark.parametrize("pipeline", [in_a_thread, in_a_timer, in_a_class_of_thread])
def test_what_a_thread_of_the_pipeline_asks_is_guarded(pipeline: Callable[[Any], Any]) -> None:
    graph = holds(pipeline, 3, 4)
    assert "is None" in refuses(graph, -3)


def test_a_context_manager_inside_the_pipeline_goes_by_the_values_of_each_run() -> None:
    def pipeline(x: Any) -> Any:
        entered = []

        @contextlib.contextmanager
        def near(y: Any) -> Iterator[Any]:
            entered.append(x)
            yield x + y

        with near(x * 10) as both:
            return both, entered

    holds(pipeline, 3, 4)


def test_a_graph_run_inside_a_pipeline_is_a_step_however_it_is_run() -> None:
    inner = clew.record(lambda y: y + 1, 5)
    holds(lambda x: (inner(x), inner.run({"y": x}), inner.run(x=x) if x is None else 0), 3, 4)
    holds(lambda x: inner.run(x), {"y": 3}, {"y": 4})

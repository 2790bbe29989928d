"""A user's program, as type checkers see it: `make wheel-check` runs mypy --strict and pyright on it.

Each decorator must keep the signature of what it decorates, and a misspelt name must be an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, assert_type

import clew
from clew.compat.ttracker import auto_diff, var_tracker
from clew.compat.ztrace import ztrace

Item = TypeVar("Item")


@clew.watch("loss", every=2)
def watched(steps: int, *, rate: float = 0.1) -> list[float]:
    loss = 1.0
    return [loss * rate] * steps


@clew.follow
def followed(text: str) -> int:
    return len(text)


@clew.follow("video", depth=5)
def followed_with_names(text: str) -> int:
    return len(text)


@clew.stage("clean")
def staged(row: dict[str, str]) -> str:
    return row["text"]


@clew.op
def operator(text: str) -> list[str]:
    return text.split()


@clew.op(name="lookup")
class Lookup:
    def __init__(self, words: dict[str, int]) -> None:
        self.words = words

    def __call__(self, tokens: list[str]) -> list[int]:
        return [self.words[token] for token in tokens]


@clew.traceable
def train(epochs: int) -> float:
    return 1.0 / epochs


@ztrace(["x"])
def like_ztrace(x: int) -> int:
    return x


@auto_diff
def like_tensor_tracker(x: int) -> int:
    return x


@var_tracker("x")
def like_tensor_tracker_with_names(x: int) -> int:
    return x


@clew.watch("*")
class Trainer:
    def step(self, batch: list[int]) -> float:
        return float(sum(batch))


assert_type(watched(3, rate=0.5), list[float])
assert_type(followed("a"), int)
assert_type(followed_with_names("a"), int)
assert_type(staged({"text": "a"}), str)
assert_type(operator("a b"), list[str])
assert_type(Lookup({"a": 1})(["a"]), list[int])
assert_type(train(2), float)
assert_type(like_ztrace(1), int)
assert_type(like_tensor_tracker(1), int)
assert_type(like_tensor_tracker_with_names(1), int)
assert_type(Trainer().step([1]), float)

with clew.watch("x"), clew.follow("x", show=False):
    x = 1

with clew.items(3) as trace:
    assert_type(trace, clew.Trace)

with clew.run("named", tags={"rate": 0.1}) as run:
    assert_type(run["loss"], clew.Series)
    for call in run.calls("watched"):
        assert_type(call, clew.Call)
        assert_type(call.args, dict[str, Any])
    for change in run.changes("loss"):
        assert_type(change, clew.Change)
        assert_type(change.line, int)
    assert_type("loss" in run, bool)

opened = clew.open(run.path)
assert_type(opened, clew.Run)
assert_type(opened["loss"][0:1], clew.Series)
assert_type(len(opened["loss"].times), int)
assert_type(clew.runs(), list[clew.Run])
assert_type(trace.collate[0].stage, str)
assert_type(str(opened.report("run.html", limit="5MB").path), str)

assert_type(clew.map(operator, ["a", "b"]), list[list[str]])
assert_type(clew.submit(operator, "a").get(), list[str])


class Accumulator(Generic[Item]):
    @clew.watch("total")
    def add(self, item: Item) -> Item:
        return item

    @classmethod
    @clew.follow
    def empty(cls, size: int) -> int:
        return size

    @clew.stage("load")
    async def load(self, path: str) -> bytes:
        return path.encode()

    @clew.follow(depth=2)
    def batches(self, count: int) -> Iterator[int]:
        yield from range(count)


async def awaited(accumulator: Accumulator[str]) -> None:
    assert_type(await accumulator.load("x"), bytes)


assert_type(Accumulator[float]().add(1.0), float)
assert_type(Accumulator.empty(3), int)
assert_type(Accumulator[int]().batches(3), Iterator[int])


def results_of(tracer: clew.ModelTracer) -> list[str]:
    return [result.name for result in tracer.results.values()]


graph = clew.record(operator, "an example")
graph.save("bundle")

# What is wrong must be found: each of these lines has an error, and an ignore that is not needed is one.
watched("3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
followed(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
clew.wacth("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
trace.chekc()  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
run.chagnes("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

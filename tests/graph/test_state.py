"""Operators whose objects remember: what they keep is neither left out nor done in another order."""

from __future__ import annotations

from typing import Any

import clew


@clew.op
class Counter:
    def __init__(self) -> None:
        self.total = 0
        self.asked = 0
        self.seen: list[Any] = []

    def add(self, x: Any) -> Any:
        self.asked += 1
        self.total += x
        return self.total

    def note(self, x: Any) -> None:
        self._keep(x)

    def _keep(self, x: Any) -> None:
        self.seen.append(x)

    def value(self) -> Any:
        return self.total

    def noted(self) -> Any:
        return list(self.seen)

    def twice(self, x: Any) -> Any:
        self.asked += 1
        return x * 2


def fresh(counter: Counter) -> Counter:
    counter.__init__()  # type: ignore[misc]
    return counter


COUNTER = Counter()


def test_what_an_object_keeps_is_kept_for_the_step_that_asks_for_it() -> None:
    def pipeline(x: Any) -> Any:
        COUNTER.add(x)
        COUNTER.note(x + 1)
        return COUNTER.value(), COUNTER.noted()

    graph = clew.record(pipeline, 1)
    fresh(COUNTER)
    assert graph(x=5) == (5, [6])


def test_a_result_that_nobody_uses_is_left_out_though_it_is_counted() -> None:
    def pipeline(x: Any) -> Any:
        COUNTER.twice(x)
        return COUNTER.twice(x + 1)

    graph = clew.record(pipeline, 1)
    fresh(COUNTER)
    assert graph(x=5) == 12
    assert COUNTER.asked == 1


def test_what_an_object_keeps_is_kept_in_its_order_in_several_threads() -> None:
    def pipeline(x: Any) -> Any:
        found = []
        for number in range(20):
            COUNTER.add(number + x)
            found.append(COUNTER.value())
        return found

    fresh(COUNTER)
    wanted = pipeline(3)
    graph = clew.record(pipeline, 1)
    fresh(COUNTER)
    assert graph.run({"x": 3}, parallel=4) == wanted


def test_an_estimator_that_is_fitted_in_the_pipeline_is_fitted_again() -> None:
    class Mean:
        def fit(self, xs: Any) -> None:
            self.mean = sum(xs) / len(xs)

        def transform(self, xs: Any) -> Any:
            return [x - self.mean for x in xs]

    scale = clew.op(Mean())

    def pipeline(xs: Any) -> Any:
        scale.fit(xs)
        return scale.transform(xs)

    assert clew.record(pipeline, [([1, 3],)])(xs=[5, 9]) == [-2, 2]

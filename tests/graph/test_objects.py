"""Objects that steps change, made inside the pipeline or there before: what is read of them is no constant."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import GraphError
from graph.comparing import holds, recorded


@clew.op
class Total:
    """It keeps what it is given."""

    def __init__(self, start: Any = 0) -> None:
        self.total = start

    def add(self, x: Any) -> Any:
        self.total += x
        return self.total

    def put(self, x: Any) -> None:
        self.total = x


@clew.op
class Scale:
    """It keeps nothing."""

    def __init__(self, by: Any = 2) -> None:
        self.by = by

    def __call__(self, x: Any) -> Any:
        return x * self.by


@clew.op
def read(held: Any) -> Any:
    return held.total


@clew.op
def set_total(held: Any, x: Any) -> None:
    held.total = x


@clew.op
def raised(scale: Any, x: Any) -> Any:
    scale.by += 1
    return scale.by * x


class Plain:
    total = 0


class Called:
    count = 0

    def __call__(self, x: Any) -> Any:
        self.count += x
        return x


@clew.op
class Shared:
    kept = 0

    @classmethod
    def put(cls, x: Any) -> None:
        cls.kept = x

    @staticmethod
    def give(x: Any) -> None:
        Shared.kept = x


TOTAL, PLAIN = Total(), Plain()
CALLED = clew.op(Called())


@clew.op
def hand_over(x: Any) -> None:
    PLAIN.total = x


@clew.op
def counted(x: Any) -> None:
    counted.last = x


def made_and_kept(x: Any) -> Any:
    total = Total(5)
    total.add(x)
    return total.add(x), total.total


def made_many(x: Any) -> Any:
    totals = [Total(start) for start in range(2)]
    return [one.add(x) for one in totals], totals[0].total


def made_and_set(x: Any) -> Any:
    total = Total()
    total.total = x
    return total.add(1)


def read_as_an_attribute(x: Any) -> Any:
    TOTAL.put(x)
    return TOTAL.total, TOTAL.total + 1, getattr(TOTAL, "total")


def read_by_another_operator(x: Any) -> Any:
    TOTAL.put(x)
    return read(TOTAL)


def read_twice(x: Any) -> Any:
    TOTAL.put(x)
    first = TOTAL.total
    TOTAL.put(first + 1)
    return first, TOTAL.total


def given_and_read(x: Any) -> Any:
    set_total(PLAIN, x)
    return PLAIN.total


def given_to_two(x: Any) -> Any:
    set_total(PLAIN, x)
    return read(PLAIN)


def read_of_an_operator(x: Any) -> Any:
    before = CALLED.count
    CALLED(x)
    return CALLED.count - before if x > 100 else CALLED.count > 0


def read_of_a_class(x: Any) -> Any:
    Shared.put(x)
    first = Shared.kept
    Shared.give(x + 1)
    return first, Shared.kept


def read_of_what_an_operator_knows(x: Any) -> Any:
    hand_over(x)
    counted(x)
    return PLAIN.total, counted.last


@pytest.mark.parametrize(
    "pipeline",
    [
        read_of_a_class,
        read_of_what_an_operator_knows,
        read_of_an_operator,
        made_and_kept,
        made_many,
        made_and_set,
        read_as_an_attribute,
        read_by_another_operator,
        read_twice,
        given_and_read,
        given_to_two,
    ],
)
def test_what_a_step_has_changed_in_an_object_is_read_again(pipeline: Callable[[Any], Any]) -> None:
    pipeline(3)  # as it will be: no change is seen while it is recorded
    graph = holds(pipeline, 3, 4)
    for x in (5, 6):
        assert graph.run({"x": x}, parallel=2) == pipeline(x)


def test_what_is_read_of_an_object_in_one_of_two_ways_is_changed_before() -> None:
    def pipeline(x: Any) -> Any:
        if x > 3:
            TOTAL.put(7)
            return TOTAL.total
        TOTAL.put(8)
        return TOTAL.total if x > 1 else x

    for examples in ([2, 4], [4, 2], [1, 4, 2], [1, 2, 4]):
        graph = clew.record(pipeline, list(examples))
        for x in (*examples, 2.5, 5):
            TOTAL.put(-1)
            try:
                assert graph(x=x) == pipeline(x)
            except clew.GuardError:
                assert x not in examples


def test_what_nobody_reads_of_an_object_is_still_left_out() -> None:
    def pipeline(x: Any) -> Any:
        TOTAL.put(x)
        return x

    assert not recorded(pipeline, 3).steps


def test_an_object_of_an_operator_class_that_was_given_a_value_behind_its_back_is_refused() -> None:
    scale = Scale()

    def pipeline(x: Any) -> Any:
        scale.by = x
        return scale(3)

    with pytest.raises(GraphError, match="a Scale that holds recorded values"):
        recorded(pipeline, 3)


def test_an_object_that_keeps_nothing_is_made_once_and_may_not_be_changed_by_others() -> None:
    graph = holds(lambda x: Scale(3)(x), 1, 2)
    assert [step.kind for step in graph.steps] == ["operator"]
    with pytest.raises(GraphError, match="was changed after a step had used it"):
        recorded(lambda x: raised(Scale(), x), 1)


def test_files_of_a_constructor_inside_the_pipeline_come_along(tmp_path: Path) -> None:
    (tmp_path / "start.txt").write_text("7")

    @clew.op
    class Filed:
        def __init__(self, path: str, more: Any) -> None:
            self.total = int(Path(path).read_text()) + more

        def add(self, x: Any) -> Any:
            self.total += x
            return self.total

    path = str(tmp_path / "start.txt")
    graphs = [clew.record(lambda x: Filed(path, 0).add(x), 1), clew.record(lambda x: Filed(path, more=x).add(x), 1)]
    for number, graph in enumerate(graphs):
        graph.save(tmp_path / f"saved{number}", assets="anywhere")
    (tmp_path / "start.txt").unlink()
    for number, wanted in enumerate((9, 11)):
        loaded = clew.load(tmp_path / f"saved{number}", trusted=True)
        assert loaded(x=2) == loaded(x=2) == wanted


# ---- of libraries ----------------------------------------------------------------------------------------------------


def digest(text: Any) -> Any:
    first, second = hashlib.md5(), hashlib.new("sha1", b"x")
    for one in (first, second):
        one.update(text.encode())
    return first.hexdigest(), second.hexdigest()


def written(text: Any) -> Any:
    page = io.StringIO()
    csv.writer(page).writerow([text, 1])
    page.write(text)
    return page.getvalue()


def compressed(text: Any) -> Any:
    compressor = zlib.compressobj()
    return compressor.compress(text.encode()) + compressor.flush()


def compared(text: Any) -> Any:
    matcher = difflib.SequenceMatcher(None, "abc", "")
    matcher.set_seq2(text)
    return matcher.ratio()


@pytest.mark.parametrize("pipeline", [digest, written, compressed, compared])
def test_an_object_of_a_library_that_is_filled_is_another_each_time(pipeline: Callable[[Any], Any]) -> None:
    holds(pipeline, "abc", "abd")


def test_what_an_estimator_has_learned_in_the_pipeline_is_read_again() -> None:
    import sklearn.preprocessing as sklearn

    def fitted(xs: Any) -> Any:
        scaler = clew.op(sklearn.StandardScaler())
        scaler.fit(xs)
        return scaler.transform(xs), scaler.mean_

    holds(fitted, [[1.0], [2.0]], [[5.0], [9.0]])

    def called_again(xs: Any) -> Any:
        scaler = sklearn.StandardScaler()
        scaler.partial_fit(xs)
        return scaler.mean_, scaler.n_samples_seen_

    graph = clew.record(called_again, xs=[[1.0], [2.0]], library="operator")
    for xs in ([[5.0], [9.0]], [[2.0], [3.0], [4.0]]):
        assert [float(one) for one in map(sum, graph(xs=xs)[:1])] == [float(sum(called_again(xs)[0]))]
        assert graph(xs=xs)[1] == len(xs)

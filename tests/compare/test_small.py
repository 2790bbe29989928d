"""Small values judged many at a time have the same results as one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.compare import small_values, values
from clew.compare.settings import Settings
from clew.compare.values import Walk
from clew.values import capture
from reading.writing import simple_run

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-7, 1.001, np.nan, np.inf, -np.inf, 5.0])
FLOATS = st.tuples(st.sampled_from(["<f4", "<f8", "<f2"]), st.lists(NUMBERS, min_size=2, max_size=2))
VALUES = st.one_of(
    FLOATS.map(lambda given: np.array(given[1], given[0])),
    st.lists(st.integers(0, 2), min_size=2, max_size=2).map(np.array),
    NUMBERS.map(np.float32),
    NUMBERS.map(np.float64),
    st.sampled_from(["a", "b", ""]),
    st.one_of(NUMBERS, st.integers(-3, 3), st.just(2**60), st.booleans()).map(lambda one: capture(one).value),
)
PLAIN = st.one_of(NUMBERS, st.integers(-3, 3), st.sampled_from([2**60, 2**60 + 1, 10**400]), st.booleans())


def compared_values(a: Any, b: Any, **options: Any) -> Any:
    comparison = clew.diff(a, b, **options)
    verdict = comparison._comparison.verdict
    pairs = sorted(zip(verdict.a.tolist(), verdict.b.tolist(), verdict.magnitude.tolist(), strict=True))
    return pairs, {key: value for key, value in comparison.summary().items() if key != "within_worst"}


@given(data=st.lists(st.tuples(VALUES, VALUES), min_size=9, max_size=20), exact=st.booleans())
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_values_judged_together_have_the_results_of_single_ones(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: Any, exact: bool
) -> None:
    base = tmp_path_factory.mktemp("small")
    runs = [
        simple_run(base, {f"v{n}": [pair[side]] for n, pair in enumerate(data)}, name=f"120000-{side}")
        for side in (0, 1)
    ]
    options: Any = {"rtol": 0} if exact else {}
    together = compared_values(*runs, **options)
    with monkeypatch.context() as patch:
        patch.setattr(small_values, "_FEWEST", 10**9)
        assert together == compared_values(*runs, **options)


@given(
    pairs=st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=6),
    options=st.sampled_from([{}, {"rtol": 0}, {"atol": 0.5}, {"ulp": 4}]),
    allowed=st.sampled_from([None, 0.0, 2.0]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_plain_numbers_in_containers_are_judged_as_arrays_are(
    monkeypatch: pytest.MonkeyPatch, pairs: Any, options: Any, allowed: float | None
) -> None:
    tolerances = {"rtol": None, "atol": None, "ulp": None} | options
    diff_settings = Settings.of(**tolerances, ignore=(), only=(), map=None, factor=3.0, reference=False, common=False)
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    quick = Walk(diff_settings, allowed).compare(a, b)
    with monkeypatch.context() as patch:
        patch.setattr(values, "_PLAIN", frozenset())
        slow = Walk(diff_settings, allowed).compare(a, b)
    assert (quick.differ, quick.identical, quick.magnitude) == (slow.differ, slow.identical, slow.magnitude)


def test_small_values_have_the_noise_of_their_place(tmp_path: Path) -> None:
    def changes(add: float) -> dict[str, list[Any]]:
        return {"x": [np.float32(n + add) for n in range(20)], "y": [np.full(3, n + 2 * add) for n in range(20)]}

    a, reference, b = (simple_run(tmp_path, changes(add), name=f"120000-{add}") for add in (0.0, 0.25, 1.0))
    comparison = clew.diff(a, b, reference=reference)
    assert {round(difference.multiple, 3) for difference in comparison.differences} == {4.0}
    assert clew.diff(a, b, reference=reference, noise=4).equal

"""A second reference run shows how much each place varies by itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import clew
from reading.writing import Written, simple_run


def runs(base: Path, *changes: dict[str, list[Any]]) -> list[Any]:
    return [simple_run(base, one, name=f"120000-{name}") for name, one in zip("abcd", changes, strict=False)]


def test_differences_are_multiples_of_the_noise_of_their_place(tmp_path: Path) -> None:
    a, reference, b = runs(
        tmp_path,
        {"loud": [1.0, 2.0], "quiet": [1.0, 2.0]},
        {"loud": [1.1, 2.0], "quiet": [1.001, 2.0]},
        {"loud": [1.2, 2.1], "quiet": [1.0, 2.01]},
    )
    comparison = clew.diff(a, b, reference=reference)
    assert [(difference.name, round(difference.multiple, 3)) for difference in comparison.differences] == [
        ("quiet", 10.0)
    ]
    assert len(clew.diff(a, b, reference=reference, noise=1.5).differences) == 2
    assert "10 times the noise here, 0.001" in str(comparison)


def test_any_difference_counts_where_the_reference_repeats_exactly(tmp_path: Path) -> None:
    a, reference, b = runs(tmp_path, {"x": [1.0]}, {"x": [1.0]}, {"x": [1.0 + 1e-15]})
    comparison = clew.diff(a, b, reference=reference)
    assert (comparison.first.noise, comparison.first.multiple) == (0.0, math.inf)
    assert any("repeat exactly" in note and "noise is zero" in note for note in comparison.notes)
    assert "the reference repeats exactly here" in str(comparison)
    assert clew.diff(a, b).equal
    assert clew.diff(a, b, reference=reference, atol=1e-12).equal


def test_noise_counts_from_the_moment_it_was_seen(tmp_path: Path) -> None:
    a, reference, b = runs(tmp_path, {"x": [1.0, 1.0, 1.0]}, {"x": [1.0, 1.0, 2.0]}, {"x": [1.0, 1.5, 2.5]})
    assert [difference.b for difference in clew.diff(a, b, reference=reference).differences] == [1.5]


def test_a_value_that_the_reference_held_is_noise_only_from_then_on(tmp_path: Path) -> None:
    made = []
    for name, values in (("a", [1.0, 1.0, 1.0]), ("again", [1.0, 1.0, 1.1]), ("b", [1.05, 1.05, 1.05])):
        writer = Written(tmp_path, f"120000-{name}")
        shard = writer.shard()
        call = shard.call()
        for step, value in enumerate(values):
            shard.step(call, step)
            if step == 0 or value != values[step - 1]:
                shard.change(call, "x", value)
        shard.end(call)
        shard.close()
        made.append(writer.open())
    comparison = clew.diff(made[0], made[2], reference=made[1])
    assert (comparison.first.step, comparison.first.noise) == (0, 0.0)


def test_a_place_that_never_repeats_and_is_not_a_number_is_ignored(tmp_path: Path) -> None:
    a, reference, b = runs(
        tmp_path, {"id": ["one"], "x": ["k"]}, {"id": ["two"], "x": ["k"]}, {"id": ["three"], "x": ["l"]}
    )
    assert [difference.name for difference in clew.diff(a, b, reference=reference).differences] == ["x"]


def test_arrays_have_noise_too(tmp_path: Path) -> None:
    base = np.arange(2000.0)
    a, reference, b, c = runs(tmp_path, *({"w": [base + add]} for add in (0.0, 1e-3, 2e-3, 1e-1)))
    assert clew.diff(a, b, reference=reference).equal
    assert round(clew.diff(a, c, reference=reference).first.multiple) == 100


def test_a_place_the_reference_does_not_have_is_judged_by_the_defaults(tmp_path: Path) -> None:
    a, reference, b = runs(tmp_path, {"x": [1.0], "y": [1.0]}, {"x": [1.0]}, {"x": [1.0], "y": [1.0 + 1e-12]})
    assert clew.diff(a, b, reference=reference).equal


def test_a_note_tells_if_the_reference_is_one_of_the_two_runs(tmp_path: Path) -> None:
    a, b = runs(tmp_path, {"x": [1.0]}, {"x": [2.0]})
    assert any("the reference is A itself" in note for note in clew.diff(a, b, reference=a).notes)

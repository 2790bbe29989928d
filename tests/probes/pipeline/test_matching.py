"""Which sample became which row of a batch."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import numpy as np

from clew.probes.pipeline.row_matching import Match, matched

SAMPLES = [(np.full(3, float(i)), i) for i in range(4)]


def columns(samples: list[Any]) -> list[Any]:
    return [np.stack([x for x, _ in samples]), np.array([y for _, y in samples])]


def padded(rows: list[list[int]], *, before: bool = False) -> Any:
    table = np.zeros((len(rows), max(map(len, rows))), dtype=int)
    for place, row in zip(table, rows, strict=True):
        place[len(place) - len(row) if before else 0 :][: len(row)] = row
    return table


def test_rows_in_the_order_of_the_samples_say_nothing() -> None:
    assert matched(SAMPLES, columns(SAMPLES)) == Match()


def test_another_order_is_found() -> None:
    assert matched(SAMPLES, columns(SAMPLES[::-1])) == Match((3, 2, 1, 0))


def test_samples_that_were_left_out_are_found() -> None:
    assert matched([*SAMPLES, None], columns([SAMPLES[1], SAMPLES[3]])) == Match((1, 3))


def test_a_list_of_the_samples_themselves_is_in_order_too() -> None:
    assert matched(SAMPLES, SAMPLES) == Match()
    assert matched(SAMPLES, SAMPLES[::-1]) == Match((3, 2, 1, 0))
    assert matched(SAMPLES, list(zip(*SAMPLES[::-1], strict=True))) == Match((3, 2, 1, 0))


def test_a_batch_of_another_form_than_the_samples_is_compared_by_content() -> None:
    images, labels = columns(SAMPLES[::-1])
    assert matched(SAMPLES, {"pixels": images, "labels": labels}) == Match((3, 2, 1, 0))
    assert matched(SAMPLES, UserDict(pixels=images)) == Match((3, 2, 1, 0))


def test_numbers_that_happen_to_be_a_column_of_the_samples_are_not_taken_for_it() -> None:
    lengths = np.array([3, 2, 1, 0])
    assert matched(SAMPLES, {"x": columns(SAMPLES)[0] * 2, "lengths": lengths}) == Match()


def test_padding_behind_and_before_is_seen_through() -> None:
    tokens = [[i] * (i + 1) for i in range(4)]
    samples = [{"ids": row} for row in tokens]
    assert matched(samples, {"ids": padded(tokens[::-1])}) == Match((3, 2, 1, 0))
    assert matched(samples, {"ids": padded(tokens[::-1], before=True)}) == Match((3, 2, 1, 0))


def test_a_sample_that_begins_as_another_is_told_by_what_is_left_over() -> None:
    samples = [{"ids": [5]}, {"ids": [5, 5]}]
    assert matched(samples, {"ids": padded([[5, 5], [5]])}) == Match((1, 0))


def test_rows_that_are_alike_and_out_of_order_are_not_known() -> None:
    samples = [(np.zeros(2), 0), (np.ones(2), 1), (np.ones(2), 1)]
    assert matched(samples, columns([samples[1], samples[2], samples[0]])).lost
    assert matched(samples, columns(samples)) == Match()


def test_the_same_sample_drawn_twice_is_no_doubt() -> None:
    samples = [(np.zeros(2), 0), (np.ones(2), 1), (np.ones(2), 1)]
    assert matched(samples, columns(samples[::-1]), [7, 8, 8]) == Match((1, 2, 0))


def test_a_column_of_texts_tells_the_order_where_numbers_do_not() -> None:
    samples = [{"x": np.zeros(2), "path": f"{i}.png"} for i in range(3)]
    batch = {"x": np.zeros((3, 2)), "path": ["2.png", "0.png", "1.png"]}
    assert matched(samples, batch) == Match((2, 0, 1))


def test_values_that_were_changed_leave_the_order_as_it_was() -> None:
    assert matched(SAMPLES, columns([(x * 3, y) for x, y in SAMPLES])) == Match()


def test_fewer_rows_that_cannot_be_compared_are_lost() -> None:
    assert "4 samples went in and 2 rows came out" in matched(SAMPLES, {"x": np.full((2, 7), 0.5)}).lost

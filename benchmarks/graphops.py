"""Operators and pipelines that `graphs.py` measures; in a module of their own, so that a bundle of them is small."""

from __future__ import annotations

from typing import Any

import numpy as np

import clew

CHAIN = 10


def plus_one(x: float) -> float:
    return x + 1


def squares(count: int) -> float:
    """Some 50 µs of Python."""
    total = 0.0
    for number in range(1000):
        total += number * count
    return total


def product(matrix: Any) -> Any:
    """Some 10 ms outside the interpreter, on one processor."""
    for _ in range(8):
        matrix = np.sin(matrix)
    return matrix


def row_score(row: dict[str, Any]) -> float:
    """Some 3 µs of Python."""
    letters: dict[str, int] = {}
    for letter in row["text"].lower():
        if letter.isalpha():
            letters[letter] = letters.get(letter, 0) + 1
    counts = sorted(letters.values())
    return row["weight"] * sum(place * count for place, count in enumerate(counts)) / len(row["text"])


def scored_frame(frame: Any) -> Any:
    """A few operations of pandas."""
    frame = frame.assign(total=frame["a"] + frame["b"] * 2, ratio=frame["c"] / (frame["a"] + 1))
    return frame.assign(score=np.sqrt(frame["total"]) - frame["ratio"])


score_op = clew.op(row_score)
add_op, squares_op, product_op = clew.op(plus_one), clew.op(squares), clew.op(product)


def chain(x: float) -> float:
    for _ in range(CHAIN):
        x = add_op(x)
    return x


def two(x: float) -> float:
    return add_op(add_op(x))


def heavier(x: int) -> float:
    return squares_op(x)


def side_by_side(matrix: Any) -> Any:
    return product_op(matrix), product_op(matrix), product_op(matrix), product_op(matrix)


def row_pipeline(row: dict[str, Any]) -> float:
    return score_op(row)

"""Operators and pipelines for the tests of `graph.map`. They stand in a module, so that they can be saved."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import clew


@clew.op
def tenfold(x: Any) -> Any:
    if not isinstance(x, str):
        return 10 * x
    if x == "exit":
        raise SystemExit(3)
    if x == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if x == "function":
        return lambda: None
    if x.startswith("pid:"):
        (Path(x[4:]) / f"ran-{os.getpid()}").touch()
        return 0
    return 10 * x


@clew.op
def content(x: dict[str, Any]) -> Any:
    return x["is"]


@clew.op
def refused(x: str) -> str:
    if x.startswith("fail"):
        raise ValueError(x)
    return x


@clew.op
def name_of_the_class(x: Any) -> str:
    return type(x).__name__


@clew.op
def inverse(x: Any) -> Any:
    return 1 / x


@clew.op
def counted(path: str) -> int:
    """Fails the first two times it is called with a path."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("x")
    tries = len(Path(path).read_text(encoding="utf-8"))
    if tries < 3:
        raise OSError(f"try {tries}")
    return tries


@clew.op
def both(a: Any, b: Any) -> Any:
    return a - b


@clew.op
def moved(xs: list[int], by: int) -> list[int]:
    return [x + by for x in xs]


@clew.op
def total(xs: list[float]) -> list[float]:
    if any(x < 0 for x in xs):
        raise ValueError("below zero")
    return [x + len(xs) for x in xs]


@clew.op
def upper_rows(xs: list[str]) -> list[str]:
    if "fail" in xs:
        raise ValueError("fail")
    return [x.upper() for x in xs]


@clew.op
def classes(xs: Any) -> list[str]:
    return [type(xs).__name__] * len(xs)


@clew.op
def count_of(record: Any) -> int:
    return len(record)


@clew.op
def repeated(text: str) -> str:
    return text + text


@clew.op
def half(number: float) -> float:
    return number / 2


@clew.op
def sum_of_columns(record: dict[str, Any]) -> Any:
    return record["a"] + record["b"]


@clew.op
def list_of(xs: list[int]) -> list[int]:
    return list(xs)


@clew.op
def held_up(x: int, folder: str) -> int:
    """Number 30 waits until it is let go, and says in which process."""
    place = Path(folder)
    if x == 30 and not (place / "go").exists():
        (place / f"at-{os.getpid()}").touch()
        while not (place / "go").exists():
            time.sleep(0.01)
    with open(place / "ran", "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    return x * 10


def simple(x: Any) -> Any:
    return tenfold(x)


def opened(x: Any) -> Any:
    return content(x)


def failing(x: str) -> Any:
    return refused(x)


def named(x: Any) -> Any:
    return name_of_the_class(x)


def inverted(x: Any) -> Any:
    return inverse(x)


def guarded(x: Any) -> Any:
    y = tenfold(x)
    if y > 50:
        return inverse(y)
    return y


def difference(a: Any, b: Any = 1) -> Any:
    return both(a, b)


def between(a: Any, b: Any) -> Any:
    return both(a, b)


def offset(xs: list[int], by: int = 100) -> Any:
    return moved(xs, by)


def trying(path: str) -> Any:
    return counted(path)


def summed(xs: list[float]) -> Any:
    return {"sum": total(xs)}


def waiting(x: int, folder: str) -> Any:
    return held_up(x, folder)


def refused_rows(xs: list[str]) -> Any:
    return upper_rows(xs)


def named_rows(xs: Any) -> Any:
    return classes(xs)


def by_length(xs: list[float]) -> Any:
    """It decides by the length of the batch."""
    match len(xs):
        case 1:
            return [2 * xs[0]]
        case 2:
            return [2 * xs[0], 2 * xs[1]]
        case 3:
            return [2 * xs[0], 2 * xs[1], 2 * xs[2]]
    return [2 * xs[0], 2 * xs[1], 2 * xs[2], 2 * xs[3]]


def counted_columns(record: Any) -> Any:
    return count_of(record)


def summed_columns(record: dict[str, Any]) -> Any:
    return sum_of_columns(record)


def doubled_text(text: str) -> Any:
    return repeated(text)


def halved(number: float) -> Any:
    return half(number)


def scored(frame: Any, factor: float = 2.0) -> Any:
    """A frame with one column more; rows that are below zero are refused."""
    if (frame["a"] < 0).any():
        raise ValueError("below zero")
    frame["score"] = frame["a"] * factor + frame["b"]
    frame["rows"] = len(frame)
    return frame


def column_sum(a: Any, b: Any = 0) -> Any:
    return a + b


def centred(x: Any) -> Any:
    return {"twice": x * 2, "rows": [len(x)] * len(x)}


def renumbered(frame: Any) -> Any:
    return frame[["a"]].reset_index(drop=True)


def several(xs: list[int]) -> Any:
    return {"same": list_of(xs), "text": texts_in(xs)}


@clew.op
def texts_in(xs: list[int]) -> Any:
    return [str(x) for x in xs]


def above(xs: list[float]) -> Any:
    """It decides by all rows of a batch."""
    if sum_of(xs) > 10:
        return [0.0 for _ in xs]
    return list_of(xs)


@clew.op
def sum_of(xs: list[float]) -> float:
    return sum(xs)

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

"""Functions that are watched or followed as well are recorded as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clew


@clew.op
def double(x: int) -> int:
    return x * 2


def helper(x: Any) -> Any:
    return None if x is None else f"{double(x)}!"


@clew.follow
def followed(x: Any) -> Any:
    return helper(x)


@clew.watch("y")
def watched(x: Any) -> Any:
    y = helper(x)
    return y


def test_what_was_followed_before_is_seen_through(tmp_path: Path) -> None:
    with clew.run(path=tmp_path / "run"):
        assert followed(1) == "2!"
    graph = clew.record(helper, 1)
    assert graph(x=4) == "8!"
    assert clew.record(followed, 1)(x=4) == "8!"


def test_what_is_watched_is_seen_through_and_watched_when_it_is_called(tmp_path: Path) -> None:
    with clew.run(path=tmp_path / "run") as run:
        assert watched(1) == "2!"
        assert clew.record(watched, 2)(x=5) == "10!"
    assert run["y"].values == ["2!"]

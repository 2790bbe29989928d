"""Functions that are watched or followed as well are recorded as they were written.

In processes of their own: what is followed is found among all objects, of which the tests' process has millions.
"""

from __future__ import annotations

from pathlib import Path

from graph.bundling import python

FUNCTIONS = """
import sys
import clew

@clew.op
def double(x):
    return x * 2

def helper(x):
    return None if x is None else f"{double(x)}!"

@clew.follow
def followed(x):
    return helper(x)

@clew.watch("y")
def watched(x):
    y = helper(x)
    return y
"""
FOLLOWED = """
with clew.run(path=sys.argv[1]):
    assert followed(1) == "2!"
graph = clew.record(helper, 1)
print(graph(x=4), clew.record(followed, 1)(x=4))
"""
WATCHED = """
with clew.run(path=sys.argv[1]) as run:
    assert watched(1) == "2!"
    print(clew.record(watched, 2)(x=5), run["y"].values)
"""


def test_what_was_followed_before_is_seen_through(tmp_path: Path) -> None:
    assert python(FUNCTIONS + FOLLOWED, tmp_path, str(tmp_path / "run")) == "8! 8!\n"


def test_what_is_watched_is_seen_through_and_watched_when_it_is_called(tmp_path: Path) -> None:
    assert python(FUNCTIONS + WATCHED, tmp_path, str(tmp_path / "run")) == "10! ['2!']\n"

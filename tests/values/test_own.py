"""Objects of clew itself in the variables of a watched program."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.records import DELETED, Kept, NotKept, Object, Summary
from clew.values import capture, decode, unlooked


@clew.watch("x")
def watched() -> int:
    x = 1
    return x


def own_objects() -> list[Any]:
    with clew.run() as run:
        watched()
    call = run.calls("watched")[0]
    return [run, run["x"], call, call.changes, clew.open(run.path), clew.watch("y")]


@pytest.mark.parametrize("place", range(6))
def test_an_object_of_clew_is_opaque_and_compared_by_identity(place: int) -> None:
    value = own_objects()[place]
    found = capture(value)
    assert found.value.kept is Kept.OPAQUE
    assert found.unchanged(value)
    assert not found.unchanged(own_objects()[place])
    assert capture([value]).value.why.startswith("it holds a")


def test_a_recording_in_a_dict_is_not_followed_into_the_program() -> None:
    with clew.run() as run:
        watched()
        body = capture({"run": run, "n": 1}).value.body
    assert body is not None and len(body) < 200


@pytest.mark.parametrize(
    "value",
    [
        Object("Cfg", {"a": [1, 2]}),
        NotKept("list", Kept.PART, "over 3 items", Summary(length=9), [1, 2]),
        decode(capture({(1, Ellipsis): unlooked(3)}).value),
    ],
    ids=["object", "not-kept", "not-kept-inside"],
)
def test_what_was_read_back_is_a_value_like_any_other(value: Any) -> None:
    found = capture(value)
    assert found.value.kept is Kept.FULL
    assert isinstance(decode(found.value), Object)


def test_what_was_deleted_reads_back_as_deleted() -> None:
    found = capture([DELETED])
    assert found.value.kept is Kept.FULL
    assert decode(found.value)[0] is DELETED

"""A second body for certain receivers: they run the same, and are heard; others run what they ran."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import pytest

import clew
from clew.instrument import engine
from clew.instrument.branch import Branch, Receivers


class Told:
    """A call that is entered and left."""

    def __init__(self, log: list[Any], values: tuple[Any, ...]) -> None:
        self.log = log
        self.result: Any = None
        log.append(values[1:])

    def __enter__(self) -> Told:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self.log.append(self.result if error is None else type(error))


class Base:
    def method(self, x: int) -> int:
        return x + 1


class Derived(Base):
    def method(self, x: int, *more: int, factor: int = 2, **named: int) -> int:
        """Its own words."""
        if x < 0:
            raise ValueError(x)
        found = [super(Derived, self).method(each) for each in (x, *more)]
        return factor * sum(found) + sum(named.values())

    def nothing(self) -> None:
        pass

    def pauses(self) -> Iterator[int]:
        yield 1

    def local_names(self) -> list[str]:
        return sorted(locals())


@pytest.fixture
def heard() -> Iterator[tuple[Any, list[Any]]]:
    """An object, and what is heard of its calls."""
    log: list[Any] = []
    chosen = Derived()
    branch = Branch(Receivers({id(chosen): None}), (), lambda plan: lambda values: Told(log, values))
    functions = [Derived.method, Derived.nothing, Derived.local_names]
    codes = [function.__code__ for function in functions]
    assert [engine.branch(function, branch) for function in functions] == ["", "", ""]  # type: ignore[arg-type]
    yield chosen, log
    for function in functions:
        engine.branch(function, None)  # type: ignore[arg-type]
    assert all(function.__code__ is code for function, code in zip(functions, codes, strict=True))


def test_a_chosen_receiver_is_heard_and_gives_the_same(heard: Any) -> None:
    chosen, log = heard
    assert chosen.method(1, 2, factor=3, extra=4) == Derived().method(1, 2, factor=3, extra=4) == 19
    assert log == [(1, 3, (2,), {"extra": 4}), 19]


def test_others_are_not(heard: Any) -> None:
    _, log = heard
    assert Derived().method(1) == 4
    assert log == []


def test_no_result_is_none(heard: Any) -> None:
    chosen, log = heard
    assert chosen.nothing() is None
    assert log == [(), None]


def test_an_exception_passes_through_the_same_lines(heard: Any) -> None:
    def lines(receiver: Any) -> list[tuple[str, int | None]]:
        try:
            receiver.method(-1)
        except ValueError as error:
            return [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        return []

    chosen, log = heard
    assert lines(chosen) == lines(Derived())
    assert log[-1] is ValueError


def test_locals_show_nothing_of_ours(heard: Any) -> None:
    chosen, _ = heard
    assert chosen.local_names() == Derived().local_names() == ["self"]


def test_a_watched_function_is_watched_in_both_bodies(heard: Any) -> None:
    chosen, log = heard
    changes: list[Any] = []
    options = clew.watch("found", on_change=lambda change: changes.append(change.value))._options
    engine.instrument(Derived.method, options)  # type: ignore[arg-type]
    try:
        assert chosen.method(1) == Derived().method(1) == 4
        assert changes == [[2], [2]]
        assert log == [(1, 2, (), {}), 4]
    finally:
        engine.uninstrument(Derived.method, options)  # type: ignore[arg-type]
    assert chosen.method(2) == 6
    assert log[-1] == 6


def test_a_function_that_pauses_or_has_no_receiver_is_refused() -> None:
    branch = Branch(Receivers(), (), lambda plan: lambda values: None)
    assert "generator" in engine.branch(Derived.pauses, branch)  # type: ignore[arg-type]

    def alone() -> None:
        pass

    assert "self" in engine.branch(alone, branch)  # type: ignore[arg-type]

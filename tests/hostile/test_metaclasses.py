"""Classes and objects that answer for themselves: a metaclass without a hash, `__class__` that raises or lies."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew


def _made() -> tuple[dict[str, Any], dict[str, Any], list[Any]]:  # noqa: C901
    """Not at the level of the module, where pytest would ask the classes what they are."""

    class Unhashable(type):
        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = None  # type: ignore[assignment]

    class Raising(type):
        def __hash__(self) -> int:
            raise ValueError("hash")

        def __eq__(self, other: object) -> bool:
            raise ValueError("eq")

        def __instancecheck__(self, instance: object) -> bool:
            raise ValueError("instancecheck")

    class Closed(type):
        def __getattribute__(self, name: str) -> Any:
            raise ValueError(name)

    class OfUnhashable(metaclass=Unhashable):
        pass

    class OfRaising(metaclass=Raising):
        pass

    class OfClosed(metaclass=Closed):
        pass

    class ClassRaises:
        @property
        def __class__(self) -> Any:
            raise ValueError("class")

        @__class__.setter
        def __class__(self, value: Any) -> None:
            pass

    class ClassLies:
        @property
        def __class__(self) -> Any:
            return int

        @__class__.setter
        def __class__(self, value: Any) -> None:
            pass

    class AttributesRaise:
        def __getattribute__(self, name: str) -> Any:
            raise ValueError(name)

    class Numbers(list[Any], metaclass=Unhashable):
        pass

    class Key(metaclass=Unhashable):
        def __hash__(self) -> int:
            return 1

    class Failure(Exception):
        """Asked for anything, it raises."""

        def __getattribute__(self, name: str) -> Any:
            raise ValueError(name)

    class UnhashableFailure(Exception, metaclass=Unhashable):
        pass

    class ClosedFailure(Exception, metaclass=Closed):
        pass

    objects = {
        "unhashable": object.__new__(OfUnhashable),
        "raising": object.__new__(OfRaising),
        "closed": object.__new__(OfClosed),
        "class raises": ClassRaises(),
        "class lies": ClassLies(),
        "attributes raise": AttributesRaise(),
        "list": Numbers([1]),
        "the class itself": OfUnhashable,
        "the raising class": OfRaising,
        "the closed class": OfClosed,
    }
    errors = {"closed object": Failure, "unhashable": UnhashableFailure, "closed": ClosedFailure}
    return objects, {name: BaseException.__new__(kind) for name, kind in errors.items()}, [Key]


OBJECTS, ERRORS, KEYS = _made()
CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda value: value,
    "in a list": lambda value: [value, value],
    "in a tuple": lambda value: (1, value),
    "in a dictionary": lambda value: {"a": value},
}


@clew.watch("value", "copy")
def watched(value: Any) -> Any:
    copy = [value]
    copy.append(value)
    return value


@clew.watch("value", on_change=lambda change: None, when=lambda change: True)
def hooked(value: Any) -> Any:
    value = [value][0]
    return value


@clew.watch("value")
def generator(value: Any) -> Iterator[Any]:
    yield value
    value = [value]
    yield value


def leaf(value: Any) -> list[Any]:
    return [value]


@clew.follow("x", show=False)
def followed(value: Any) -> Any:
    x = leaf(value)
    return x[0]


@clew.follow(file=io.StringIO())
def shown(value: Any) -> Any:
    return leaf(value)[0]


@clew.follow(show=False, keep="full")
def followed_in_full(value: Any) -> Any:
    return leaf(value)[0]


@clew.follow(show=False)
def logged(value: Any) -> Any:
    clew.log("value", value)
    return value


@clew.stage("hostile one")
def one(value: Any) -> Any:
    return value


@clew.stage("hostile two")
def two(value: Any) -> Any:
    return [value]


def staged(value: Any) -> Any:
    with clew.items(1):
        for _ in range(2):
            two(one(value))
    return value


WAYS = [watched, hooked, lambda value: next(generator(value)), followed, shown, followed_in_full, staged]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", OBJECTS)
def test_values_that_answer_for_themselves_pass(kind: str, container: str) -> None:
    value = CONTAINERS[container](OBJECTS[kind])
    with clew.run():
        for way in WAYS:
            assert way(value) is value


@pytest.mark.parametrize("kind", OBJECTS)
def test_values_that_answer_for_themselves_are_logged_or_that_is_reported(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_STRICT", "0")
    with clew.run():
        assert logged(OBJECTS[kind]) is OBJECTS[kind]


def test_keys_of_a_dictionary_may_have_such_a_class() -> None:
    with clew.run():
        assert list(watched({KEYS[0](): 1}).values()) == [1]
        assert list(followed({KEYS[0](): 1}).values()) == [1]


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("probe", [clew.watch("held"), clew.follow(show=False), clew.follow(file=io.StringIO())])
def test_exceptions_that_answer_for_themselves_reach_their_handler(kind: str, probe: Any) -> None:
    error = ERRORS[kind]

    def fail() -> None:
        held = [1]
        held.append(2)
        raise error

    probe(fail)
    caught: Any = None
    with clew.run():
        try:
            fail()
        except BaseException as raised:
            caught = raised
    assert caught is error


def test_arguments_of_an_exception_may_be_anything() -> None:
    @clew.watch("n")
    def fail(n: int) -> None:
        raise KeyError(OBJECTS["raising"], OBJECTS["class raises"])

    with clew.run() as run, pytest.raises(KeyError):
        fail(1)
    assert run.calls("fail")[0].error == "KeyError"


@clew.stage("load")
def fails_with(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("name", ERRORS)
def test_an_exception_leaves_a_trace_and_its_stages_as_itself(name: str) -> None:
    error = ERRORS[name]
    caught: BaseException | None = None
    try:
        with clew.items(2):
            fails_with(error)
    except BaseException as left:
        caught = left
    assert caught is error


@pytest.mark.parametrize("name", ERRORS)
def test_an_exception_leaves_a_block_as_itself(name: str) -> None:
    error = ERRORS[name]
    caught: BaseException | None = None
    try:
        with clew.watch("number"):
            number = 1
            raise error
    except BaseException as left:
        caught = left
    assert caught is error
    assert number == 1

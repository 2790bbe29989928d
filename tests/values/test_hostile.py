"""No line of user code runs when a value is looked at, tested, or read back."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

import pytest

from clew.records import Kept, Object
from clew.values import Keep, capture, decode, parse_keep

RAN: list[str] = []
_ARMED = [False]


@pytest.fixture(autouse=True)
def _count() -> Iterator[None]:
    RAN.clear()
    yield
    _ARMED[0] = False
    assert RAN == []


def _trap(name: str) -> Any:
    def trap(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _ARMED[0]:
            RAN.append(name)
            raise RuntimeError(f"user code ran: {name}")
        if name == "__hash__":
            return 7
        return NotImplemented

    return trap


TRAPS = [
    "__repr__", "__str__", "__eq__", "__ne__", "__hash__", "__len__", "__iter__", "__bool__", "__contains__",
    "__getattr__", "__getitem__", "__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__",
    "__array__", "__dlpack__", "__index__", "__int__", "__float__", "__lt__", "__call__", "__format__", "__sizeof__",
    "__dir__", "__buffer__", "__fspath__", "__next__", "__keys__", "keys", "items", "values", "copy",
]  # fmt: skip

BODY: dict[str, Any] = {name: _trap(name) for name in TRAPS}
BODY["__class__"] = property(_trap("__class__"))
BODY["secret"] = property(_trap("secret"))


def _getattribute(self: Any, name: str) -> Any:
    if _ARMED[0]:
        RAN.append(f"__getattribute__ {name}")
        raise RuntimeError(name)
    return object.__getattribute__(self, name)


BODY["__getattribute__"] = _getattribute


class HostileMeta(type):
    def __hash__(cls) -> int:
        if _ARMED[0]:
            RAN.append("meta hash")
        return type.__hash__(cls)

    def __eq__(cls, other: object) -> bool:
        if _ARMED[0]:
            RAN.append("meta eq")
        return cls is other

    def __getattribute__(cls, name: str) -> Any:
        if _ARMED[0]:
            RAN.append(f"meta {name}")
            raise RuntimeError(name)
        return type.__getattribute__(cls, name)

    def __instancecheck__(cls, other: object) -> bool:
        if _ARMED[0]:
            RAN.append("instancecheck")
        return True

    def __subclasscheck__(cls, other: object) -> bool:
        if _ARMED[0]:
            RAN.append("subclasscheck")
        return True

    def mro(cls) -> list[type]:
        return type.mro(cls)


def hostile(*bases: type, meta: type = HostileMeta) -> Any:
    return meta("Hostile", bases, dict(BODY))


Plain = hostile()
WithSlots = HostileMeta("WithSlots", (), {**BODY, "__slots__": ("x", "y")})


def make(cls: Any, *args: Any) -> Any:
    obj = cls.__new__(cls, *args) if args else cls.__new__(cls)
    return obj


def plain_object() -> Any:
    obj = make(Plain)
    object.__getattribute__(obj, "__dict__").update(x=1, y=[2])
    return obj


def slotted() -> Any:
    obj = make(WithSlots)
    type(obj).__dict__["x"].__set__(obj, 5)
    return obj


def list_sub() -> Any:
    obj = make(hostile(list))
    list.extend(obj, [1, 2])
    return obj


def dict_sub() -> Any:
    obj = make(hostile(dict))
    dict.__setitem__(obj, "a", 1)
    return obj


def set_sub() -> Any:
    obj = make(hostile(set))
    set.add(obj, 1)
    return obj


def keyed() -> Any:
    return {plain_object(): 1, plain_object(): 2} if not _ARMED[0] else None


def holder(kind: Any) -> Any:
    return lambda: kind(plain_object())


class Raising(Exception):
    def __str__(self) -> str:
        RAN.append("exception str")
        raise RuntimeError

    __repr__ = __str__


CASES: dict[str, Any] = {
    "plain": plain_object,
    "slots": slotted,
    "list": list_sub,
    "dict": dict_sub,
    "set": set_sub,
    "str": lambda: make(hostile(str), "text"),
    "int": lambda: make(hostile(int), 5),
    "float": lambda: make(hostile(float), 1.5),
    "bytes": lambda: make(hostile(bytes), b"raw"),
    "tuple": lambda: make(hostile(tuple), (1, 2)),
    "frozenset": lambda: make(hostile(frozenset), [1]),
    "complex": lambda: make(hostile(complex), 1j),
    "bytearray": lambda: make(hostile(bytearray)),
    "deque": lambda: make(hostile(deque)),
    "ordered": lambda: make(hostile(OrderedDict)),
    "counter": lambda: make(hostile(Counter)),
    "defaultdict": lambda: make(hostile(defaultdict)),
    "in a list": lambda: [plain_object(), 1, "a"],
    "in a tuple": lambda: (plain_object(),),
    "as values": lambda: {"a": plain_object()},
    "as colliding keys": keyed,
    "in a set": lambda: {plain_object()},
    "in a frozenset": lambda: frozenset([plain_object()]),
    "in a deque": lambda: deque([plain_object()]),
    "as keys of an ordered dict": lambda: OrderedDict([(plain_object(), 1)]),
    "as keys of a counter": lambda: Counter([plain_object()]),
    "the class itself": lambda: hostile(),
    "the metaclass": lambda: HostileMeta,
    "a method": lambda: plain_object().__getitem__,
    "an exception": lambda: Raising(1),
    "an exception holding one": lambda: ValueError(plain_object()),
    "deep": lambda: [[[{"a": (plain_object(),)}]]],
    "mixed with scalars": lambda: [1, 2.5, plain_object(), None, make(hostile(int), 3)],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("keep", ["auto", "full", "summary", "small"])
def test_user_code_never_runs(name: str, keep: str) -> None:
    value = CASES[name]()
    policy = Keep(item_limit=1, text_limit=1, array_limit=1) if keep == "small" else parse_keep(keep)
    _ARMED[0] = True
    found = capture(value, policy)
    again = capture(value, policy)
    assert found.digest == again.digest
    assert found.unchanged(value)
    decode(found.value)
    _ARMED[0] = False


def test_what_a_hostile_object_holds_is_recorded() -> None:
    value = plain_object()
    _ARMED[0] = True
    found = capture(value)
    back = decode(found.value)
    _ARMED[0] = False
    assert found.value.kept is Kept.FULL
    assert isinstance(back, Object) and back.attributes == {"x": 1, "y": [2]}


def test_a_change_in_a_hostile_object_is_noticed() -> None:
    value = plain_object()
    found = capture(value)
    object.__getattribute__(value, "__dict__")["y"].append(3)
    _ARMED[0] = True
    assert not found.unchanged(value)
    assert capture(value).digest != found.digest
    _ARMED[0] = False


def test_a_hostile_object_put_in_the_place_of_a_scalar_is_not_asked() -> None:
    value: list[Any] = [1, 2, 3]
    table: dict[str, Any] = {"a": 1}
    found, other = capture(value), capture(table)
    value[1] = table["a"] = plain_object()
    _ARMED[0] = True
    assert not found.unchanged(value)
    assert not other.unchanged(table)
    assert not capture(1).unchanged(value[1])
    _ARMED[0] = False


def test_a_lie_about_the_instance_dict_is_not_believed() -> None:
    class Liar:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            RAN.append("__dict__")
            return {"x": "lie"}

    value = Liar()
    decode(capture(value).value)
    assert capture(value).unchanged(value)


def test_slots_hidden_behind_a_property_of_a_subclass_are_read_as_they_are() -> None:
    class Base:
        __slots__ = ("x",)

        def __init__(self) -> None:
            self.x = 1

    class Lies(Base):
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            if _ARMED[0]:
                RAN.append(name)
            return object.__getattribute__(self, name)

    value = Lies()
    _ARMED[0] = True
    back = decode(capture(value).value)
    _ARMED[0] = False
    assert back.attributes == {"x": 1}


def test_an_enum_with_code_of_its_own_is_recorded_by_name_and_value() -> None:
    class Color(enum.Enum):
        RED = 1

        def __repr__(self) -> str:
            RAN.append("repr")
            return "x"

        @property
        def value(self) -> Any:  # type: ignore[override]
            RAN.append("value")
            return 5

    back = decode(capture([Color.RED, Color.RED]).value)
    RAN.clear() if RAN == [] else None
    assert back[0].attributes == {"name": "RED", "value": 1}


def test_a_class_that_was_thrown_away_is_forgotten() -> None:
    import gc
    import weakref

    class Gone:
        def __init__(self) -> None:
            self.x = 1

    capture(Gone())
    ref = weakref.ref(Gone)
    del Gone
    gc.collect()
    assert ref() is None

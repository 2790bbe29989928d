"""What can be known of a class without running a line of it: not its metaclass, not its descriptors.

`cls.__name__`, `cls.__mro__` and `cls.__dict__` may all be answered by a user's metaclass. The getters below are
those of `type` itself, called directly.
"""

from __future__ import annotations

import struct
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

_OF_TYPE: Final = type.__dict__
mro_of: Final[Any] = _OF_TYPE["__mro__"].__get__
dict_of: Final[Any] = _OF_TYPE["__dict__"].__get__
_name_of: Final[Any] = _OF_TYPE["__name__"].__get__
qualname_of: Final[Any] = _OF_TYPE["__qualname__"].__get__
_flags_of: Final[Any] = _OF_TYPE["__flags__"].__get__
_base_of: Final[Any] = _OF_TYPE["__base__"].__get__
_basicsize_of: Final[Any] = _OF_TYPE["__basicsize__"].__get__
_HEAP: Final = 1 << 9
_IMMUTABLE: Final = 1 << 8
_POINTER: Final = struct.calcsize("P")

_UNSAID: Final = ("builtins", "__main__")  # modules people leave out when they name a type


def type_name(cls: type) -> str:
    """As people write it: "list", "numpy.ndarray", "mypkg.Config"."""
    module, name = module_of(cls), qualname_of(cls)
    return name if module in _UNSAID or not module else f"{module}.{name}"


def module_of(cls: type) -> str:
    """The module a class says it comes from; "" where it does not say it in a plain string."""
    if not _flags_of(cls) & _HEAP:
        return _static_module(cls)
    module = dict_of(cls).get("__module__")
    return module if type(module) is str else ""


def _static_module(cls: type) -> str:
    module: object = _OF_TYPE["__module__"].__get__(cls)
    return module if type(module) is str else ""


def is_python_class(cls: type) -> bool:
    """True for a class made by a `class` statement: all its instances hold are its slots and their dict.

    Types written in C can look the same but for two things: they may be marked immutable, and their instances are
    larger than the base, the slots, the dict and the weak references account for.
    """
    flags = _flags_of(cls)
    if not flags & _HEAP or flags & _IMMUTABLE:
        return False
    own = dict_of(cls)
    shown = sum(type(x) is MemberDescriptorType for x in own.values())
    shown += ("__dict__" in own) + ("__weakref__" in own)
    base = _base_of(cls)
    return base is None or _basicsize_of(cls) <= _basicsize_of(base) + shown * _POINTER


def inherits(cls: type, base: type) -> bool:
    """`issubclass` by the real method resolution order: no `__subclasscheck__`, no `__class__` lies."""
    return any(c is base for c in mro_of(cls))


def is_really(value: object, *kinds: type) -> bool:
    """`isinstance`, which would ask the value for its `__class__`."""
    return any(inherits(type(value), kind) for kind in kinds)


def is_exactly(value: object, *kinds: type) -> bool:
    """`type(value) in kinds`, which would ask a user's metaclass whether it is equal, or for its hash."""
    own = type(value)
    return any(own is kind for kind in kinds)


class Layout:
    """Where the instances of a class keep their attributes.

    Descriptors hold their class, and a table that held them would keep every class alive that was ever looked at.
    So this remembers only at which place of the method resolution order they stand.
    """

    __slots__ = ("_dict_at", "_slots_at")

    def __init__(self, cls: type) -> None:
        self._dict_at = _place_of_dict(cls)
        self._slots_at = _places_of_slots(cls)

    @property
    def is_empty(self) -> bool:
        return self._dict_at is None and not self._slots_at

    def dict_getter(self, cls: type) -> Any | None:
        """The built-in getter of the instance `__dict__`, or None if there is none that can be trusted."""
        if self._dict_at is None:
            return None
        return dict_of(mro_of(cls)[self._dict_at])["__dict__"].__get__

    def slots(self, cls: type) -> list[tuple[str, Any]]:
        """Names and built-in getters of the slots, those of base classes first."""
        mro = mro_of(cls)
        return [(name, dict_of(mro[place])[name].__get__) for place, name in self._slots_at]


def _place_of_dict(cls: type) -> int | None:
    for place, base in enumerate(mro_of(cls)):
        if type(dict_of(base).get("__dict__")) is GetSetDescriptorType and base is not type:
            return place
    return None


def _places_of_slots(cls: type) -> list[tuple[int, str]]:
    mro = mro_of(cls)
    found: dict[str, int] = {}
    for place in range(len(mro) - 1, -1, -1):
        if is_python_class(mro[place]):
            for name, descriptor in dict_of(mro[place]).items():
                if type(name) is str and type(descriptor) is MemberDescriptorType:
                    found[name] = place
    return [(place, name) for name, place in found.items()]


def instance_dict_of(obj: Any) -> dict[str, Any]:
    """The real instance `__dict__`; an empty one if there is none."""
    cls = type(obj)
    place = _place_of_dict(cls)
    inside: dict[str, Any] = {} if place is None else dict_of(mro_of(cls)[place])["__dict__"].__get__(obj)
    return inside

"""What can be known of a class without running a line of it: not its metaclass, not its descriptors.

`cls.__name__`, `cls.__mro__` and `cls.__dict__` may all be answered by a user's metaclass. The getters below are
those of `type` itself, called directly.
"""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

_OF_TYPE: Final = type.__dict__
mro_of: Final[Any] = _OF_TYPE["__mro__"].__get__
dict_of: Final[Any] = _OF_TYPE["__dict__"].__get__
_name_of: Final[Any] = _OF_TYPE["__name__"].__get__
_qualname_of: Final[Any] = _OF_TYPE["__qualname__"].__get__
_flags_of: Final[Any] = _OF_TYPE["__flags__"].__get__
_HEAP: Final = 1 << 9

_UNSAID: Final = ("builtins", "__main__")  # modules people leave out when they name a type


def type_name(cls: type) -> str:
    """As people write it: "list", "numpy.ndarray", "mypkg.Config"."""
    module, name = module_of(cls), _qualname_of(cls)
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
    """True for a class made by a `class` statement (or by `type(...)`), which may hold code of a user."""
    return bool(_flags_of(cls) & _HEAP) and "__module__" in dict_of(cls)


def inherits(cls: type, base: type) -> bool:
    """`issubclass` by the real method resolution order: no `__subclasscheck__`, no `__class__` lies."""
    return any(c is base for c in mro_of(cls))


def instance_dict_getter(cls: type) -> Any | None:
    """The built-in getter of the instance `__dict__`, or None if there is none that can be trusted."""
    for base in mro_of(cls):
        found = dict_of(base).get("__dict__")
        if type(found) is GetSetDescriptorType and base is not type:
            return found.__get__
    return None


def slots_of(cls: type) -> list[tuple[str, Any]]:
    """Names and built-in getters of the slots of a class and its bases, base first, `__weakref__` left out."""
    found: dict[str, Any] = {}
    for base in reversed(mro_of(cls)):
        if not is_python_class(base):
            continue
        for name, descriptor in dict_of(base).items():
            if type(name) is str and type(descriptor) is MemberDescriptorType:
                found[name] = descriptor.__get__
    return list(found.items())

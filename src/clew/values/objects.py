"""Instances of classes: their real attributes, read through the built-in getters only.

A user's subclass of a built-in type gives its content under "value", beside its attributes. What has its state out of
sight (functions, generators, locks, files, C extensions) is opaque: named, and compared by identity.
"""

from __future__ import annotations

import enum
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from clew.records import Kept, NotKept, Object, Summary
from clew.values import python
from clew.values.adapters import BAG, MAPPING, Handler, Look, Looking, Node, register
from clew.values.class_facts import (
    Layout,
    dict_of,
    inherits,
    instance_dict_of,
    is_python_class,
    module_of,
    mro_of,
    type_name,
)

MAX_OBJECTS: Final = 3  # plain objects are followed this deep
TOO_FAR: Final = f"more than {MAX_OBJECTS} objects deep"
_UNSET: Final = object()

# Machinery that hangs together with half the process: nothing to learn from its attributes.
_MACHINERY: Final = frozenset(
    (
        "asyncio",
        "concurrent",
        "importlib",
        "logging",
        "multiprocessing",
        "socket",
        "ssl",
        "subprocess",
        "threading",
        "weakref",
    )
)

_READ_BACK: Final = (Object, NotKept, Summary)

_Content = Callable[[Any, Looking], Any]


def look_of_class(cls: type, content_name: str = "", content: _Content | None = None, base: type = object) -> Look:
    """For adapters: how to look at a subclass of `base`, whose own content `content` gives."""
    return _ObjectLook(cls, content_name, content, base)


def claim(cls: type) -> Handler:
    """Every type that no other adapter took."""
    name = _name_getter(cls)
    if name is not None:
        return Handler(None, _named_opaque(name))
    if inherits(cls, enum.Enum):
        return Handler(None, _look_enum)
    if inherits(cls, BaseException):
        return Handler(None, _ObjectLook(cls, "args", _args_of))
    if inherits(cls, tuple) and _field_names(cls) is not None:
        return Handler(None, _look_namedtuple)
    if module_of(cls).partition(".")[0] in _MACHINERY or _is_own(cls):
        return Handler(None, _look_opaque)
    for base, content in _CONTENTS.items():
        if inherits(cls, base):
            return Handler(None, _ObjectLook(cls, "value", content))
    if _has_attributes(cls):
        return Handler(None, _ObjectLook(cls))
    return Handler(None, _look_opaque)


def _is_own(cls: type) -> bool:
    """clew's own machinery; what people read back is not, and may be a value of theirs again."""
    return module_of(cls).startswith("clew.") and not any(inherits(cls, known) for known in _READ_BACK)


# ---- opaque things, and their names


def _look_opaque(obj: Any, walk: Looking) -> Node:
    return python.opaque(obj, "not looked into")


def _named_opaque(name_of: Callable[[Any], Any]) -> Callable[[Any, Looking], Node]:
    def look(obj: Any, walk: Looking) -> Node:
        name = name_of(obj)
        return python.opaque(obj, "not looked into", name if type(name) is str else "")

    return look


def _function_name(obj: Any) -> Any:
    module, name = _FUNCTION["__module__"].__get__(obj), _FUNCTION["__qualname__"].__get__(obj)
    return f"{module}.{name}" if type(module) is str else name


def _module_name(obj: Any) -> Any:
    return _MODULE_DICT(obj).get("__name__")


def _method_name(obj: Any) -> Any:
    function = _METHOD_FUNCTION(obj)
    return _function_name(function) if type(function) is types.FunctionType else ""


_FUNCTION: Final[Any] = types.FunctionType.__dict__
_METHOD_FUNCTION: Final[Any] = types.MethodType.__dict__["__func__"].__get__
_MODULE_DICT: Final[Any] = dict_of(types.ModuleType)["__dict__"].__get__


def _name_getter(cls: type) -> Callable[[Any], Any] | None:
    if cls is types.FunctionType:
        return _function_name
    if cls is types.MethodType:
        return _method_name
    if cls is types.BuiltinFunctionType:
        return lambda obj: obj.__qualname__
    if inherits(cls, types.ModuleType):
        return _module_name
    if inherits(cls, type):
        return type_name
    return None


# ---- enums and named tuples


def _look_enum(obj: Any, walk: Looking) -> Node:
    """A member is one object for good; its name and value stand in its instance dict."""
    name = type_name(type(obj))
    inside = instance_dict_of(obj)
    keys = ["name", "value"]
    return Node(name, "object", MAPPING, [inside.get("_name_"), inside.get("_value_")], keys, {"type": name})


def _field_names(cls: type) -> tuple[str, ...] | None:
    for base in mro_of(cls):
        fields = dict_of(base).get("_fields")
        if type(fields) is tuple and all(type(f) is str for f in fields):
            return fields
    return None


def _look_namedtuple(obj: Any, walk: Looking) -> Node:
    name = type_name(type(obj))
    items = list(tuple.__iter__(obj))
    fields = list(_field_names(type(obj)) or ())
    if len(fields) != len(items):  # `_fields` says something else than the tuple
        fields = [str(i) for i in range(len(items))]
    return Node(name, "object", MAPPING, items, fields, {"type": name})


# ---- the content of subclasses of built-in types, by the methods of the base; the guard is on the object itself


def _args_of(obj: Any, walk: Looking) -> Any:
    return _ARGS(obj)


_ARGS: Final[Any] = BaseException.__dict__["args"].__get__


def _list_of(obj: Any, walk: Looking) -> Any:
    content = list.copy(obj)
    walk.guard(python.same_list, obj, content)
    return content


def _dict_of(obj: Any, walk: Looking) -> Any:
    """As a node of its own kind: a new dict would hash the keys again, which runs their code."""
    kept = python.snapshot(obj)
    walk.guard(python.same_dict, obj, kept)
    return Content(kept)


def _set_of(obj: Any, walk: Looking) -> Any:
    content = list(set.__iter__(obj))
    walk.guard(python.same_set, obj, content)
    return Content((content,), "set")


def _deque_of(obj: Any, walk: Looking) -> Any:
    content = list(deque.__iter__(obj))
    walk.guard(python.same_deque, obj, content)
    return content


def _bytearray_of(obj: Any, walk: Looking) -> Any:
    content = bytearray.__getitem__(obj, slice(None))
    walk.guard(_same_bytearray, obj, bytes(content))
    return content


def _same_bytearray(current: Any, kept: bytes) -> bool:
    return bytes(bytearray.__getitem__(current, slice(None))) == kept


class Content:
    """The content of a user's dict or set, as it was: keys and values, or members."""

    __slots__ = ("kind", "rows")

    def __init__(self, rows: tuple[Any, ...], kind: str = "dict") -> None:
        self.rows = rows
        self.kind = kind


def look_content(obj: Content, walk: Looking) -> Node:
    if obj.kind == "dict":
        return Node("dict", "", MAPPING, list(obj.rows[1]), list(obj.rows[0]))
    return Node(obj.kind, obj.kind, BAG, list(obj.rows[0]))


register(Content, look=look_content)

_CONTENTS: Final[dict[type, _Content]] = {
    list: _list_of,
    dict: _dict_of,
    str: lambda obj, walk: str.__str__(obj),
    int: lambda obj, walk: int.__int__(obj),
    float: lambda obj, walk: float.__float__(obj),
    bytes: lambda obj, walk: bytes.__getitem__(obj, slice(None)),
    tuple: lambda obj, walk: tuple.__getitem__(obj, slice(None)),
    complex: lambda obj, walk: complex.__pos__(obj),
    set: _set_of,
    frozenset: lambda obj, walk: Content((list(frozenset.__iter__(obj)),), "frozenset"),
    deque: _deque_of,
    bytearray: _bytearray_of,
}

_UNDERSTOOD: Final = (object, BaseException, OrderedDict, defaultdict, Counter, *_CONTENTS)


# ---- plain objects


def _has_attributes(cls: type) -> bool:
    return is_python_class(cls) and not Layout(cls).is_empty


class _ObjectLook:
    """How the instances of one class are looked at; what can be known of the class is found out once."""

    __slots__ = ("_content", "_content_name", "_layout", "_name", "_why")

    def __init__(self, cls: type, content_name: str = "", content: _Content | None = None, base: type = object) -> None:
        # the class itself is not held: a class made and thrown away must be able to go
        self._name = type_name(cls)
        self._layout = Layout(cls)
        self._content_name = content_name
        self._content = content
        self._why = _unseen_state(cls, base)

    def __call__(self, obj: Any, walk: Looking) -> Node:
        if walk.objects >= MAX_OBJECTS and self._content is None:
            return python.opaque(obj, "an object, only its type was noted" if walk.light else TOO_FAR)
        keys: list[Any] = []
        items: list[Any] = []
        self._read_attributes(obj, walk, keys, items)
        if self._content is not None:
            keys.insert(0, self._free_name(keys))
            items.insert(0, self._content(obj, walk))
        node = Node(self._name, "object", MAPPING, items, keys, {"type": self._name})
        node.far = self._content is None
        if self._why:
            node.kept, node.why = Kept.PART, self._why
        return node

    def _read_attributes(self, obj: Any, walk: Looking, keys: list[Any], items: list[Any]) -> None:
        cls = type(obj)
        slots = []
        for name, get in self._layout.slots(cls):
            value = _slot(get, obj)
            slots.append((get, value))
            if value is not _UNSET:
                keys.append(name)
                items.append(value)
        get_dict = self._layout.dict_getter(cls)
        inside = None if get_dict is None else get_dict(obj)
        kept = None if inside is None else python.snapshot(inside)
        if kept is not None:
            keys.extend(kept[0])
            items.extend(kept[1])
        walk.guard(_same_object, obj, (cls, slots, get_dict, inside, kept))

    def _free_name(self, keys: list[Any]) -> str:
        name = self._content_name
        while any(type(k) is str and k == name for k in keys):
            name = f"{name}_"
        return name


def _slot(get: Any, obj: Any) -> Any:
    try:
        return get(obj)
    except AttributeError:
        return _UNSET


def _same_object(obj: Any, kept: tuple[type, list[tuple[Any, Any]], Any, Any, Any]) -> bool:
    cls, slots, get_dict, inside, content = kept
    if type(obj) is not cls:  # `obj.__class__ = Other`
        return False
    for get, value in slots:
        if _slot(get, obj) is not value:
            return False
    if inside is None:
        return True
    return get_dict(obj) is inside and python.same_dict(inside, content)


def _unseen_state(cls: type, understood: type) -> str:
    """A base written in C may keep more than the attributes show: then the object was not kept in full."""
    for base in mro_of(cls):
        if is_python_class(base) or any(base is known for known in _UNDERSTOOD) or inherits(understood, base):
            continue
        if not inherits(base, BaseException):
            return f"what its base {type_name(base)} holds is not looked into"
    return ""

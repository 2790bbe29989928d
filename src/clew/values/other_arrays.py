"""Arrays of other known libraries (JAX, TensorFlow, CuPy), through NumPy.

Only types of these libraries are asked for their `__array__`: on a user's class it would be user code.
JAX arrays and TensorFlow's eager tensors are immutable, so the test is their identity; the others are read again.
"""

from __future__ import annotations

from typing import Any, Final

from clew.records import Kept, Summary
from clew.values.adapters import Handler, Looking, Node, Unwatched
from clew.values.class_facts import module_of, type_name

# module of the type, its name, whether values of it never change
_KNOWN: Final = (
    ("jaxlib", "ArrayImpl", True),
    ("jax", "ArrayImpl", True),
    ("tensorflow", "EagerTensor", True),
    ("tensorflow", "ResourceVariable", False),
    ("tensorflow", "UninitializedVariable", False),  # of a SavedModel: by now it has a value
    ("cupy", "ndarray", False),
)


def claim(cls: type) -> Handler | None:
    library, name = module_of(cls).partition(".")[0], type_name(cls).rpartition(".")[2]
    for module, known, constant in _KNOWN:
        if library == module and name == known:
            return Handler(None, ArrayLook(type_name(cls), constant))
    return None


class ArrayLook:
    """Looks at such an array as the NumPy array it gives."""

    __slots__ = ("_constant", "_name")

    def __init__(self, name: str, constant: bool) -> None:
        self._name = name
        self._constant = constant

    def __call__(self, obj: Any, walk: Looking) -> Node:
        from clew.values import numpy as arrays

        array = to_numpy(obj)
        bare = Unwatched(walk)
        inner = arrays.look_array(array, bare)
        inner.type = self._name
        inner.note = {**(inner.note or {}), "device": _device(obj)}
        inner.summary = inner.summary or Summary()
        inner.summary.device = _device(obj)
        if not self._constant:
            walk.guard(_same_content, obj, bare.tests)
        if inner.kept is Kept.SUMMARY and inner.aside is not None:
            inner.aside["summary"] = arrays.written_summary(inner.summary)
        return inner


def to_numpy(obj: Any) -> Any:
    """The array in the memory of the host; CuPy arrays refuse `__array__` and have `get`."""
    import numpy as np

    cls = type(obj)
    if module_of(cls).startswith("cupy") and hasattr(cls, "get"):
        return obj.get()
    if hasattr(cls, "__array__"):
        return np.asarray(obj)
    if hasattr(cls, "__dlpack__"):
        return np.from_dlpack(obj)
    raise TypeError(f"a {type_name(cls)} gives no array")  # np.asarray would wrap it into an array of objects


def _device(obj: Any) -> str:
    found = getattr(obj, "device", "")
    return str(found() if callable(found) else found) or "cpu"


def _same_content(obj: Any, tests: list[Any]) -> bool:
    array = to_numpy(obj)
    return all(test(array) for test in tests)


READERS: Final[dict[str, Any]] = {}

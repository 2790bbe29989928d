"""Arrays of other libraries, by stand-ins that carry the names of the real ones and hold NumPy inside."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from clew import trouble
from clew.records import Kept, NotKept
from clew.values import Keep, capture, decode, summary_of

Make = Callable[..., Any]


class Base:
    """What the stand-ins share: an array that is not theirs to give away."""

    device = "fake:0"

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __getattribute__(self, name: str) -> Any:
        if name in ("shape", "tolist", "__iter__", "__len__"):
            raise AssertionError("asked for more than its array")
        return object.__getattribute__(self, name)


def by_array(self: Any, dtype: Any = None, copy: Any = None) -> Any:
    return self.inside


def by_dlpack(self: Any, **how: Any) -> Any:
    return self.inside.__dlpack__(**how)


def dlpack_device(self: Any) -> Any:
    return self.inside.__dlpack_device__()


def failing(self: Any, dtype: Any = None, copy: Any = None) -> Any:
    raise RuntimeError("Array has been deleted")


def get(self: Any) -> Any:
    return self.inside.copy()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes an array of a class with the module and name of a real one, whose library counts as loaded."""

    def made(library: str, module: str, name: str, inside: Any, **methods: Any) -> Any:
        monkeypatch.setitem(sys.modules, library, ModuleType(library))
        cls = type(name, (Base,), {"__module__": module, "__qualname__": name, **methods})
        return cls(inside)

    return made


KINDS: dict[str, tuple[str, str, str, dict[str, Any], bool]] = {
    "jax": ("jax", "jaxlib._jax", "ArrayImpl", {"__array__": by_array}, True),
    "eager": ("tensorflow", "tensorflow.python.framework.ops", "EagerTensor", {"__array__": by_array}, True),
    "variable": ("tensorflow", "tensorflow.python.ops.vars", "ResourceVariable", {"__array__": by_array}, False),
    "cupy": ("cupy", "cupy", "ndarray", {"get": get, "__array__": failing}, False),
    "dlpack": ("cupy", "cupy", "ndarray", {"__dlpack__": by_dlpack, "__dlpack_device__": dlpack_device}, False),
}
EACH = pytest.mark.parametrize("kind", list(KINDS))


def of_kind(make: Make, kind: str, inside: Any) -> Any:
    library, module, name, methods, _ = KINDS[kind]
    return make(library, module, name, inside, **methods)


@EACH
def test_such_an_array_reads_back_as_a_numpy_array(make: Make, kind: str) -> None:
    value = of_kind(make, kind, np.arange(6, dtype="f4").reshape(2, 3))
    found = capture(value)
    assert found.value.kept is Kept.FULL
    assert found.value.type == f"{KINDS[kind][1]}.{KINDS[kind][2]}"
    assert (found.value.summary.shape, found.value.summary.dtype) == ((2, 3), "float32")
    assert found.value.summary.device == "fake:0"
    back = decode(found.value)
    assert back.dtype == np.float32 and back.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert summary_of(found.value).max == 5


@EACH
def test_such_an_array_is_unchanged_until_it_changes(make: Make, kind: str) -> None:
    inside = np.zeros(3)
    value = of_kind(make, kind, inside)
    found, held = capture(value), capture([value])
    assert found.unchanged(value)
    assert capture(of_kind(make, kind, np.zeros(3))).digest == found.digest
    never_changes = KINDS[kind][4]
    inside[1] = 5
    assert found.unchanged(value) is never_changes  # what says it never changes is taken at its word
    assert capture(value).digest != found.digest
    assert held.digest != capture([value]).digest


@EACH
def test_another_array_is_not_the_same_one(make: Make, kind: str) -> None:
    assert not capture(of_kind(make, kind, np.zeros(3))).unchanged(of_kind(make, kind, np.ones(3)))


@EACH
def test_such_an_array_in_a_container_reads_back(make: Make, kind: str) -> None:
    value = {"w": of_kind(make, kind, np.arange(3)), "n": 1}
    found = capture(value)
    assert found.unchanged(value)
    back = decode(found.value)
    assert back["n"] == 1 and back["w"].tolist() == [0, 1, 2]


@EACH
def test_such_an_array_over_the_limit_is_summarised(make: Make, kind: str) -> None:
    value = of_kind(make, kind, np.arange(1000.0))
    found = capture(value, Keep(array_limit=100))
    assert found.value.kept is Kept.SUMMARY and found.value.summary.max == 999
    back = decode(capture([value], Keep(array_limit=100)).value).part[0]
    assert isinstance(back, NotKept) and back.summary.device == "fake:0" and back.summary.min == 0


def test_an_array_that_refuses_is_opaque_and_reported_once(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    trouble.forget()
    value = make("jax", "jaxlib._jax", "ArrayImpl", np.zeros(3), __array__=failing)
    for _ in range(2):
        found = capture(value)
        assert found.value.kept is Kept.OPAQUE and "could not be looked at: RuntimeError" in found.value.why
        assert found.unchanged(value)
    assert capsys.readouterr().err.count("could not be looked at") == 1


def test_an_array_that_gives_nothing_is_opaque(make: Make) -> None:
    found = capture(make("jax", "jaxlib._jax", "ArrayImpl", np.zeros(3)))
    assert found.value.kept is Kept.OPAQUE and "TypeError" in found.value.why


def test_a_users_class_with_an_array_method_is_an_object_like_any_other(make: Make) -> None:
    found = capture(make("jax", "mypackage", "ArrayImpl", [1], __array__=failing))
    assert found.value.kept is Kept.FULL and decode(found.value).inside == [1]

"""A value on its way through a pipeline that is being recorded. It behaves as the value it holds.

What is done with it becomes a step, and gives another such value. Where Python insists on a plain answer (is it true?
how long is it?), the answer is given and a guard is written: a replay that would answer otherwise says so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from wrapt import ObjectProxy

from clew.graph import tensorflow

if TYPE_CHECKING:
    from .session import Session


class Traced(ObjectProxy[Any]):
    """A value that came from an input or an operator."""

    def __init__(self, value: Any, session: Session, id: int) -> None:
        super().__init__(value)
        self._self_session = session
        self._self_id = id

    # ---- plain answers

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance() asks for it
        return self._self_session.class_of(self)

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return self._self_session.step("attribute", "__dict__", (self,))

    __name__ = property(lambda self: self._self_session.step("attribute", "__name__", (self,)))

    def __bool__(self) -> bool:
        return bool(self._self_session.decide("truth", self))

    def __len__(self) -> int:
        return int(self._self_session.decide("length", self))

    def __iter__(self) -> Iterator[Any]:
        return self._self_session.unpacked(self)

    def __next__(self) -> Any:
        return self._self_session.step("function", "builtins:next", (self,))

    def __hash__(self) -> int:
        return hash(self._self_session.plain(self))

    def __index__(self) -> int:
        return operator.index(self._self_session.plain(self))

    def __int__(self) -> int:
        return int(self._self_session.plain(self))

    def __float__(self) -> float:
        return float(self._self_session.plain(self))

    def __complex__(self) -> complex:
        return complex(self._self_session.plain(self))

    def __str__(self) -> str:
        return str(self._self_session.plain(self))

    def __format__(self, spec: str) -> str:
        return format(self._self_session.plain(self), spec)

    def __bytes__(self) -> bytes:
        return bytes(self._self_session.plain(self))

    def __fspath__(self) -> Any:
        import os

        return os.fspath(self._self_session.plain(self))

    def __repr__(self) -> str:
        """Of the text a program may make what it likes: what it is made of is guarded like any other text."""
        return repr(self._self_session.plain(self))

    def __contains__(self, item: Any) -> bool:
        return bool(self._self_session.step("python", "contains", (self, item)))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy as np

        return np.asarray(self._self_session.plain(self), *args, **kwargs)

    def __tf_tensor__(self, dtype: Any = None, name: Any = None) -> Any:
        return tensorflow.as_tensor(self, raw(self), dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:  # pickled, copied: the value is
        return self._self_session.plain(self).__reduce_ex__(protocol)

    # ---- steps

    def __getattr__(self, name: str) -> Any:
        session, wrapped = self._self_session, raw(self)
        if session.closed or (name.startswith("__") and not hasattr(wrapped, name)):  # libraries ask for protocols
            return getattr(wrapped, name)
        tensorflow.look_away(wrapped, name)
        return session.step("attribute", name, (self,))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_self_") or name == "__wrapped__":
            super().__setattr__(name, value)
        else:
            self._self_session.step("python", "setattr", (self, name, value), changes=self)

    def __delattr__(self, name: str) -> None:
        self._self_session.step("python", "delattr", (self, name), changes=self)

    def __getitem__(self, key: Any) -> Any:
        return self._self_session.step("item", "", (self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._self_session.step("python", "setitem", (self, key, value), changes=self)

    def __delitem__(self, key: Any) -> None:
        self._self_session.step("python", "delitem", (self, key), changes=self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._self_session.step("python", "call", (self, *args), kwargs, changes=self)

    def __enter__(self) -> Any:
        return self._self_session.step("method", "__enter__", (self,))

    def __exit__(self, *raised: Any) -> Any:
        return bool(self._self_session.step("method", "__exit__", (self, *raised)))

    def __copy__(self) -> Any:
        return self._self_session.step("function", "copy:copy", (self,))

    def __deepcopy__(self, memo: Any) -> Any:
        return self._self_session.step("function", "copy:deepcopy", (self,))

    def __divmod__(self, other: Any) -> Any:
        return self._self_session.step("function", "builtins:divmod", (self, other))

    def __rdivmod__(self, other: Any) -> Any:
        return self._self_session.step("function", "builtins:divmod", (other, self))

    def __reversed__(self) -> Any:
        return iter(self._self_session.step("function", "builtins:reversed", (self,)))

    def __trunc__(self) -> Any:
        return self._self_session.step("function", "math:trunc", (self,))

    def __floor__(self) -> Any:
        return self._self_session.step("function", "math:floor", (self,))

    def __ceil__(self) -> Any:
        return self._self_session.step("function", "math:ceil", (self,))

    # ---- libraries that ask the value

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self._self_session.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self._self_session.library_call(func, args, kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from .session import of_values

        return of_values((args, kwargs)).torch_call(func, args, kwargs or {})


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and", "or", "xor")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY = ("neg", "pos", "abs", "invert")


def _binary(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    def forward(self: Traced, other: Any) -> Any:
        return self._self_session.step("python", name, (self, other))

    def reflected(self: Traced, other: Any) -> Any:
        return self._self_session.step("python", name, (other, self))

    def in_place(self: Traced, other: Any) -> Any:
        return self._self_session.step("python", f"i{name}", (self, other), changes=self)

    return forward, reflected, in_place


def _single(name: str) -> Callable[[Any], Any]:
    def apply(self: Traced) -> Any:
        return self._self_session.step("python", name, (self,))

    return apply


for _name in BINARY:
    for _slot, _made in zip((f"__{_name}__", f"__r{_name}__", f"__i{_name}__"), _binary(_name), strict=True):
        setattr(Traced, _slot, _made)
for _name in COMPARISONS:
    setattr(Traced, f"__{_name}__", _binary(_name)[0])
for _name in UNARY:
    setattr(Traced, f"__{_name}__", _single(_name))


def _rounded(self: Traced, digits: Any = None) -> Any:
    given = (self,) if digits is None else (self, digits)
    return self._self_session.step("function", "builtins:round", given)


setattr(Traced, "__round__", _rounded)  # noqa: B010  (mypy knows another signature)


def is_traced(value: Any) -> bool:
    return type(value) is Traced


def raw(value: Any) -> Any:
    """The value itself of a recorded one."""
    return object.__getattribute__(value, "__wrapped__") if type(value) is Traced else value

"""Hot: what is put on modules: hooks, and methods of the instance's own. Copies of a module are not listened to.

A program may copy a model while it is traced (an average of its weights, `torch.save`). In the copy a hook does
nothing, and a method is the copy's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper
from types import CodeType, MethodType
from typing import Any, Final

import torch

_frame: Final = sys._getframe


def silent(*args: Any, **kwargs: Any) -> None:
    """The hook of a copy."""


def silence() -> Callable[..., None]:
    return silent


class Hook:
    """A hook on one module, or on a replica that torch's DataParallel makes of it."""

    __slots__ = ("_call", "_module")

    def __init__(self, module: Any, call: Callable[..., None]) -> None:
        self._module = module
        self._call = call

    def __call__(self, module: Any, *args: Any) -> None:
        if module is self._module or getattr(module, "_is_replica", False):
            self._call(module, *args)

    def __deepcopy__(self, memo: Any) -> Any:
        return silent

    def __reduce__(self) -> Any:
        return silence, ()


def _callers() -> frozenset[CodeType]:
    """The code in torch that calls `forward` on behalf of a module that was called."""
    own = [torch.nn.Module._call_impl.__code__, torch.nn.Module._slow_forward.__code__]
    return frozenset([*own, *(const for code in own for const in code.co_consts if isinstance(const, CodeType))])


CALLERS: Final = _callers()


class Method:
    """A method that a tracer has put on a module, in front of the one it had (`inner`).

    `heard(inner, args, kwargs)` makes the call and tells of it; a call that torch makes for a module is told by hooks.
    """

    def __init__(self, module: Any, name: str, inner: Any, heard: Callable[..., Any], *, has_hooks: bool) -> None:
        update_wrapper(self, inner, updated=())
        self.module = module
        self.name = name
        self.inner = inner
        self.owned = False  # the module had `inner` as an attribute of its own
        self._heard = heard
        self._has_hooks = has_hooks

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._has_hooks:
            caller: Any = _frame(1)
            while caller.f_code is _OWN and caller.f_back is not None:  # another tracer's
                caller = caller.f_back
            if caller.f_code in CALLERS:
                return self.inner(*args, **kwargs)
        return self._heard(self.inner, args, kwargs)

    def put(self) -> None:
        own = vars(self.module)
        self.owned = self.name in own
        own[self.name] = self

    def take_out(self) -> None:
        """Out of the chain of methods that tracers have put there, in whatever order they end."""
        own = vars(self.module)
        outer = own.get(self.name)
        if outer is self:
            if self.owned:
                own[self.name] = self.inner
            else:
                del own[self.name]
        while isinstance(outer, Method):
            if outer.inner is self:
                outer.inner, outer.owned = self.inner, self.owned
                return
            outer = outer.inner

    def __deepcopy__(self, memo: Any) -> Any:
        from copy import deepcopy

        if self.owned or isinstance(self.inner, Method):
            return deepcopy(self.inner, memo)
        copy = memo.get(id(self.module), self.module)
        return MethodType(getattr(type(copy), self.name), copy)

    def __reduce__(self) -> Any:
        return getattr, (self.module, self.name)


_OWN: Final = Method.__call__.__code__

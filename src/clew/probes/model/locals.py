"""Local variables of a method, each version of them: the method's code with a look after each statement that binds one.

The rewritten function is put on the one module that is traced, beside its class; other instances run what they ran.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from clew.probes.lines import compilers, engine, source
from clew.probes.lines.options import options
from clew.recorder.live import LiveCall
from clew.recorder.plan import Plan
from clew.values import LIGHT, SCALARS, capture

Saw = Callable[[int, Any], None]  # the index of an expression, and its value now


def rewritten(
    function: FunctionType, expressions: tuple[str, ...], enter: Callable[[], Saw | None]
) -> FunctionType | source.Unknown:
    """A function that does the same, and tells each version of these expressions to what `enter` gives; or why not."""
    original = engine.original_code(function)
    found = source.find(original, function.__globals__)
    if isinstance(found, source.Unknown):
        return found
    if original.co_flags & engine.PAUSES:
        return source.Unknown("it is a generator or coroutine")

    def entrance(plan: Plan) -> Callable[[tuple[Any, ...]], LocalsCall]:
        plan.always = False
        return lambda args: LocalsCall(plan, enter())

    made = engine.rewrite_code(original, found, [options(expressions)], function.__module__, None, entrance=entrance)
    if isinstance(made, source.Unknown):
        return made
    code, _ = made
    new = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    new.__kwdefaults__, new.__qualname__, new.__doc__ = function.__kwdefaults__, function.__qualname__, function.__doc__
    new.__module__, new.__annotations__ = function.__module__, function.__annotations__
    vars(new).update(vars(function))
    compilers.exempt(code, new)
    return new


class LocalsCall(LiveCall):
    """What the rewritten code talks to. It records nothing itself."""

    __slots__ = ("_held", "_saw", "at")

    def __init__(self, plan: Plan, saw: Saw | None) -> None:
        self.plan = plan
        self.log: list[Any] = []
        self.tracked = {}
        self.result: Any = None
        self._saw = saw
        self._held: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> LocalsCall:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.clear()

    def note(self, index: int, value: Any, site: int) -> tuple[type | None, Any]:
        saw = self._saw
        if saw is None:
            return None, None
        before = self._held.get(index)
        if before is None or before[0] is not value or not _holds(value, before[1]):
            self._held[index] = (value, _stamp(value))
            saw(index, value)
        return None, self.check

    def check(self, first_site: int) -> None:
        saw = self._saw
        for index, (value, stamp) in list(self._held.items()):
            if not _holds(value, stamp) and saw is not None:
                self._held[index] = (value, _stamp(value))
                saw(index, value)

    def gone(self, index: int, site: int) -> Any:
        self._held.pop(index, None)
        return self.check

    lost = gone


def _stamp(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return None if value.is_inference() else value._version
    return None if type(value) in SCALARS else capture(value, LIGHT)


def _holds(value: Any, stamp: Any) -> bool:
    """Whether a value is what it was; of an inference tensor, which has no version, that is taken for granted."""
    if isinstance(value, torch.Tensor):
        return bool(stamp is None or value._version == stamp)
    return stamp is None or bool(stamp.unchanged(value))

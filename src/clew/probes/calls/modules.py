"""A torch module followed layer by layer: inputs and outputs of every layer, through torch's own hooks."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from clew import recording
from clew.recorder.endings import describe
from clew.recorder.plan import Plan, Watched
from clew.recorder.trace import ENTER, OFF, RAISE, RETURN, clock, here
from clew.values import SCALARS

from . import runtime

if TYPE_CHECKING:
    from .following import Following

_hooks: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def follow_module(model: Any, following: Following) -> Any:
    """Record what goes into and comes out of every layer of `model`; gives it back."""
    unfollow_module(model)
    handles = _hooks[model] = []
    for path, layer in model.named_modules():
        told = _Layer(path, layer, following)
        handles.append(layer.register_forward_pre_hook(told.before, with_kwargs=True))
        handles.append(layer.register_forward_hook(told.after, with_kwargs=True, always_call=True))
    return model


def unfollow_module(model: Any) -> None:
    for handle in _hooks.pop(model, []):
        handle.remove()


class _Layer:
    """One layer: its place in the model, and the plan its calls are recorded under."""

    def __init__(self, path: str, layer: Any, following: Following) -> None:
        self._following = following
        kind = type(layer)
        code = getattr(kind.forward, "__code__", None)
        self._name = f"{path or 'model'} ({kind.__name__})"
        self._home = (kind.__module__, code.co_filename if code else "?", code.co_firstlineno if code else 0)
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._open: list[tuple[bool, BaseException | None]] = []  # whether it opened the log; what was being handled

    def before(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not recording.is_on():
            return
        trace: Any = here.get(None)
        self._open.append((trace is None, sys.exc_info()[1]))
        if trace is None:
            trace = runtime.open_trace(self._following, sys._getframe(1))
        plan = self._plan(len(args), tuple(kwargs))
        values = runtime.looked_at(trace, (*args, *kwargs.values()))
        trace += (plan.marks[ENTER], clock(), trace.at, *values)

    def after(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        trace: Any = here.get(None)
        if trace is None or trace is OFF or not self._open:
            return
        opened, handled = self._open.pop()
        error = sys.exc_info()[1]  # torch calls this while it handles an exception of the layer
        marks = self._plan(len(args), tuple(kwargs)).marks
        if error is not None and error is not handled:
            trace += (marks[RAISE], clock(), describe(error))
        else:
            result = output if type(output) in SCALARS else runtime.looked_at_one(trace, output)
            trace += (marks[RETURN], clock(), result)
        if opened:
            runtime.end(trace)

    def _plan(self, count: int, names: tuple[str, ...]) -> Plan:
        """Arguments are `input`, or `input0`, `input1` ...; those given by name have theirs."""
        given = ("input",) if count == 1 else tuple(f"input{i}" for i in range(count))
        parameters = (*given, *names)
        known = self._plans.get(parameters)
        if known is None:
            module, file, line = self._home
            watched = (*(Watched(name, "input") for name in parameters), Watched("return", "output"))
            known = Plan(self._name, module, file, line, watched, [line], [False], parameters=parameters)
            known.always, known.root = False, self._following
            self._plans[parameters] = known
        return known


__all__ = ["follow_module", "unfollow_module"]

"""A torch module followed layer by layer: inputs and outputs of every layer. Nothing is put on the layers."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from clew import recording, trouble
from clew.instrument import source
from clew.recorder.call_log import ENTER, OFF, RAISE, RETURN, clock, here
from clew.recorder.fingerprints import original_code
from clew.recorder.how_calls_end import describe
from clew.recorder.plan import Plan, Watched
from clew.recorder.quiet_threads import is_quiet
from clew.values import SCALAR_IDS

from . import runtime

if TYPE_CHECKING:
    from .following import Following

_endings: weakref.WeakKeyDictionary[Any, list[Callable[[], None]]] = weakref.WeakKeyDictionary()


def follow_module(model: Any, following: Following) -> Any:
    """Record what goes into and comes out of every layer of `model`; gives it back."""
    unfollow_module(model)
    from clew.instrument.module_calls import listen

    endings = _endings[model] = []
    for path, layer in model.named_modules():
        endings.append(listen(layer, _Layer(path, layer, following)))
    return model


def unfollow_module(model: Any) -> None:
    for end in _endings.pop(model, []):
        end()


@dataclass(slots=True)
class _Open:
    """A call that has not ended."""

    plan: Plan
    opened_trace: bool
    output: Any = None


class _Layer:
    """One layer: its place in the model, and the plan its calls are recorded under."""

    hears = ("given", "returned", "left")

    def __init__(self, path: str, layer: Any, following: Following) -> None:
        self._following = following
        kind = type(layer)
        code = original_code(kind.forward)
        self._name = f"{path or 'model'} ({kind.__name__})"
        self._home = (kind.__module__, code.co_filename if code else "?", code.co_firstlineno if code else 0)
        self._code = code
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._open: list[_Open] = []

    def called(self, layer: Any) -> None:
        pass

    @trouble.entry_point()
    def given(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not recording.is_on() or is_quiet():
            return
        trace: Any = here.get(None)
        opens = trace is None
        trace, line = runtime.open_log(self._following, sys._getframe(1)) if opens else (trace, trace.at)
        plan = self._plan(len(args), tuple(kwargs))
        self._open.append(_Open(plan, opens))
        values = runtime.looked_at(trace, (*args, *kwargs.values()))
        trace += (plan.marks[ENTER], clock(), line, *values)

    @trouble.entry_point()
    def returned(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if self._open:
            self._open[-1].output = output

    @trouble.entry_point()
    def left(self, layer: Any, error: BaseException | None) -> None:
        trace: Any = here.get(None)
        if trace is None or trace is OFF or not self._open or is_quiet():
            return
        call = self._open.pop()
        if error is not None:
            trace += (call.plan.marks[RAISE], clock(), describe(error))
        else:
            output = call.output
            result = output if id(type(output)) in SCALAR_IDS else runtime.looked_at_one(trace, output)
            trace += (call.plan.marks[RETURN], clock(), result)
        if call.opened_trace:
            runtime.end(trace)

    def failed(self, error: Exception) -> None:
        trouble.failed(error, "following a layer")

    def _plan(self, count: int, names: tuple[str, ...]) -> Plan:
        """Arguments are `input`, or `input0`, `input1` ...; those given by name have theirs."""
        given = ("input",) if count == 1 else tuple(f"input{i}" for i in range(count))
        parameters = (*given, *names)
        known = self._plans.get(parameters)
        if known is None:
            module, file, line = self._home
            watched = (*(Watched(name, "input") for name in parameters), Watched("return", "output"))
            known = Plan(self._name, module, file, line, watched, [line], [False], parameters=parameters)
            known.source = None if self._code is None else partial(source.text_of, self._code)
            known.always, known.root = False, self._following
            self._plans[parameters] = known
        return known


__all__ = ["follow_module", "unfollow_module"]

"""Hot: what stands at one module of a traced model, and hears of its calls.

Calls of a module are heard in torch's own code (module_calls.py); a call of its `forward` past that
(`layer.forward(x)`), and calls of its other methods, in the function of the class (methods.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from itertools import chain
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch

from clew.instrument import module_calls, source
from clew.instrument.module_calls import Listener

from .container_items import inside, items_of, tensors_in
from .method_locals import Held, Saw
from .methods import Ear, function_behind, hear_method
from .paths import Entry, Spot, expression_in_self, joined, method_of, names_in, rebinds
from .undo_steps import do_all

if TYPE_CHECKING:
    from .tracer import ModelTracer

FORWARD: Final = "forward"
AS_PASSED: Final = "input"
_in_backward: Final = torch._C._current_graph_task_id
_NOT: Final = -1


class ModuleProbe:
    """All that was asked for at one module."""

    def __init__(self, tracer: ModelTracer, path: str, module: Any, *, is_root: bool) -> None:
        self.tracer = tracer
        self.path = path
        self.module = module
        self.is_root = is_root
        self.outputs: list[Entry] = []
        self.inputs: list[Entry] = []
        self.gradients: list[Entry] = []  # of outputs
        self.methods: dict[str, MethodProbe] = {}
        self._undo: list[Callable[[], None]] = []
        self.attached = True
        self.hears: set[str] = set()
        self._simple: tuple[str, str] | None = None  # label and pattern, if nothing but the output itself is wanted

    def add(self, spot: Spot) -> None:
        entry = (spot.label, spot.rest, spot.pattern)
        if spot.facet == "output":
            self.outputs.append(entry)
        elif spot.facet == "input":
            self.inputs.append(entry)
        elif spot.facet == "grad":
            self.gradients.append(entry)
        else:
            self.method(spot.name).add(spot)

    def method(self, name: str) -> MethodProbe:
        found = self.methods.get(name)
        if found is None:
            found = self.methods[name] = MethodProbe(self, name)
        return found

    # ---- hot

    def before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The module is called."""
        if self.tracer.active and _in_backward() == _NOT:
            self.take_inputs(args, kwargs)

    def take_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.inputs:
            self._take_call(args, kwargs)
        forward = self.methods.get(FORWARD)
        if forward is not None:
            forward.take_arguments(args, kwargs)

    def _take_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A single argument by itself, several by name."""
        is_single = len(args) == 1 and not kwargs
        if is_single and not any(rest for _, rest, _ in self.inputs):
            self.tracer.take_entries(args[0], self.inputs)
            return
        given = self.method(FORWARD).bound(args, kwargs)
        by_name: list[Entry] = []
        in_first: list[Entry] = []
        for label, rest, pattern in self.inputs:
            if not rest and not is_single:
                by_name.append((label, ("*",), pattern))
            else:
                (by_name if rest and rest[0] in given else in_first).append((label, rest, pattern))
        self.tracer.take_entries(given, by_name)
        self.tracer.take_entries(args[0] if args else None, in_first)

    def after(self, output: Any) -> None:
        """It gives something."""
        tracer = self.tracer
        if not tracer.active:
            return
        if _in_backward() == _NOT:  # else a checkpoint is computed again: that was seen before
            if self._simple is not None:
                tracer.take(self._simple[0], output, self._simple[1])
            else:
                self.take_outputs(output)
        if self.gradients:
            self._await_gradients(output)

    def take_outputs(self, output: Any) -> None:
        self.tracer.take_entries(output, self.outputs)
        forward = self.methods.get(FORWARD)
        if forward is not None:
            forward.take_result(output)

    def _await_gradients(self, output: Any) -> None:
        for label, rest, pattern in self.gradients:
            for name, value, _ in inside(output, rest, label):
                for full, tensor in tensors_in(value, name):
                    self.tracer.await_gradient(tensor, full, pattern)

    # ---- putting it there and taking it away

    def attach(self) -> None:
        forward = self.methods.get(FORWARD)
        wants_result = forward is not None and bool(forward.results)
        if len(self.outputs) == 1 and not self.outputs[0][1] and not wants_result:
            self._simple = self.outputs[0][0], self.outputs[0][2]
        for name, method in self.methods.items():
            if name != FORWARD:
                method.hear(method, is_forward=False)
        self.hears = {
            *(["called"] if self.is_root or forward is not None else []),
            *(["given"] if self.inputs or forward is not None else []),
            *(["returned"] if self.outputs or self.gradients or wants_result else []),
            *(["left"] if self.is_root else []),
        }
        if self.hears:
            self.undo(module_calls.listen(self.module, self))
            self._hear_forward()

    def _hear_forward(self) -> None:
        forward = self.methods.get(FORWARD)
        if forward is not None:
            forward.hear(self, is_forward=True)
        elif not self.tracer.leaves_compiled:  # a second body cannot be compiled
            function = function_behind(self.module, FORWARD)
            ending = function if isinstance(function, source.Unknown) else _heard(function, self.module, self)
            if not isinstance(ending, source.Unknown):
                self.undo(ending)

    def undo(self, action: Callable[[], None]) -> None:
        """To be done when tracing ends."""
        self._undo.append(action)

    # a call of the module, or of its `forward` past that (`layer.forward(x)`)

    def called(self, module: Any) -> None:
        forward = self.methods.get(FORWARD)
        if forward is not None and forward.was_replaced():
            forward.hear(self, is_forward=True)
        if self.is_root:
            self.tracer.begin()

    def given(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.before(args, kwargs)

    def returned(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        self.after(output)

    def left(self, module: Any, error: BaseException | None) -> None:
        if self.is_root:
            self.tracer.end()

    def failed(self, error: Exception) -> None:
        self.tracer.failed(error)

    def detach(self) -> None:
        self.attached = False
        undo, self._undo = self._undo, []
        do_all([*(method.end_hearing for method in self.methods.values()), *reversed(undo)])


def _heard(function: FunctionType, module: Any, listener: Listener) -> Callable[[], None] | source.Unknown:
    return hear_method(function, module, Ear(listener, is_forward=True))


class MethodProbe:
    """What was asked for of one method: arguments, what it gives, local variables."""

    def __init__(self, probe: ModuleProbe, name: str) -> None:
        self.hears = module_calls.ALL
        self.probe = probe
        self.name = name
        self.function = method_of(probe.module, name)
        self.names = names_in(probe.module, name)
        self.results: list[Entry] = []
        self.expressions: dict[str, list[Entry]] = {}  # every version of them is looked at
        self.arguments: dict[str, list[Entry]] = {}  # the same, of arguments
        self.passed: dict[str, list[Entry]] = {}  # arguments as they are passed
        self.taken_at_call: dict[str, list[Entry]] = {}  # `passed`, and `arguments` whose versions cannot be seen
        self.is_rewritten = False
        self._ending: Callable[[], None] | None = None
        self._at_class: Any = None  # the method as it was found there
        self._at_module: Any = None
        self._signature: inspect.Signature | None = None

    def add(self, spot: Spot) -> None:
        if spot.facet == "method":
            self.results.append((spot.label, spot.rest, spot.pattern))
            return
        first, rest = spot.rest[0], spot.rest[1:]
        if first == "self":
            expression, count = expression_in_self(self.probe.module, rest)
            entry = (joined(spot.label, "self", *rest[:count]), rest[count:], spot.pattern)
            self.expressions.setdefault(expression, []).append(entry)
        elif first in self.names.arguments:
            self.arguments.setdefault(first, []).append((joined(spot.label, first), rest, spot.pattern))
            if rest == (AS_PASSED,):
                self.passed.setdefault(first, []).append((joined(spot.label, first), rest, spot.pattern))
        else:
            self.expressions.setdefault(first, []).append((joined(spot.label, first), rest, spot.pattern))

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, those that were not given as their defaults."""
        if self._signature is None:
            function = self.function or getattr(self.probe.module, self.name)
            signature = inspect.signature(function)
            parameters = list(signature.parameters.values())
            self._signature = signature.replace(parameters=parameters[1:] if self.function is not None else parameters)
        try:
            found = self._signature.bind(*args, **kwargs)
        except TypeError:
            return (
                dict(zip(self.names.arguments, args, strict=False)) | kwargs
            )  # the call itself will say what is wrong
        given = dict(found.arguments)
        for name, parameter in self._signature.parameters.items():
            if name not in given and parameter.default is not parameter.empty:
                given[name] = parameter.default
        return given

    def take_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.taken_at_call:
            return
        given = self.bound(args, kwargs)
        for name, entries in self.taken_at_call.items():
            if name in given:
                self.probe.tracer.take_entries(given[name], self._as_passed(entries, given[name]))

    def _as_passed(self, entries: list[Entry], value: Any) -> list[Entry]:
        """`forward.x.input` is the argument `x` itself, unless that has an item of this name."""
        if AS_PASSED in items_of(value):
            return [] if self.taken_at_call is self.passed else entries  # versions of the item are looked at
        return [
            (joined(label, AS_PASSED), (), pattern) if rest == (AS_PASSED,) else (label, rest, pattern)
            for label, rest, pattern in entries
        ]

    def take_result(self, output: Any) -> None:
        self.probe.tracer.take_entries(output, self.results)

    # a call of the method, any but forward

    def called(self, module: Any) -> None:
        if self.probe.is_root:
            self.probe.tracer.begin()

    def given(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.probe.tracer.active:
            self.take_arguments(args, kwargs)

    def returned(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if self.probe.tracer.active:
            self.take_result(output)

    def left(self, module: Any, error: BaseException | None) -> None:
        self.probe.left(module, error)

    def failed(self, error: Exception) -> None:
        self.probe.tracer.failed(error)

    # ---- listening to it

    def hear(self, listener: Listener, *, is_forward: bool) -> None:
        """Have its calls heard, and its variables looked at if that is needed."""
        self.end_hearing()
        entries = {**self.expressions, **self.arguments}
        looks = bool(self.expressions) or self._may_change_arguments()
        self.taken_at_call = self.passed if looks else self.arguments
        enter = partial(self._enter, tuple(entries.values()))
        ear = Ear(listener, is_forward, tuple(entries), enter) if looks else Ear(listener, is_forward)
        if is_forward and not looks and self.probe.tracer.leaves_compiled:
            return  # a second body cannot be compiled
        module = self.probe.module
        function = function_behind(module, self.name)
        ending = function if isinstance(function, source.Unknown) else hear_method(function, module, ear)
        self._at_class, self._at_module = _definitions(module, self.name)
        if isinstance(ending, source.Unknown):
            self._cannot(ending.reason, is_forward=is_forward, looks=looks)
        else:
            self.is_rewritten = looks
            self._ending = ending

    def end_hearing(self) -> None:
        ending, self._ending = self._ending, None
        if ending is not None:
            ending()

    def was_replaced(self) -> bool:
        """Whether the module has another method now than the one whose variables are looked at."""
        if not self.is_rewritten:
            return False
        at_class, at_module = _definitions(self.probe.module, self.name)
        return at_class is not self._at_class or at_module is not self._at_module

    def _may_change_arguments(self) -> bool:
        """Whether an argument may be another before the method is done."""
        if not self.arguments or self.function is None or self.probe.tracer.leaves_compiled:
            return False
        code = self.function.__code__
        lines = {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
        return len(lines) > 1 or any(rebinds(code, name) for name in self.arguments)

    def _cannot(self, reason: str, *, is_forward: bool, looks: bool) -> None:
        self.taken_at_call = self.arguments
        note = self.probe.tracer.note
        if not is_forward:
            for label, _, _ in self.results:
                note("fallback", label, f"calls of {self.name} cannot be seen: {reason}.")
        if not looks:
            return
        for label, _, _ in chain.from_iterable(self.expressions.values()):
            note("fallback", label, f"local variables of {self.name} cannot be seen: {reason}.")
        for name, entries in self.arguments.items():
            if self.function is not None and rebinds(self.function.__code__, name):
                for label, _, _ in entries:
                    note(
                        "fallback", label, f"only the argument of {self.name} can be seen, not what follows: {reason}."
                    )

    def _enter(self, entries: tuple[list[Entry], ...]) -> Saw | None:
        tracer = self.probe.tracer
        if not tracer.active or not self.probe.attached or _in_backward() != _NOT:
            return None

        held = Held()  # a list that grows does not make its first item a new one

        def saw(index: int, value: Any) -> None:
            tracer.take_entries(value, entries[index], held)

        return saw


def _definitions(module: Any, name: str) -> tuple[Any, Any]:
    """Where a method is looked for: in the class, and in the module itself."""
    return getattr(type(module), name, None), vars(module).get(name)

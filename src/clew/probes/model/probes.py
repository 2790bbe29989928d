"""Hot: what stands at one module of a traced model, and hears of its calls.

Calls of a module are heard through torch's own hooks. A call of its `forward` past them (`layer.forward(x)`), and calls
of its other methods, are heard because the module has, while it is traced, a method of that name of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

import torch

from clew.probes.lines import source

from .hooks import Hook, Method
from .inside import inside, tensors_in
from .locals import Saw, rewritten
from .paths import Spot, Steps, joined, method_of, names_in

if TYPE_CHECKING:
    from .tracer import ModelTracer

FORWARD: Final = "forward"
_in_backward: Final = torch._C._current_graph_task_id
_NOT: Final = -1


class ModuleProbe:
    """All that was asked for at one module."""

    def __init__(self, tracer: ModelTracer, path: str, module: Any, *, is_root: bool) -> None:
        self.tracer = tracer
        self.path = path
        self.module = module
        self.is_root = is_root
        self.outputs: list[tuple[str, Steps, str]] = []  # label, on into it, the pattern that asked
        self.inputs: list[tuple[str, Steps, str]] = []
        self.gradients: list[tuple[str, Steps, str]] = []  # of outputs
        self.methods: dict[str, MethodProbe] = {}
        self._undo: list[Callable[[], None]] = []
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

    def before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The module is called."""
        if self.tracer.active and _in_backward() == _NOT:
            try:
                self.take_inputs(args, kwargs)
            except Exception as error:
                self.tracer.failed(error)

    def take_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tracer = self.tracer
        for label, rest, pattern in self.inputs:
            if rest or len(args) != 1 or kwargs:
                given = self.method(FORWARD).bound(args, kwargs)
                for name, value in given.items():
                    if not rest:
                        tracer.take(joined(label, name), value, pattern)
                if rest:
                    tracer.take_inside(given if rest[0] in given else args[0] if args else None, rest, label, pattern)
            else:
                tracer.take(label, args[0], pattern)
        forward = self.methods.get(FORWARD)
        if forward is not None:
            forward.take_arguments(args, kwargs)

    def after(self, module: Any, args: Any, output: Any) -> None:
        """It gives something."""
        tracer = self.tracer
        if not tracer.active:
            return
        try:
            if _in_backward() == _NOT:  # else a checkpoint is computed again: that was seen before
                if self._simple is not None:
                    tracer.take(self._simple[0], output, self._simple[1])
                else:
                    self.take_outputs(output)
            if self.gradients:
                self._await_gradients(output)
        except Exception as error:
            tracer.failed(error)

    def take_outputs(self, output: Any) -> None:
        for label, rest, pattern in self.outputs:
            self.tracer.take_inside(output, rest, label, pattern)
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
        module = self.module
        if self.inputs or (forward is not None and forward.arguments):
            self._hooked(module.register_forward_pre_hook(Hook(module, self.before), with_kwargs=True))
        if self.outputs or self.gradients or wants_result:
            self._hooked(module.register_forward_hook(Hook(module, self.after)))
        if self.is_root:
            begin, end = Hook(module, self._begins), Hook(module, self._ends)
            self._hooked(module.register_forward_pre_hook(begin, prepend=True))
            self._hooked(module.register_forward_hook(end, always_call=True))
        for name, method in self.methods.items():
            if name != FORWARD:
                self._put(Method(module, name, self._inner(name, method), method.heard, has_hooks=False))
        if self._undo or (forward is not None and forward.locals):
            inner = self._inner(FORWARD, forward) if forward is not None else getattr(module, FORWARD)
            self._put(Method(module, FORWARD, inner, self._direct, has_hooks=True))

    def _hooked(self, handle: Any) -> None:
        self._undo.append(handle.remove)

    def _put(self, method: Method) -> None:
        method.put()
        self._undo.append(method.take_out)

    def _begins(self, module: Any, args: Any) -> None:
        self.tracer.begin()

    def _ends(self, module: Any, args: Any, output: Any) -> None:
        self.tracer.end()

    def _inner(self, name: str, method: MethodProbe) -> Any:
        """The method as it is, or with looks at its local variables."""
        bound = getattr(self.module, name)
        return method.looked_into(bound) if method.locals else bound

    def _direct(self, inner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`layer.forward(x)`, past the hooks."""
        if self.is_root:
            self.tracer.begin()
        try:
            self.before(self.module, args, kwargs)
            output = inner(*args, **kwargs)
            self.after(self.module, args, output)
        finally:
            if self.is_root:
                self.tracer.end()
        return output

    def detach(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()


class MethodProbe:
    """What was asked for of one method: arguments, what it gives, local variables."""

    def __init__(self, probe: ModuleProbe, name: str) -> None:
        self.probe = probe
        self.name = name
        self.function = method_of(probe.module, name)
        self.names = names_in(probe.module, name)
        self.arguments: list[tuple[str, str, Steps, str]] = []  # label, argument, on into it, pattern
        self.results: list[tuple[str, Steps, str]] = []
        self.locals: dict[str, list[tuple[str, Steps, str]]] = {}  # by expression
        self._signature: inspect.Signature | None = None

    def add(self, spot: Spot) -> None:
        if spot.facet == "method":
            self.results.append((spot.label, spot.rest, spot.pattern))
            return
        first, rest = spot.rest[0], spot.rest[1:]
        if first == "self":
            expression, rest = f"self.{rest[0]}", rest[1:]
            label = joined(spot.label, expression)
            self.locals.setdefault(expression, []).append((label, rest, spot.pattern))
        elif first in self.names.arguments:
            self.arguments.append((joined(spot.label, first), first, rest, spot.pattern))
        else:
            self.locals.setdefault(first, []).append((joined(spot.label, first), rest, spot.pattern))

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
        if self.arguments:
            given = self.bound(args, kwargs)
            for label, argument, rest, pattern in self.arguments:
                if argument in given:
                    self.probe.tracer.take_inside(given[argument], rest, label, pattern)

    def take_result(self, output: Any) -> None:
        for label, rest, pattern in self.results:
            self.probe.tracer.take_inside(output, rest, label, pattern)

    def heard(self, inner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the method, any but forward."""
        tracer, is_root = self.probe.tracer, self.probe.is_root
        if is_root:
            tracer.begin()
        try:
            if tracer.active:
                self.take_arguments(args, kwargs)
            output = inner(*args, **kwargs)
            if tracer.active:
                self.take_result(output)
        finally:
            if is_root:
                tracer.end()
        return output

    def looked_into(self, bound: Any) -> Any:
        expressions = tuple(self.locals)
        function = getattr(bound, "__func__", None)
        if not isinstance(function, FunctionType):
            replaced = (
                "another tracer looks at it" if isinstance(bound, Method) else "something else was put in its place"
            )
            self._cannot(replaced)
            return bound
        made = rewritten(inspect.unwrap(function), expressions, partial(self._enter, tuple(self.locals.values())))
        if isinstance(made, source.Unknown):
            self._cannot(made.reason)
            return bound
        if function is not inspect.unwrap(function):
            self._cannot("a decorator stands around it")
            return bound
        return MethodType(made, self.probe.module)

    def _cannot(self, reason: str) -> None:
        for entries in self.locals.values():
            for label, _, _ in entries:
                self.probe.tracer.note("fallback", label, f"local variables of {self.name} cannot be seen: {reason}.")

    def _enter(self, entries: tuple[list[tuple[str, Steps, str]], ...]) -> Saw | None:
        tracer = self.probe.tracer
        if not tracer.active or _in_backward() != _NOT:
            return None

        def saw(index: int, value: Any) -> None:
            for label, rest, pattern in entries[index]:
                tracer.take_inside(value, rest, label, pattern)

        return saw

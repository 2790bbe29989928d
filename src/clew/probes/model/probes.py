"""Hot: what stands at one module of a traced model, and hears of its calls.

Calls of a module are heard through torch's own hooks. A call of its `forward` past them (`layer.forward(x)`), and calls
of its other methods, are heard because the module has, while it is traced, a method of that name of its own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial, wraps
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

import torch

from clew.probes.lines import source

from .inside import inside, tensors_in
from .locals import Saw, rewritten
from .paths import Spot, Steps, joined, method_of, names_in

if TYPE_CHECKING:
    from .tracer import ModelTracer

FORWARD: Final = "forward"
_in_backward: Final = torch._C._current_graph_task_id
_NOT: Final = -1
_frame: Final = sys._getframe


def _callers() -> frozenset[CodeType]:
    """The code in torch that calls `forward` on behalf of a module that was called."""
    own = [torch.nn.Module._call_impl.__code__, torch.nn.Module._slow_forward.__code__]
    return frozenset([*own, *(const for code in own for const in code.co_consts if isinstance(const, CodeType))])


_CALLERS: Final = _callers()


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
        if self.inputs or (forward is not None and forward.arguments):
            handle = self.module.register_forward_pre_hook(self.before, with_kwargs=True)
            self._undo.append(handle.remove)
        if self.outputs or self.gradients or wants_result:
            self._undo.append(self.module.register_forward_hook(self.after).remove)
        if self.is_root:
            self._attach_root()
        hears = bool(self._undo)
        for name, method in self.methods.items():
            if name != FORWARD:
                self._replace(name, method.heard(self._inner(name, method)))
        if hears:
            inner = self._inner(FORWARD, forward) if forward is not None else getattr(self.module, FORWARD)
            self._replace(FORWARD, self._direct(inner))
        elif forward is not None and forward.locals:
            self._replace(FORWARD, self._direct(self._inner(FORWARD, forward)))

    def _attach_root(self) -> None:
        tracer = self.tracer
        begin = self.module.register_forward_pre_hook(lambda module, args: tracer.begin(), prepend=True)
        end = self.module.register_forward_hook(lambda module, args, output: tracer.end(), always_call=True)
        self._undo += [begin.remove, end.remove]

    def _inner(self, name: str, method: MethodProbe) -> Any:
        """The method as it is, or with looks at its local variables."""
        bound = getattr(self.module, name)
        return method.looked_into(bound) if method.locals else bound

    def _direct(self, inner: Any) -> Any:
        tracer, probe, link = self.tracer, self, Link(inner)

        @wraps(inner)
        def forward(*args: Any, **kwargs: Any) -> Any:
            caller = _frame(1)
            while caller.f_code is own and caller.f_back is not None:  # another tracer's
                caller = caller.f_back
            if caller.f_code in _CALLERS:
                return link.inner(*args, **kwargs)  # the hooks hear of it
            if probe.is_root:
                tracer.begin()
            try:
                probe.before(probe.module, args, kwargs)
                output = link.inner(*args, **kwargs)
                probe.after(probe.module, args, output)
            finally:
                if probe.is_root:
                    tracer.end()
            return output

        own = forward.__code__  # type: ignore[attr-defined]
        forward.__clew__ = link  # type: ignore[attr-defined]
        return forward

    def _replace(self, name: str, method: Any) -> None:
        own = vars(self.module)
        link: Link = method.__clew__
        link.owned = name in own
        own[name] = method
        self._undo.append(lambda: _take_out(own, name, method))

    def detach(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()


class Link:
    """What a method that a tracer has put on a module calls, and whether the module had that one of its own."""

    __slots__ = ("inner", "owned")

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.owned = False


def _take_out(own: dict[str, Any], name: str, method: Any) -> None:
    """Out of the chain of methods that tracers have put there, in whatever order they end."""
    mine: Link = method.__clew__
    outer = own.get(name)
    if outer is method:
        if mine.owned:
            own[name] = mine.inner
        else:
            del own[name]
        return
    while outer is not None:
        link: Link | None = getattr(outer, "__clew__", None)
        if link is None:
            return  # somebody has put another method there meanwhile: it stays
        if link.inner is method:
            link.inner, link.owned = mine.inner, mine.owned
            return
        outer = link.inner


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

    def heard(self, inner: Any) -> Any:
        """The method, any but forward, as the module has it while it is traced."""
        tracer, probe, link = self.probe.tracer, self.probe, Link(inner)

        @wraps(inner)
        def method(*args: Any, **kwargs: Any) -> Any:
            if probe.is_root:
                tracer.begin()
            try:
                if tracer.active:
                    self.take_arguments(args, kwargs)
                output = link.inner(*args, **kwargs)
                if tracer.active:
                    self.take_result(output)
            finally:
                if probe.is_root:
                    tracer.end()
            return output

        method.__clew__ = link  # type: ignore[attr-defined]
        return method

    def looked_into(self, bound: Any) -> Any:
        expressions = tuple(self.locals)
        function = getattr(bound, "__func__", None)
        if not isinstance(function, FunctionType):
            replaced = (
                "another tracer looks at it" if hasattr(bound, "__clew__") else "something else was put in its place"
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

"""What a model holds between calls: parameters and their gradients, buffers, attributes, the optimizer's state.

Parameters are looked at when the model is called: these are the weights an iteration ran with. Buffers and attributes
are looked at when it is done. A gradient is taken where it is accumulated; where gradients are averaged over processes
afterwards (DDP), when the optimizer has used it: a closure may compute it only in the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from .container_items import inside
from .paths import OPTIMIZER, Entry, Spot, joined
from .undo_steps import do_all
from .unwrap import is_called_by_ddp, is_replicated

if TYPE_CHECKING:
    from .tracer import ModelTracer


class StateProbe:
    """All that was asked for of that."""

    def __init__(self, tracer: ModelTracer, model: Any, optimizer: Any, wrapped: Any) -> None:
        self._tracer = tracer
        self._model = model
        self._optimizer = optimizer
        self._wrapped = wrapped
        self._hears_gradients = False
        self._parameters: dict[tuple[str, str], tuple[Any, list[Entry]]] = {}  # by module and name: the module
        self._later: dict[tuple[str, str], tuple[Any, list[Entry]]] = {}  # buffers and attributes
        self._gradients: list[tuple[Spot, Any]] = []
        self._optimizer_spots: list[Spot] = []
        self.optimizer_paths: list[str] = []  # that there are; none before its first step
        self._undo: list[Callable[[], None]] = []

    def add(self, spot: Spot, module: Any) -> None:
        if spot.facet == "tensor.grad":
            self._gradients.append((spot, module))
            return
        is_parameter = spot.facet == "tensor" and spot.name in module._parameters
        held = self._parameters if is_parameter else self._later
        _, entries = held.setdefault((spot.module, spot.name), (module, []))
        entries.append((spot.label, spot.rest, spot.pattern))

    def add_optimizer(self, spot: Spot) -> None:
        self._optimizer_spots.append(spot)

    # ---- looks

    def before_forward(self) -> None:
        if self._gradients and not self._hears_gradients:
            self._hears_gradients = True
            self._hear_gradients()
        for (_, name), (module, entries) in self._parameters.items():
            self._look(module._parameters.get(name), entries)

    def after_forward(self) -> None:
        for (_, name), (module, entries) in self._later.items():
            where = module._buffers if name in module._buffers else vars(module)
            self._look(where.get(name), entries)

    def _look(self, value: Any, entries: list[Entry]) -> None:
        if value is not None:
            # always by content: a version stands still under `.data`, and where a batch norm writes its running mean
            self._tracer.take_entries(value, entries)

    def _gradient_of(self, spot: Spot, parameter: Any) -> None:
        tracer = self._tracer
        if tracer.active and parameter.is_leaf and parameter.grad is not None:
            tracer.take(spot.label, parameter.grad, spot.pattern)

    def _on_gradient(self, spot: Spot) -> Callable[[Any], None]:
        def arrived(parameter: Any) -> None:
            try:
                self._gradient_of(spot, parameter)
            except Exception as error:
                self._tracer.failed(error)

        return arrived

    def _all_gradients(self, *ignored: Any) -> None:
        try:
            for spot, module in self._gradients:
                parameter = module._parameters.get(spot.name)
                if parameter is not None:
                    self._gradient_of(spot, parameter)
        except Exception as error:
            self._tracer.failed(error)

    def _after_step(self, optimizer: Any, *ignored: Any) -> None:
        try:
            if self._optimizer is None and self._steps_the_model(optimizer):
                self._optimizer = optimizer
            if optimizer is self._optimizer and self._tracer.active:
                self._take_state(optimizer)
        except Exception as error:
            self._tracer.failed(error)

    def _steps_the_model(self, optimizer: Any) -> bool:
        own = {id(parameter) for parameter in self._model.parameters()}
        return any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])

    def _take_state(self, optimizer: Any) -> None:
        names = {id(parameter): name for name, parameter in self._model.named_parameters()}
        state = {names.get(id(key), str(place)): held for place, (key, held) in enumerate(optimizer.state.items())}
        everything = {"state": state, "param_groups": [_settings(group) for group in optimizer.param_groups]}
        if not self.optimizer_paths:
            groups = enumerate(optimizer.param_groups)
            settings = [(place, name) for place, group in groups for name in _settings(group)]
            self.optimizer_paths = [f"{OPTIMIZER}.param_groups.{place}.{name}" for place, name in settings]
            self.optimizer_paths += [f"{OPTIMIZER}.state.{name}" for name in state]
        taken: set[str] = set()
        for spot in self._optimizer_spots:
            for name, value in _flat(spot, everything):
                if name in taken:
                    self._tracer.led_to(name, spot.pattern)
                else:
                    self._tracer.take(name, value, spot.pattern)
                taken.add(name)

    # ---- on and off

    def attach(self) -> None:
        if self._optimizer_spots:
            self._undo.append(register_optimizer_step_post_hook(self._after_step).remove)

    def _hear_gradients(self) -> None:
        """Once the model is called, because only then is it known what calls it."""
        if is_replicated(self._wrapped) or is_called_by_ddp(self._model):
            self._undo.append(register_optimizer_step_post_hook(self._all_gradients).remove)
            return
        for spot, module in self._gradients:
            parameter = module._parameters.get(spot.name)
            if parameter is not None and parameter.requires_grad and parameter.is_leaf:
                self._undo.append(parameter.register_post_accumulate_grad_hook(self._on_gradient(spot)).remove)

    def detach(self) -> None:
        undo, self._undo = self._undo, []
        do_all(undo)


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _flat(spot: Spot, everything: dict[str, Any]) -> list[tuple[str, Any]]:
    """Names of parameters have dots in them: `optimizer.state.fc.weight.exp_avg` is one path."""
    head, rest = spot.rest[:1], spot.rest[1:]
    if head != ("state",):
        return [(name, value) for name, value, _ in inside(everything, spot.rest, spot.label)]
    found: list[tuple[str, Any]] = []
    for name, held in everything["state"].items():
        label = joined(spot.label, "state", name)
        own = tuple(name.split("."))
        if rest[: len(own)] == own:
            wanted = rest[len(own) :] or ("**",)
        elif rest[:1] == ("**",) or rest[:1] == ("*",):
            wanted = rest[1:] or ("**",)
        else:
            continue
        found += [(full, value) for full, value, _ in inside(held, wanted, label)]
    return found

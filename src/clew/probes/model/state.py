"""What a model holds between calls: parameters and their gradients, buffers, attributes, the optimizer's state.

Parameters are looked at when the model is called: these are the weights an iteration ran with. Buffers and attributes
are looked at when it is done. A gradient is taken where it is accumulated; where gradients are averaged over processes
afterwards (DDP), when the optimizer has used it: a closure may compute it only in the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from .inside import inside
from .paths import Spot, joined
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
        self._parameters: list[tuple[Spot, Any]] = []  # and the module that has it
        self._later: list[tuple[Spot, Any]] = []  # buffers and attributes
        self._gradients: list[tuple[Spot, Any]] = []
        self._optimizer_spots: list[Spot] = []
        self._undo: list[Callable[[], None]] = []

    def add(self, spot: Spot, module: Any) -> None:
        if spot.facet == "tensor.grad":
            self._gradients.append((spot, module))
        elif spot.facet == "tensor" and spot.name in module._parameters:
            self._parameters.append((spot, module))
        else:
            self._later.append((spot, module))

    def add_optimizer(self, spot: Spot) -> None:
        self._optimizer_spots.append(spot)

    # ---- looks

    def before_forward(self) -> None:
        if self._gradients and not self._hears_gradients:
            self._hears_gradients = True
            self._hear_gradients()
        for spot, module in self._parameters:
            self._look(spot, module._parameters.get(spot.name))

    def after_forward(self) -> None:
        for spot, module in self._later:
            where = module._buffers if spot.name in module._buffers else vars(module)
            self._look(spot, where.get(spot.name))

    def _look(self, spot: Spot, value: Any) -> None:
        if value is None:
            return
        # always by content: a version stands still under `.data`, and where a batch norm writes its running mean
        self._tracer.take_inside(value, spot.rest, spot.label, spot.pattern)

    def _gradient_of(self, spot: Spot, parameter: Any) -> None:
        tracer = self._tracer
        if tracer.active and parameter.grad is not None:
            tracer.take(spot.label, parameter.grad, spot.pattern)

    def _all_gradients(self, *ignored: Any) -> None:
        for spot, module in self._gradients:
            parameter = module._parameters.get(spot.name)
            if parameter is not None:
                self._gradient_of(spot, parameter)

    def _after_step(self, optimizer: Any, *ignored: Any) -> None:
        if optimizer is not self._optimizer or not self._tracer.active:
            return
        names = {id(parameter): name for name, parameter in self._model.named_parameters()}
        state = {names.get(id(key), str(place)): held for place, (key, held) in enumerate(optimizer.state.items())}
        everything = {"state": state, "param_groups": [_settings(group) for group in optimizer.param_groups]}
        for spot in self._optimizer_spots:
            for parts in _flat(spot, everything):
                self._tracer.take(parts[0], parts[1], spot.pattern)

    # ---- on and off

    def attach(self) -> None:
        if self._optimizer_spots and self._optimizer is not None:
            self._undo.append(self._optimizer.register_step_post_hook(self._after_step).remove)

    def _hear_gradients(self) -> None:
        """Once the model is called, because only then is it known what calls it."""
        if is_replicated(self._wrapped) or is_called_by_ddp(self._model):
            self._undo.append(register_optimizer_step_post_hook(self._all_gradients).remove)
            return
        for spot, module in self._gradients:
            parameter = module._parameters.get(spot.name)
            if parameter is not None and parameter.requires_grad and parameter.is_leaf:
                hook = parameter.register_post_accumulate_grad_hook(lambda p, spot=spot: self._gradient_of(spot, p))
                self._undo.append(hook.remove)

    def detach(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()


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

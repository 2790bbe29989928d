"""Which probe looks at which spot of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model_state import StateProbe
from .paths import Spot
from .probes import ModuleProbe

if TYPE_CHECKING:
    from .tracer import ModelTracer

_HELD = ("tensor", "tensor.grad")


class Placing:
    """Hands every spot to the probe of its module. A spot that several patterns lead to is looked at once."""

    def __init__(self, tracer: ModelTracer, state: StateProbe) -> None:
        self._tracer = tracer
        self._state = state
        self._modules = dict(tracer.model.named_modules(remove_duplicate=False))
        self._probes = {id(tracer.model): ModuleProbe(tracer, "", tracer.model, is_root=True)}
        self._placed: dict[tuple[Any, ...], Spot] = {}
        self.doubles: list[tuple[str, str]] = []  # a pattern, and the stem of what it shares with another

    def add(self, spot: Spot) -> None:
        if spot.facet == "optimizer":
            self._state.add_optimizer(spot)
            return
        module = self._modules[spot.module]
        # a module of two names is one; a tensor of two names is recorded under both
        where = spot.module if spot.facet in _HELD else id(module)
        first = self._placed.setdefault((where, spot.facet, spot.name, spot.rest), spot)
        if first is not spot:
            self.doubles.append((spot.pattern, first.stem))
        elif spot.facet in (*_HELD, "attribute"):
            self._state.add(spot, module)
        else:
            probe = self._probes.get(id(module))
            if probe is None:
                probe = self._probes[id(module)] = ModuleProbe(self._tracer, spot.module, module, is_root=False)
            probe.add(spot)

    @property
    def probes(self) -> list[ModuleProbe]:
        """The model's own first."""
        return list(self._probes.values())

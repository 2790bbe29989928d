"""What the callbacks have in common: a `clew.ModelTracer` of their own for each time a trainer sets to work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from clew import env, trouble
from clew.probes.model import ModelTracer


class Tracing:
    """Begins and ends a tracer. The paths and options are those of `clew.ModelTracer`.

    tracer    the tracer at work, or the last one; None before the first
    results   what it has seen, by path
    """

    def __init__(self, paths: str | Iterable[str], **options: Any) -> None:
        super().__init__()
        self._paths = [paths] if isinstance(paths, str) else list(paths)
        self._options: dict[str, Any] = {
            name: list(given) if isinstance(given, Iterator) else given for name, given in options.items()
        }  # for every tracer anew
        self._running = False
        self.tracer: ModelTracer | None = None
        ModelTracer(torch.nn.Identity(), self._paths, **self._options)  # says now what is wrong with them

    @property
    def results(self) -> Mapping[str, Any]:
        return self.tracer.results if self.tracer is not None else {}

    def _start(self, model: Any, optimizer: Any) -> None:
        tracer = self.tracer = ModelTracer(model, self._paths, **{"optimizer": optimizer, **self._options})
        tracer.start()
        self._running = env.enabled()

    @trouble.entry_point()
    def stop(self, error: BaseException | None = None) -> None:
        """Trace no longer; the trainer's end does it. The model is as it was before."""
        if self._running and self.tracer is not None:
            self._running = False
            self.tracer.stop(error)

"""The base of all callbacks: it makes a new `clew.ModelTracer` whenever a trainer starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from clew import env, trouble
from clew.probes.model import ModelTracer


class Tracing:
    """Starts and stops a tracer. The paths and options are those of `clew.ModelTracer`.

    tracer    the running tracer, or the last one; None before the first
    results   its results, by path
    """

    def __init__(self, paths: str | Iterable[str], **options: Any) -> None:
        super().__init__()
        self._paths = [paths] if isinstance(paths, str) else list(paths)
        self._options: dict[str, Any] = {
            name: list(option) if isinstance(option, Iterator) else option for name, option in options.items()
        }  # lists, because every tracer reads them again
        self._running = False
        self.tracer: ModelTracer | None = None
        ModelTracer(torch.nn.Identity(), self._paths, **self._options)  # raises now if an option is wrong

    @property
    def results(self) -> Mapping[str, Any]:
        return self.tracer.results if self.tracer is not None else {}

    def _start(self, model: Any, optimizer: Any) -> None:
        tracer = self.tracer = ModelTracer(model, self._paths, **{"optimizer": optimizer, **self._options})
        tracer.start()
        self._running = env.enabled()

    @trouble.entry_point()
    def stop(self, error: BaseException | None = None) -> None:
        """Stop tracing, as the end of the trainer does. The model is as it was before."""
        if self._running and self.tracer is not None:
            self._running = False
            self.tracer.stop(error)

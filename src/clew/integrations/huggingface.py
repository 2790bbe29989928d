"""A callback for the trainer of Hugging Face's transformers.

    from clew.integrations.huggingface import ModelTracerCallback

    trainer = Trainer(model, train_dataset=data, callbacks=[ModelTracerCallback(["**.attn", "**.weight.grad"])])

The trainer does not tell its callbacks when an exception ends `train()`, or when `evaluate()` or `predict()` begins.
See `ModelTracerCallback` for the first; for the other two, put `clew.ModelTracer` itself around the call.
"""

from __future__ import annotations

import atexit
import sys
from types import TracebackType
from typing import Any, Final

from clew import trouble
from clew.errors import ClewError, MissingLibraryError

try:
    import torch
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingLibraryError(
        "missing-library", "clew.integrations.huggingface needs transformers and torch.",
        "pip install torch transformers accelerate",
    ) from error  # fmt: skip

from clew.probes.model.unwrap import unwrapped

from .callback_base import Tracing


class ModelTracerCallback(Tracing, TrainerCallback):  # type: ignore[misc]
    """`clew.ModelTracer` around a model while `trainer.train()` runs; each forward call of the model is one iteration.

    Paths and options are those of `clew.ModelTracer`; the optimizer is the trainer's. `callback.tracer` is the tracer,
    `callback.results` its results.

    After an exception in `train()` the tracer is ended by whatever comes first: the end of a `with callback:` around
    it, `callback.stop()`, the next `train()` with this callback or this model, or the end of the program.
    """

    @trouble.entry_point(passes=(ClewError,))
    def on_train_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        _end_abandoned(self, options["model"], state)
        self._start(options["model"], _innermost_optimizer(options.get("optimizer")))
        if self._running:
            _active[self] = state
            # functions registered last run first at exit: before that of the run, which `_start` may have opened
            atexit.unregister(_stop_at_exit)
            atexit.register(_stop_at_exit)

    def on_train_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        self.stop()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        if self.tracer is None:
            trouble.report(
                f"huggingface:{id(self)}",
                "ModelTracerCallback records only while trainer.train() runs; evaluate() or predict() was called alone",
                "Trace it with clew.ModelTracer(trainer.model, [...]) around the call.",
            )

    @trouble.entry_point()
    def stop(self, error: BaseException | None = None) -> None:
        """Stop tracing, as the end of `train()` does. The model is as it was before."""
        _active.pop(self, None)
        super().stop(error)

    def __enter__(self) -> ModelTracerCallback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(error)


#: Each callback that traces now, with the state of its trainer; every `train()` has a new one. The references are
#: strong on purpose: a tracer that ended when it is collected could end in the middle of anything.
_active: Final[dict[ModelTracerCallback, Any]] = {}


def _end_abandoned(callback: ModelTracerCallback, model: Any, state: Any) -> None:
    """Stop callbacks of a `train()` that ended with an exception. Other callbacks of this same `train()` continue."""
    for active, active_state in list(_active.items()):
        same_model = active.tracer is not None and active.tracer.model is unwrapped(model)
        if active is callback or (same_model and active_state is not state):
            active.stop(_unfinished())


def _unfinished() -> RuntimeError:
    return RuntimeError("trainer.train() did not come to its end")


def _stop_at_exit() -> None:
    for callback in list(_active):
        callback.stop(getattr(sys, "last_value", None) or _unfinished())


def _innermost_optimizer(optimizer: Any) -> Any:
    """The optimizer without the wrappers of accelerate."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = inner
    return optimizer


__all__ = ["ModelTracerCallback"]

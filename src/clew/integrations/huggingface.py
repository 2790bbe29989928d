"""A callback for the trainer of Hugging Face's transformers.

    from clew.integrations.huggingface import ModelTracerCallback

    trainer = Trainer(model, train_dataset=data, callbacks=[ModelTracerCallback(["**.attn", "**.weight.grad"])])

The trainer tells its callbacks neither that `train()` was left by an exception, nor that `evaluate()` or `predict()`
begins. See `ModelTracerCallback` for what is done about the first; for the other two, `clew.ModelTracer` itself goes
around the call.
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

from .tracing import Tracing


class ModelTracerCallback(Tracing, TrainerCallback):  # type: ignore[misc]
    """`clew.ModelTracer` around a model while `trainer.train()` is at work; one forward of it is one iteration.

    Paths and options are those of `clew.ModelTracer`; the optimizer is the trainer's. `callback.tracer` is the tracer,
    `callback.results` what it has seen.

    After an exception in `train()` the tracer is ended by whatever comes first: the end of a `with callback:` around
    it, `callback.stop()`, the next `train()` with this callback or this model, or the end of the program.
    """

    @trouble.entry_point(passes=(ClewError,))
    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        _end_what_was_left(self, given["model"], state)
        self._start(given["model"], _innermost(given.get("optimizer")))
        if self._running:
            _at_work[self] = state
            # at exit the last to come is the first to go: before the run, which `_start` may have opened
            atexit.unregister(_at_exit)
            atexit.register(_at_exit)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.stop()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.tracer is None:
            trouble.report(
                f"huggingface:{id(self)}",
                "ModelTracerCallback records while trainer.train() runs; this is evaluate() or predict() alone",
                "Trace it with clew.ModelTracer(trainer.model, [...]) around the call.",
            )

    @trouble.entry_point()
    def stop(self, error: BaseException | None = None) -> None:
        """Trace no longer; the end of `train()` does it. The model is as it was before."""
        _at_work.pop(self, None)
        super().stop(error)

    def __enter__(self) -> ModelTracerCallback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(error)


#: Each callback that traces now, with the state of its trainer, of which every `train()` has a new one. Strong on
#: purpose: a tracer that ended when it is collected would end in the middle of anything, also of clew's own writing.
_at_work: Final[dict[ModelTracerCallback, Any]] = {}


def _end_what_was_left(callback: ModelTracerCallback, model: Any, state: Any) -> None:
    """By a `train()` that an exception has left. Other callbacks of this same `train()` go on."""
    for other, begun in list(_at_work.items()):
        same_model = other.tracer is not None and other.tracer.model is unwrapped(model)
        if other is callback or (same_model and begun is not state):
            other.stop(_left())


def _left() -> RuntimeError:
    return RuntimeError("trainer.train() did not come to its end")


def _at_exit() -> None:
    for callback in list(_at_work):
        callback.stop(getattr(sys, "last_value", None) or _left())


def _innermost(optimizer: Any) -> Any:
    """Without what accelerate puts around it."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = inner
    return optimizer


__all__ = ["ModelTracerCallback"]

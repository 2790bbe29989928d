"""The hooks of a Lightning callback, whichever of its two packages Lightning comes in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from clew import trouble
from clew.errors import ClewError
from clew.probes.model.unwrap import unwrapped

from .tracing import Tracing


class LightningTracing(Tracing):
    """Traces while the trainer fits, validates, tests or predicts. One batch is one iteration.

    Lightning calls `training_step`, and that calls what it likes: an iteration is a batch, not a call of `forward`.
    The sanity check before training is left out.
    """

    def __init__(self, paths: str | Iterable[str], **options: Any) -> None:
        super().__init__(paths, **options)
        self._stage = ""  # that began it: validation is also a part of training
        self._in_batch = False

    @trouble.entry_point(passes=(ClewError,))
    def _open(self, stage: str, trainer: Any, module: Any) -> None:
        if self._running or trainer.sanity_checking:
            return
        self._stage, self._in_batch = stage, False
        around = getattr(trainer.strategy, "model", None)  # DDP, say: then gradients are looked at when averaged
        wrapped = isinstance(around, torch.nn.Module) and unwrapped(around) is module
        self._start(around if wrapped else module, next(iter(trainer.optimizers), None))

    @trouble.entry_point(passes=(ClewError,))
    def _close(self, stage: str) -> None:
        if stage == self._stage:
            self._end_batch()
            self.stop()

    @trouble.entry_point(passes=(ClewError,))
    def _begin_batch(self) -> None:
        self._end_batch()  # of a batch that was given up
        if self._running and self.tracer is not None:
            self._in_batch = True
            self.tracer.begin()

    @trouble.entry_point(passes=(ClewError,))
    def _end_batch(self) -> None:
        if self._in_batch and self._running and self.tracer is not None:
            self.tracer.end()
        self._in_batch = False

    # ---- Lightning's names

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._open("train", trainer, pl_module)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._open("validation", trainer, pl_module)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self._open("test", trainer, pl_module)

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        self._open("predict", trainer, pl_module)

    def on_train_batch_start(self, *ignored: Any, **named: Any) -> None:
        self._begin_batch()

    def on_validation_batch_start(self, *ignored: Any, **named: Any) -> None:
        self._begin_batch()

    def on_test_batch_start(self, *ignored: Any, **named: Any) -> None:
        self._begin_batch()

    def on_predict_batch_start(self, *ignored: Any, **named: Any) -> None:
        self._begin_batch()

    def on_train_batch_end(self, *ignored: Any, **named: Any) -> None:
        self._end_batch()

    def on_validation_batch_end(self, *ignored: Any, **named: Any) -> None:
        self._end_batch()

    def on_test_batch_end(self, *ignored: Any, **named: Any) -> None:
        self._end_batch()

    def on_predict_batch_end(self, *ignored: Any, **named: Any) -> None:
        self._end_batch()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._close("train")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._close("validation")

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self._close("test")

    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        self._close("predict")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._in_batch = False
        self.stop(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self.stop()  # a tuner has broken off

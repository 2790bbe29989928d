"""The hooks of a Lightning callback, for both packages in which Lightning is published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from clew import trouble
from clew.errors import ClewError
from clew.probes.model.unwrap import unwrapped

from .callback_base import Tracing


class LightningTracing(Tracing):
    """Traces while the trainer fits, validates, tests or predicts.

    Each batch is one iteration, not each call of `forward`: Lightning calls `training_step`, which may call anything.
    The sanity check before training is not traced.
    """

    def __init__(self, paths: str | Iterable[str], **options: Any) -> None:
        super().__init__(paths, **options)
        self._stage = ""  # the stage that started the tracer: validation also runs inside training
        self._in_batch = False

    @trouble.entry_point(passes=(ClewError,))
    def _start_stage(self, stage: str, trainer: Any, module: Any) -> None:
        if self._running or trainer.sanity_checking:
            return
        self._stage, self._in_batch = stage, False
        wrapper = getattr(trainer.strategy, "model", None)  # such as DDP: its gradients are read once averaged
        is_wrapped = isinstance(wrapper, torch.nn.Module) and unwrapped(wrapper) is module
        self._start(wrapper if is_wrapped else module, next(iter(trainer.optimizers), None))

    @trouble.entry_point(passes=(ClewError,))
    def _end_stage(self, stage: str) -> None:
        if stage == self._stage:
            self._end_batch()
            self.stop()

    @trouble.entry_point(passes=(ClewError,))
    def _begin_batch(self) -> None:
        self._end_batch()  # if the previous batch was abandoned
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
        self._start_stage("train", trainer, pl_module)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._start_stage("validation", trainer, pl_module)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        self._start_stage("test", trainer, pl_module)

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        self._start_stage("predict", trainer, pl_module)

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
        self._end_stage("train")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._end_stage("validation")

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self._end_stage("test")

    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        self._end_stage("predict")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._in_batch = False
        self.stop(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self.stop()  # if a tuner stopped early

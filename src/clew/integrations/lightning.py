"""A callback for Lightning's trainer.

    from clew.integrations.lightning import ModelTracerCallback

    trainer = Trainer(callbacks=[ModelTracerCallback(["model.encoder.*", "**.weight.grad"])])

For the package `lightning`, or for `pytorch_lightning` where only that is installed. Who has both, and takes the
trainer from `pytorch_lightning`, takes the callback from `clew.integrations.pytorch_lightning`.
"""

from __future__ import annotations

from clew.errors import MissingLibraryError

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError as error:
        raise MissingLibraryError(
            "missing-library", "clew.integrations.lightning needs lightning.", "pip install lightning"
        ) from error

from .loops import LightningTracing


class ModelTracerCallback(LightningTracing, Callback):  # type: ignore[misc]
    """`clew.ModelTracer` around a LightningModule while a trainer is at work; one batch is one iteration.

    Paths and options are those of `clew.ModelTracer`; the optimizer is the trainer's first. `callback.tracer` is the
    tracer, `callback.results` what it has seen.
    """


__all__ = ["ModelTracerCallback"]

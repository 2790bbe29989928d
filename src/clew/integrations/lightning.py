"""A callback for Lightning's trainer.

    from clew.integrations.lightning import ModelTracerCallback

    trainer = Trainer(callbacks=[ModelTracerCallback(["model.encoder.*", "**.weight.grad"])])

It works with the package `lightning`, or with `pytorch_lightning` if only that is installed. If both are installed, use
`clew.integrations.pytorch_lightning` for a trainer from `pytorch_lightning`.
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

from .lightning_hooks import LightningTracing


class ModelTracerCallback(LightningTracing, Callback):  # type: ignore[misc]
    """`clew.ModelTracer` around a LightningModule while a trainer runs; each batch is one iteration.

    Paths and options are those of `clew.ModelTracer`; the optimizer is the trainer's first. `callback.tracer` is the
    tracer, `callback.results` its results.
    """


__all__ = ["ModelTracerCallback"]

"""The callback of `clew.integrations.lightning` for the trainer of the package `pytorch_lightning`.

Lightning is published in two packages, and neither trainer accepts the callbacks of the other.
"""

from __future__ import annotations

from clew.errors import MissingLibraryError

try:
    from pytorch_lightning import Callback
except ImportError as error:
    raise MissingLibraryError(
        "missing-library",
        "clew.integrations.pytorch_lightning needs pytorch_lightning.",
        "pip install pytorch-lightning",
    ) from error

from .lightning_hooks import LightningTracing


class ModelTracerCallback(LightningTracing, Callback):  # type: ignore[misc]
    """`clew.ModelTracer` around a LightningModule while a trainer runs; each batch is one iteration."""


__all__ = ["ModelTracerCallback"]

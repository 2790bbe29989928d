"""`clew.ModelTracer`: inside a model, on one process or a thousand."""

from __future__ import annotations

from importlib.util import find_spec

from clew.errors import MissingLibraryError

if find_spec("torch") is None:
    raise MissingLibraryError(
        "missing-library", "clew.ModelTracer traces torch models, and needs torch.", "pip install torch"
    )

from . import reduce
from .flight_recorder import dump
from .tracer import ModelTracer

__all__ = ["ModelTracer", "dump", "reduce"]

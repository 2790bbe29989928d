"""`clew.ModelTracer`: inside a model, on one process or a thousand."""

from __future__ import annotations

from . import reduce
from .flight import dump
from .tracer import ModelTracer

__all__ = ["ModelTracer", "dump", "reduce"]

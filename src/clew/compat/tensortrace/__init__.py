"""TensorTracer's names, over clew: change `from tensortrace import ...` to `from clew.compat.tensortrace import ...`.

Two versions of TensorTracer are about. The one its README describes gives paths and callbacks to `ModelTracer`, and
`tracer.results` has the values. The later one gives them to `Variable`, and `variable.results` has them. Both run.
"""

from __future__ import annotations

from .h5py_tracer import H5PYSaverCallback
from .tracer import ModelTracer, TracedModel, trace_model
from .variable import GlobalVariableResult, LocalVariableResult, Variable, stack_padded_tensors, stack_tensors

__all__ = [
    "GlobalVariableResult",
    "H5PYSaverCallback",
    "LocalVariableResult",
    "ModelTracer",
    "TracedModel",
    "Variable",
    "stack_padded_tensors",
    "stack_tensors",
    "trace_model",
]

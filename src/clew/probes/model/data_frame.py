"""What was traced as a table for pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.errors import MissingLibraryError
from clew.records import NotKept, Summary

if TYPE_CHECKING:
    from .tracer import ModelTracer

_STATISTICS = ("min", "max", "mean", "std", "norm", "nan", "inf", "zeros")


def frame(tracer: ModelTracer) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingLibraryError("missing-library", "tracer.frame() needs pandas.", "pip install pandas") from error
    rows = []
    for name in tracer.results:
        result = tracer.results[name]
        columns = zip(result.values, result.iterations, result.ranks, strict=False)
        modes = result.modes or [""] * len(result.values)
        for (value, iteration, rank), mode in zip(columns, modes, strict=False):
            rows.append({"path": name, "iteration": iteration, "rank": rank, "mode": mode, **_described(value)})
    columns_ = ["path", "iteration", "rank", "mode", "value", "shape", "dtype", *_STATISTICS]
    return pandas.DataFrame(rows, columns=columns_)


def _described(value: Any) -> dict[str, Any]:
    if isinstance(value, (bool, int, float, str)) or value is None:
        return {"value": value}
    summary = value.summary if isinstance(value, NotKept) else _summary(value)
    if summary is None:
        return {"value": str(type(value).__name__)}
    number = value.item() if hasattr(value, "item") and summary.shape == () else None
    known = {name: getattr(summary, name, None) for name in _STATISTICS}
    return {"value": number, "shape": summary.shape, "dtype": summary.dtype, **known}


def _summary(value: Any) -> Summary | None:
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    from clew.values.tensor_stats import summarise

    return summarise(value)

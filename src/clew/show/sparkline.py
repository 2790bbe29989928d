"""Draws numbers as a small picture: a line of blocks for a terminal, an SVG for a page.

Long series are reduced to the extremes of each bucket, so that a single spike among millions stays visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

BLOCKS = "▁▂▃▄▅▆▇█"
BROKEN = "×"  # a bucket with NaN or infinity in it


@dataclass(frozen=True, slots=True)
class Buckets:
    """The extremes of each bucket (NaN without finite numbers), and which buckets hold NaN or infinity."""

    low: Floats
    high: Floats
    broken: npt.NDArray[np.bool_]


def buckets(numbers: Any, count: int) -> Buckets:
    """`numbers` in at most `count` buckets of equal length."""
    import numpy as np

    values = np.asarray(numbers, dtype=np.float64)
    count = min(count, len(values))
    if count == 0:
        return Buckets(values, values, np.zeros(0, dtype=np.bool_))
    begins = np.arange(count, dtype=np.int64) * len(values) // count
    finite = np.isfinite(values)
    if finite.all():
        none = np.zeros(count, dtype=np.bool_)
        return Buckets(np.minimum.reduceat(values, begins), np.maximum.reduceat(values, begins), none)
    low = np.minimum.reduceat(np.where(finite, values, np.inf), begins)
    high = np.maximum.reduceat(np.where(finite, values, -np.inf), begins)
    empty = np.isinf(low)
    broken = np.logical_or.reduceat(~finite, begins)
    return Buckets(np.where(empty, np.nan, low), np.where(empty, np.nan, high), broken)


def blocks(numbers: Any, width: int = 24) -> str:
    """▁▂▅█, at most `width` characters; × where a number is not finite."""
    import numpy as np

    reduced = buckets(numbers, width)
    middle = reduced.low / 2 + reduced.high / 2
    finite = np.isfinite(middle)
    if not finite.any():
        return BROKEN * len(middle)
    share = _share(middle, float(middle[finite].min()), float(middle[finite].max()))
    levels = np.where(reduced.broken, -1, np.nan_to_num(share * (len(BLOCKS) - 1)).round()).astype(np.int64)
    return "".join(BROKEN if level < 0 else BLOCKS[level] for level in levels.tolist())


def _share(numbers: Floats, bottom: float, top: float) -> Floats:
    """Scale numbers between bottom and top to 0…1. Halved first, because the largest floats are 2**1024 apart."""
    span = top / 2 - bottom / 2
    return (numbers / 2 - bottom / 2) / span if span > 0 else numbers * 0.0


def svg(numbers: Any, width: int = 160, height: int = 28) -> str:
    """A curve with its range as a self-contained SVG; red where a number is not finite."""
    import numpy as np

    reduced = buckets(numbers, width // 2)
    if len(reduced.low) == 0:
        return ""
    finite = np.isfinite(reduced.low)
    ends = (float(reduced.low[finite].min()), float(reduced.high[finite].max())) if finite.any() else (0.0, 0.0)
    x = (np.arange(len(reduced.low)) + 0.5) * width / len(reduced.low)
    high, low = (height - 2 - _share(side, *ends) * (height - 4) for side in (reduced.high, reduced.low))
    lines = "".join(
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1"/>'
        for points in _polylines(x, high, low, finite)
    )
    marks = "".join(
        f'<rect x="{place - 1:.1f}" y="0" width="2" height="{height}" fill="#d33"/>' for place in x[reduced.broken]
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{marks}{lines}</svg>'


def _polylines(x: Floats, high: Floats, low: Floats, finite: npt.NDArray[np.bool_]) -> list[str]:
    """Points of each run of neighbouring finite buckets, at the top and bottom of each bucket."""
    out: list[str] = []
    points: list[str] = []
    for place, top, bottom, is_finite in zip(x.tolist(), high.tolist(), low.tolist(), finite.tolist(), strict=True):
        if is_finite:
            points.append(f"{place:.1f},{top:.1f}")
            if top != bottom:
                points.append(f"{place:.1f},{bottom:.1f}")
        elif points:
            out.append(" ".join(points))
            points = []
    return [*out, " ".join(points)] if points else out

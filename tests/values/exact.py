"""Equality as clew means it, written the slow and plain way: an oracle for the tests."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any


def same(a: Any, b: Any) -> bool:
    """Exactly equal, by type and value, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, Decimal):
        return str(a) == str(b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(k, m) and same(v, w) for (k, v), (m, w) in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, set | frozenset):
        rest = list(b)
        for x in a:
            found = next((i for i, y in enumerate(rest) if same(x, y)), None)
            if found is None:
                return False
            del rest[found]
        return not rest
    if isinstance(a, list | tuple) or hasattr(a, "popleft"):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)

"""`clew.Failure`: what stands where the result of a failed item would."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Failure:
    """An item that failed. It stands where its result would, and is false, so that `if result:` passes over it."""

    index: int
    input: Any
    error: str
    traceback: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return False

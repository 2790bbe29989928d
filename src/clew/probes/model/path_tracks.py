"""What is known of one path while it is traced."""

from __future__ import annotations

from typing import Any


class Track:
    """One concrete path: what was last seen there, call by call of an iteration, and what waits to be gathered."""

    __slots__ = ("iterations", "last", "modes", "name", "ordinal", "patterns", "serial", "values")

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.patterns = {pattern}  # that led to it
        self.serial = -1  # the iteration that `ordinal` counts in
        self.ordinal = 0
        self.last: list[Any] = []
        self.values: list[Any] = []
        self.iterations: list[int] = []
        self.modes: list[str] = []

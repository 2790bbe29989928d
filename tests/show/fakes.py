"""Calls as the drawing side sees them, without a run behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class FakeChange:
    name: str
    value: Any
    line: int = 10


@dataclass(eq=False)
class FakeCall:
    """A call with the attributes of `clew.reading.Call` that a drawing asks for."""

    function: str = "f"
    args: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    error: str | None = None
    has_result: bool = False
    duration: float | None = 0.001
    file: str = "/home/me/mod.py"
    line: int = 1
    module: str = "mod"
    rank: int = 0
    pid: int = 1
    thread: str = "MainThread"
    message: str | None = None
    callers: list[tuple[str, int, str]] = field(default_factory=list)
    parent: FakeCall | None = None
    events: list[Any] = field(default_factory=list)

    @property
    def returned(self) -> bool:
        return self.duration is not None and self.error is None

    def calls(self, *events: Any) -> FakeCall:
        """With these events inside."""
        for event in events:
            if isinstance(event, FakeCall):
                event.parent = self
        self.events = [*self.events, *events]
        return self


class FakeTree:
    """Calls that no other made."""

    filtered = False

    def __init__(self, *roots: FakeCall) -> None:
        self.roots = list(roots)

    def __len__(self) -> int:
        return sum(1 for _ in self._all())

    def _all(self) -> Iterator[FakeCall]:
        left = list(self.roots)
        while left:
            call = left.pop()
            yield call
            left += [event for event in call.events if isinstance(event, FakeCall)]

    def events(self, call: FakeCall) -> list[Any]:
        return call.events

    def is_selected(self, call: FakeCall) -> bool:
        return True


@dataclass(eq=False)
class FakeNode:
    """A call that goes on, as the probe hands it to the live printer."""

    function: str = "f"
    inputs: list[tuple[str, Any]] = field(default_factory=list)
    parent: FakeNode | None = None
    pauses: bool = False
    file: str = "/home/me/mod.py"
    line: int = 1
    callers: list[tuple[str, int, str]] = field(default_factory=list)
    result: Any = None
    error: str | None = None
    returned: bool = False
    duration: float = 0.0
    thread: str = "MainThread"

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def ended(self, result: Any = None, *, error: str | None = None, duration: float = 0.0012) -> FakeNode:
        self.result, self.error, self.returned, self.duration = result, error, error is None, duration
        return self

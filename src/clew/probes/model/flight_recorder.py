"""The flight recorder: the last iterations in memory, written when something happens."""

from __future__ import annotations

import signal
import weakref
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from clew import trouble
from clew.errors import OptionError
from clew.values.class_facts import is_exactly

if TYPE_CHECKING:
    from .tracer import ModelTracer

_WINDOW = 64  # values that the running median is of
_FEWEST = 8  # before it counts

_recording: weakref.WeakSet[ModelTracer] = weakref.WeakSet()


def dump(reason: str = "clew.dump()") -> int:
    """Write what flight recorders hold, wherever they are in this process; gives how many iterations that were."""
    return sum(tracer.fire(reason) for tracer in list(_recording))


def begin(tracer: ModelTracer) -> None:
    _recording.add(tracer)


def end(tracer: ModelTracer) -> None:
    _recording.discard(tracer)


class Spikes:
    """Tells a number that is many times the running median of those before it."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._seen: dict[str, deque[float]] = {}

    def look(self, name: str, copy: Any) -> str:
        """What is to be said of a value; "" for nothing."""
        number = _number(copy)
        if number is None:
            return ""
        before = self._seen.setdefault(name, deque(maxlen=_WINDOW))
        usual = median(before) if len(before) >= _FEWEST else 0.0
        before.append(abs(number))
        if usual <= 0 or abs(number) <= self._factor * usual:
            return ""
        return f"`{name}` is {number:.6g}, {abs(number) / usual:.3g} times its running median of {usual:.6g}"


def _number(copy: Any) -> float | None:
    if isinstance(copy, torch.Tensor):
        return float(copy) if copy.numel() == 1 and copy.is_floating_point() else None
    return float(copy) if is_exactly(copy, float, int) else None


class OnSignal:
    """Writes flight recorders when a signal comes, and then does what was done before."""

    def __init__(self, number: int) -> None:
        self._number = number
        try:
            self._before: Any = signal.signal(number, self._came)
        except (ValueError, OSError) as error:
            raise OptionError(
                "bad-option", f"signal={number!r} cannot be waited for: {error}.",
                "Start the tracer in the main thread, with a signal such as signal.SIGUSR1.",
            ) from error  # fmt: skip

    def _came(self, number: int, frame: Any) -> None:
        try:
            dump(f"signal {signal.Signals(number).name}")
        except Exception as error:
            trouble.failed(error, "writing a flight recorder on a signal")
        if callable(self._before):
            before: Callable[[int, Any], Any] = self._before
            before(number, frame)

    def remove(self) -> None:
        signal.signal(self._number, self._before if self._before is not None else signal.SIG_DFL)

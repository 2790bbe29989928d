"""Local variables of a method, each version of them: its second body has a look after each statement that binds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clew import trouble
from clew.recorder.interruptible_lists import Log
from clew.recorder.live_call import LiveCall
from clew.recorder.plan import Plan
from clew.values import LIGHT, SCALAR_IDS, capture

Saw = Callable[[int, Any], None]  # the index of an expression, and its value now


class LocalsCall(LiveCall):
    """What the rewritten code talks to. It records nothing itself."""

    def __init__(self, plan: Plan, saw: Saw | None) -> None:
        self.plan = plan
        self.log = Log()
        self.tracked = {}
        self.result: Any = None
        self._saw = saw
        self._held: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> LocalsCall:
        return self

    def __exit__(self, *error: Any) -> None:
        self._held.clear()

    @trouble.entry_point(lambda call, index, value, site: (None, None))
    def note(self, index: int, value: Any, site: int) -> tuple[type | None, Any]:
        saw = self._saw
        if saw is None:
            return None, None
        before = self._held.get(index)
        if before is None or before[0] is not value or not _holds(value, before[1]):
            self._held[index] = (value, _stamp(value))
            saw(index, value)
        return None, self.check

    @trouble.entry_point()
    def check(self, first_site: int) -> None:
        saw = self._saw
        for index, (value, stamp) in list(self._held.items()):
            if not _holds(value, stamp) and saw is not None:
                self._held[index] = (value, _stamp(value))
                saw(index, value)

    @trouble.entry_point()
    def gone(self, index: int, site: int) -> Any:
        self._held.pop(index, None)
        return self.check

    lost = gone


class Held:
    """Values by name, as they were when they were last looked at."""

    def __init__(self) -> None:
        self._values: dict[Any, tuple[Any, Any]] = {}

    def is_new(self, name: Any, value: Any) -> bool:
        """Whether it is another value than before, or one that has changed."""
        before = self._values.get(name)
        if before is not None and before[0] is value and _holds(value, before[1]):
            return False
        self._values[name] = (value, _stamp(value))
        return True


def _stamp(value: Any) -> Any:
    if issubclass(type(value), torch.Tensor):
        return None if value.is_inference() else value._version
    return None if id(type(value)) in SCALAR_IDS else capture(value, LIGHT)


def _holds(value: Any, stamp: Any) -> bool:
    """Whether a value is what it was; of an inference tensor, which has no version, that is taken for granted."""
    if issubclass(type(value), torch.Tensor):
        return bool(stamp is None or value._version == stamp)
    return stamp is None or bool(stamp.unchanged(value))

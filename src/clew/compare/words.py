"""Numbers for names, the same in all runs of one comparison."""

from __future__ import annotations

from typing import Any


class Vocabulary:
    """Numbers for names, the same in all runs that are compared."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._names: list[Any] = []

    def number(self, name: Any) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._names)
            self._names.append(name)
        return found

    def name(self, number: int) -> Any:
        return self._names[number]

    def __len__(self) -> int:
        return len(self._names)


class Words:
    """The vocabularies of one comparison: functions by qualified name, values by role and name, stages and so on."""

    def __init__(self) -> None:
        self.functions = Vocabulary()
        self.tokens = Vocabulary()
        self.stages = Vocabulary()
        self.lanes = Vocabulary()
        self.items = Vocabulary()
        self.functions.number("")
        self.stages.number(None)
        self.lanes.number((0, 0, ""))
        self.items.number(None)

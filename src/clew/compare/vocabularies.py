"""Vocabularies: one number for each name, the same in all runs of one comparison."""

from __future__ import annotations

from typing import Any


class Vocabulary:
    """Gives each name one number, the same in all runs that are compared."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._names: list[Any] = []

    def number(self, name: Any) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def name(self, number: int) -> Any:
        return self._names[number]

    def __len__(self) -> int:
        return len(self._names)


class Vocabularies:
    """The vocabularies of one comparison: functions by qualified name, tokens by (role, name), stages and so on."""

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

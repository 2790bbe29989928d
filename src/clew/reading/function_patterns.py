"""Matches functions against a name or pattern given by the user."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew.records import Function


def matcher(pattern: str | None) -> Callable[[Function], bool]:
    """A test for functions: `step`, `Trainer.step`, `pkg.mod.Trainer.step`, `mod:Trainer.step`, `*.forward`."""
    if pattern is None:
        return lambda function: True
    module, colon, name = pattern.rpartition(":")
    if colon:
        name_matches, module_pattern = matcher(name), module
        return lambda function: _module_matches(module_pattern, function.module) and name_matches(function)
    name_pattern = _without_locals(pattern)
    if any(mark in name_pattern for mark in "*?["):
        return lambda function: any(fnmatchcase(text, name_pattern) for text in _dotted_tails(function))
    return lambda function: name_pattern in _dotted_tails(function)


def _module_matches(pattern: str, module: str) -> bool:
    tails = [module] + [module[place + 1 :] for place, letter in enumerate(module) if letter == "."]
    return any(fnmatchcase(tail, pattern) for tail in tails)


def _dotted_tails(function: Function) -> list[str]:
    """Every name that denotes the function: the full dotted name and each of its tails."""
    parts = _without_locals(f"{function.module}.{function.name}").split(".")
    return [".".join(parts[place:]) for place in range(len(parts))]


def _without_locals(name: str) -> str:
    return name.replace("<locals>.", "")
